// Which part, or which share, of a value a rank has where tensors are cut (plan::Manifest::cuts): an id that is equal
// for what may stand for each other, so that contents are compared as integers. Used by the rules about contents.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::verify {

class Places {
 public:
  // What all ranks have alike. Other ids are above.
  static constexpr int32_t kWhole = 0;
  // Contents (contents.h) have bits for so many ids.
  static constexpr int32_t kMost = 1 << 17;

  explicit Places(const plan::Manifest& manifest);

  bool any() const { return !first_.empty(); }
  std::vector<int64_t> of_cuts() const;  // [cut] how many
  bool fit() const { return num_named_ + static_cast<int64_t>(kept_.size()) <= kMost; }
  // The rank's place in its group of a cut, and that group; -1 and null where it is in none, or there is no such cut.
  int32_t place(int32_t cut, int32_t rank) const;
  const std::vector<int32_t>* group(int32_t cut, int32_t rank) const;
  // Whether the rank is in a group, and at this place of every group that it is in.
  bool is_at(int64_t place, int32_t rank) const;

  // What a rank has in a slot that says so; -1: it is in no group of that cut.
  int32_t id(plan::Spread spread, int32_t cut, int32_t rank) const;
  // What a rank keeps for itself, as saved blocks: only ranks at the same place of every cut have the like.
  int32_t kept(int32_t rank);

  bool is_share(int32_t id) const { return id > 0 && id < num_named_ && (id - 1) % 2 == 1; }
  bool is_part(int32_t id) const { return id > 0 && id < num_named_ && (id - 1) % 2 == 0; }
  int32_t cut_of(int32_t id) const;    // of a part or a share
  int32_t place_of(int32_t id) const;  // likewise
  // "the whole of", "the part of place 1 of cut "tp" of".
  std::string text(int32_t id) const;

 private:
  struct Member {
    int32_t group = -1, place = -1;
  };
  const plan::Manifest& manifest_;
  std::vector<std::unordered_map<int32_t, Member>> members_;  // [cut] by rank
  std::vector<int32_t> first_;                                // [cut] places of the cuts before it
  int32_t num_named_ = 1;                                     // ids of the whole, of parts and of shares are below
  std::map<std::vector<int32_t>, int32_t> kept_;              // by the places in all cuts
};

}  // namespace piper::verify
