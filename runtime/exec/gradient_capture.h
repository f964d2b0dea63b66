// Copies of the gradients of the first step that a run does, for --save-gradients: an update clears what it reads, so
// that step is another recording, in which copies to the host are before each update.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "runtime/checkpoint/save.h"
#include "runtime/hal/device.h"
#include "schemas/plan/plan.h"

namespace piper::exec {

class GradientCapture {
 public:
  // `plan`, `buffers` (by buffer of the plan) and `device` outlive it. R0405.
  static Result<std::unique_ptr<GradientCapture>> make(const plan::Bundle& bundle, const plan::RankPlan& plan,
                                                       const std::vector<hal::Address>& buffers, hal::Device& device);
  // The copies for the gradients that this instruction uses; none where it is no update.
  std::vector<hal::Command*> before(int32_t instruction) const;
  // The captured parts of the model's tensors, which this keeps.
  std::vector<checkpoint::Piece> pieces(const plan::Manifest& manifest) const;

 private:
  struct Range {
    int32_t instruction = 0;
    plan::BufferRange where;
    int64_t bytes = 0;
    std::unique_ptr<hal::Command> copy;
  };
  explicit GradientCapture(const plan::RankPlan& plan) : plan_(plan) {}

  const plan::RankPlan& plan_;
  std::map<int32_t, std::unique_ptr<hal::HostMemory>> copies_;  // by buffer, all of it
  std::vector<Range> ranges_;                                   // by instruction
};

// The parts of the model's tensors that this rank holds; with `changing` those that steps change alone. `buffers`: by
// buffer of the plan.
std::vector<checkpoint::Piece> weight_pieces(const plan::Manifest& manifest, const plan::RankPlan& plan,
                                             const std::vector<hal::Address>& buffers, bool changing);

}  // namespace piper::exec
