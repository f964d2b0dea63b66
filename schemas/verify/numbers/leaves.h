// What a step begins with, as numbers: inputs, parameters, constants, numbers of the step. A leaf is named after the
// model's own names and a constant's bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/held.h"
#include "schemas/verify/numbers/number.h"

namespace piper::verify {

// The number that the first sample of a run has in the step.
int32_t sample_offset(NumberTable& table);
// The rank's place in its group of each cut.
int32_t place_of_rank(NumberTable& table);
// The rank's place in its group of a cut; -1: no program has it.
int32_t known_place_of_rank(const NumberTable& table);

class Leaves {
 public:
  explicit Leaves(const plan::Bundle& bundle);
  // The leaf in a slot; -1 where it holds none. `samples`: of a piece; `sha256`: of what a constant slot holds.
  int32_t of_slot(const plan::Slot& slot, int64_t samples, const std::string& sha256, NumberTable& table) const;

  // How that leaf lies in the slot: of a parameter of experts, or one that is cut, a rank may have a part.
  HeldValue held(const plan::Program& program, const plan::Slot& slot, int32_t leaf, const NumberTable& table) const;
  // What a rank has of the tensor that a slot is of, where that is cut.
  Spread part_of_cut(const plan::Slot& slot) const;

  // Whether a slot has a part of a parameter that is one place along its first axis, which then looks like any other.
  bool is_of_one_expert(const plan::Slot& slot) const;

  int64_t batch() const { return manifest_.batch; }
  // For how many samples a program's inputs are; Reference::kSamples where it has none that are of any.
  int64_t samples_of(const plan::Program& program) const;

 private:
  const plan::InputDecl* declared(const plan::Slot& slot) const;
  const plan::TensorInfo* tensor(const plan::Slot& slot) const;  // nullptr: the model has none
  int32_t input(const plan::Slot& slot, int64_t samples, NumberTable& table) const;
  int32_t parameter(const plan::Slot& slot, NumberTable& table) const;
  // Whether the slot has as much of a tensor of so many bytes as its place.
  bool is_part_of_cut(const plan::Slot& slot, int64_t bytes) const;
  Spread cut_of_program(const plan::Program& program) const;

  const plan::Manifest& manifest_;
  std::map<std::string, DType> working_;  // types of the copies that programs read of a tensor
};

}  // namespace piper::verify
