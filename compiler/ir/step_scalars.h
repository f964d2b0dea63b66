// Numbers of the whole step, not of one microbatch: added up on every device, then over devices, and read by the log,
// by mean losses or by clipping. What forwards add to and the log has is one row of `step_sums`; everything after
// (slots of programs, nodes of the DAG, buffers) follows from the row. Rows say nothing of devices: passes/build_dag
// does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/ids.h"
#include "schemas/plan/plan.h"

namespace piper::ir {

using ScalarId = Id<struct ScalarTag>;  // Dag::scalars

// How rank 0, which writes the log, comes to a sum over other devices.
enum class Heard : uint8_t {
  kByMessage,  // one that has the sum sends it, to the replicas of rank 0 as well: they do the same work
  kByJoining,  // rank 0 takes part in the sum
};

// A scalar that forwards add to.
struct StepSum {
  std::string name;                                   // "loss": of slots and buffers
  plan::StepNumber number = plan::StepNumber::kNone;  // what plans know it by, and
  int32_t term = 0;                                   // of which mean
  std::string title;                                  // "loss of the step"
  std::string what;                                   // "the loss"
  DType dtype = DType::kF32;
  Heard heard = Heard::kByMessage;
  std::string stream;  // of its messages
  std::vector<ValueId> addends;
  std::vector<ValueId> beside = {};  // their devices take part in the sum, too
};
// Those of a graph, rows without addends included: a row's place is its number in every graph (SlotHolds::index).
std::vector<StepSum> step_sums(const Graph& graph);

enum class ScalarReader : uint8_t {
  kLog,       // of what forwards add up: beside the sum of this device, which a node takes and clears (TakeScalar)
  kMeanLoss,  // the chunk that divides by it clears it
  kClipping,  // in the middle of the step alone
  kUpdates,
  kSkips,  // what updates, and advances of the step, are left out by
};
struct StepScalar {
  std::string name;  // "loss"
  std::string title, what;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  plan::Reduction reduction = plan::Reduction::kSum;
  ScalarReader reader = ScalarReader::kLog;
  ValueId value;  // of a mean loss's count: the step_sum
  int64_t elements() const;
  int64_t bytes() const { return elements() * dtype_bytes(dtype); }
};

}  // namespace piper::ir
