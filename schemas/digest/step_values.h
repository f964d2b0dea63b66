// What the values of a bundle's step are called, and an order of all ranks' instructions that goes with the flow of
// data. Made of the plans alone: the runtime hands in (rank, instruction, call, output), and names come from here. Used
// where values are recorded or one is looked for; not by a step.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/digest/digest_file.h"
#include "schemas/plan/plan.h"

namespace piper::digest {

// A result of a kernel call, or what a message or collective brought (call -1).
struct ValuePlace {
  int32_t instruction = 0, call = -1, output = 0;
};

class StepValues {
 public:
  // Takes a bundle that is proved, with all its ranks. P0604: it has another digest than `digest`. Errors of
  // plan::read_bundle() and verify::match().
  static Result<std::unique_ptr<StepValues>> read(const std::string& directory, const std::string& digest);
  static Result<std::unique_ptr<StepValues>> of(plan::Bundle bundle);

  // Grows along the instructions of a rank and along messages: of two values, the one that the other is made of comes
  // first. Both are places of the bundle.
  int64_t order(int32_t rank, int32_t instruction) const;
  ValueName name(int32_t rank, const ValuePlace& place) const;
  // "rank 1, instr 4 ..., call 2 ..., kernel log of log_1 (h.0) at model.py:27 (s.yaml:9:5), samples 4 to 7".
  std::string describe(int32_t rank, const ValuePlace& place) const;
  const plan::Bundle& bundle() const { return bundle_; }

 private:
  explicit StepValues(plan::Bundle bundle);
  Status put_in_order();
  void find_positions();
  void name_call(const plan::RankPlan& plan, int32_t program, int32_t arguments, const ValuePlace& place,
                 ValueName& name) const;
  void name_samples(const plan::RankPlan& plan, int32_t program, int32_t arguments, ValueName& name) const;
  std::string tensors_of(const plan::RankPlan& plan, const plan::BufferRange& where, int64_t bytes) const;
  const plan::RankPlan& plan_of(int32_t rank) const;

  plan::Bundle bundle_;                                       // its ranks are in their order
  std::vector<std::vector<int64_t>> order_;                   // [rank][instruction]
  std::vector<int64_t> microbatches_;                         // [chunk]
  std::map<std::pair<int32_t, int32_t>, int64_t> positions_;  // (chunk, rank): which of the chunk's replicas
};

}  // namespace piper::digest
