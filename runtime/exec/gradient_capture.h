// Copies of the first step's gradients, for --save-gradients: an update clears what it reads, so it
// copies its range here first. Ranges are registered at load, so copying allocates nothing. Each
// update writes its own bytes: no locks between streams.
#pragma once

#include <cstring>
#include <map>
#include <vector>

#include "runtime/checkpoint/save.h"
#include "schemas/plan/plan.h"

namespace piper::exec {

class GradientCapture {
 public:
  explicit GradientCapture(const plan::RankPlan& plan) : plan_(plan) {}
  // Reserves room for the whole buffer of `range`; returns where the range's copy goes, which is valid
  // until the end.
  std::byte* reserve(const plan::BufferRange& range, int64_t bytes);
  // The captured parts of the model's tensors.
  std::vector<checkpoint::Piece> pieces(const plan::Manifest& manifest) const;

 private:
  struct Range {
    plan::BufferRange where;
    int64_t bytes = 0;
  };
  const plan::RankPlan& plan_;
  std::map<int32_t, std::vector<std::byte>> copies_;  // by buffer
  std::vector<Range> ranges_;
};

// The parts of the model's tensors that this rank holds.
std::vector<checkpoint::Piece> weight_pieces(const plan::Manifest& manifest, const plan::RankPlan& plan,
                                             const std::vector<std::byte*>& buffer_base);

}  // namespace piper::exec
