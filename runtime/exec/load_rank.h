// Load time of one rank: memory, weights, and every instruction made a command of the device's queues and recorded, so
// that a step looks nothing up. Collective: all ranks call it, and wait for each other's weights as long as they are
// read. The result is what the executor submits.
#pragma once

#include <memory>
#include <vector>

#include "runtime/checkpoint/training_state.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/exec/backends/backend.h"
#include "runtime/exec/gradient_capture.h"
#include "runtime/exec/instructions/prepare.h"
#include "runtime/hal/device.h"
#include "schemas/checkpoint/open_checkpoint.h"

namespace piper::exec {

struct LoadedRank {
  const plan::Bundle* bundle = nullptr;
  const plan::RankPlan* plan = nullptr;
  std::shared_ptr<const Backend> backend;                         // an evaluation has its training's
  std::shared_ptr<hal::MemoryRegion> arena, persistent, scratch;  // the collectives keep them, too
  std::vector<hal::Address> buffers;                              // by buffer of the plan
  std::vector<std::unique_ptr<hal::Group>> groups;                // by communicator of the plan; of a training
  std::vector<std::unique_ptr<hal::Event>> events;                // by event of the plan
  BoundPrograms programs;
  std::vector<std::unique_ptr<hal::Command>> commands;  // by instruction of the plan
  std::unique_ptr<GradientCapture> gradients;           // only where they are saved
  std::unique_ptr<hal::Recording> step;
  std::unique_ptr<hal::Download> faults;           // of the kernels' fault record; nullptr: they throw
  std::unique_ptr<hal::Recording> capturing_step;  // the same, and the gradients before their updates
  // What the rank evaluates by, on the same device, memory and groups; nullptr: nothing.
  std::unique_ptr<LoadedRank> evaluation;
  LoadedRank* training = nullptr;  // of an evaluation: whose it is

  // At the good end of a run: all ranks call it. A rank that goes without it waits for no other.
  void close();
  // For training and evaluation, before what ends the collectives: NCCL waits until no graph holds calls of it.
  void end_recordings();
  // Arena, persistent buffers and scratch of sums, in bytes.
  int64_t allocated_bytes() const { return arena->bytes() + persistent->bytes() + scratch->bytes(); }
  hal::Device& device() const { return *backend->device; }
  hal::Address at(const plan::BufferRange& range) const {
    return buffers.at(static_cast<size_t>(range.buffer)) + range.offset;
  }
};

// What a rank begins with.
struct Beginning {
  const checkpoint::WeightSource* weights = nullptr;
  const checkpoint::OpenCheckpoint* resume = nullptr;  // where the state of training comes from instead of `weights`
  bool evaluates_only = false;  // of `resume` parameters and running statistics, of whatever optimizer it is
};

// `bundle` outlives the result. Where it has an evaluation, that is loaded, too. Errors, each with the instruction or
// tensor that it is about: R0401, R0402, R0404, R0405, R05xx, P0604; R0703, R0705 of a checkpoint; R0302, R0303, R0407
// of communicators that are opened; stopped().
Result<std::unique_ptr<LoadedRank>> load_rank(const plan::Bundle& bundle, const plan::RankPlan& plan,
                                              const Beginning& beginning, Backend backend, hal::ControlChannel& control,
                                              const hal::WaitControl& wait, bool save_gradients);

// Training begins anew: all memory of the rank is zero, then filled as load_rank() fills it. Nothing may be under way.
Status fill_again(LoadedRank& rank, const Beginning& beginning);

}  // namespace piper::exec
