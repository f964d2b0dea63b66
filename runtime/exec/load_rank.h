// Load time of one rank: memory, weights, and every instruction bound, so that a step looks nothing
// up. Collective where the plan has communicators: all ranks call it. The result is what the
// executor runs.
#pragma once

#include <memory>
#include <vector>

#include "runtime/checkpoint/weights.h"
#include "runtime/exec/prepare.h"
#include "runtime/hal/device.h"

namespace piper::exec {

struct BoundInstruction {
  int32_t index = 0;  // in RankPlan::instructions
  std::unique_ptr<PreparedInstruction> prepared;
};

struct LoadedRank {
  const plan::Bundle* bundle = nullptr;
  const plan::RankPlan* plan = nullptr;
  std::unique_ptr<hal::Device> device;
  std::shared_ptr<hal::MemoryRegion> arena, persistent, group_scratch;  // the transport keeps them, too
  std::vector<std::byte*> buffer_base;                                  // by buffer
  std::unique_ptr<hal::Counter[]> events;
  std::map<std::tuple<int32_t, int32_t, int32_t, int64_t>, std::unique_ptr<BoundProgram>> programs;
  std::unique_ptr<GradientCapture> gradients;          // only where they are saved
  std::vector<std::vector<BoundInstruction>> streams;  // by stream of the plan
  // Arena, persistent buffers and communication scratch, in bytes.
  int64_t allocated_bytes() const { return arena->bytes() + persistent->bytes() + group_scratch->bytes(); }
  std::byte* at(const plan::BufferRange& range) const {
    return buffer_base.at(static_cast<size_t>(range.buffer)) + range.offset;
  }
};

struct LoadOptions {
  hal::DeviceOptions device;
  bool save_gradients = false;
  hal::WaitControl wait;
};

// `bundle` and `transport` must outlive the result. R0404, R0405, R05xx, R0401/R0402, P0604, each with
// the instruction or tensor it is about.
Result<std::unique_ptr<LoadedRank>> load_rank(const plan::Bundle& bundle, const plan::RankPlan& plan,
                                              const checkpoint::WeightSource* weights, hal::Transport& transport,
                                              const LoadOptions& options);

// "run PP0.F m3", "send to 1", of instruction `index`.
std::string action_text(const plan::Bundle& bundle, const plan::RankPlan& plan, int32_t index);
// "instr 87 all_reduce (replicate at x.yaml:14:3)".
std::string describe_instruction(const plan::Bundle& bundle, const plan::RankPlan& plan, int32_t index);

}  // namespace piper::exec
