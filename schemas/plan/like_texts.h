// What the text of a plan that does another one's work (like_ranks.h) says of its own: which parts of tensors the rank
// has, and the arguments that name those parts. The rest of a text would be the other plan's, so that a bundle grows
// with the kinds of its ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::plan {

// One placement, in the order of the plan's: the other plan's next one except what is said here, or one that the
// other plan lacks.
struct LikePlacement {
  int64_t skips = 0;              // placements of the other plan that come before, and that this one lacks
  std::optional<int64_t> first;   // element of the tensor
  std::optional<int64_t> offset;  // bytes, in the buffer
  std::optional<bool> owner;
  std::optional<Placement> whole;  // nothing of the other plan's, and the rest is unset
};
std::vector<LikePlacement> like_placements(const std::vector<Placement>& own, const std::vector<Placement>& others);
// The placement that an item stands for; nullopt where the other plan has no more. `next`: index of one of the other
// plan's, moved on by those that are skipped or taken.
std::optional<Placement> placement_of(const LikePlacement& item, const std::vector<Placement>& others, size_t& next);

// An argument list that names other bytes of the other plan's buffers.
struct LikeArguments {
  std::string name;
  std::vector<int64_t> offsets;  // pairs: number of the argument, bytes in its buffer
};
LikeArguments like_arguments(const ArgumentList& own, const ArgumentList& other);
// nullopt where a number is no argument's.
std::optional<ArgumentList> arguments_of(const LikeArguments& item, const ArgumentList& other);

}  // namespace piper::plan
