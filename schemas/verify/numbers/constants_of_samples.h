// Rule on numbers: a constant of the whole step's shape has a part for each of its samples, which every piece reads at
// the numbers that its samples have in the step. Right because a constant is all of its parts, and a piece that reads
// places 0, 1, ... + sample_offset reads those of its own samples: rule 9 says that sample_offset is the number of its
// first one. So a range over the batch, or a table that is made for it, is a value over the samples like an input.
//
// Which axis of a constant numbers the samples is the reference's to say, and no matter of belief: the parts that it
// names are there, whatever they mean.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/held.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/program.h"

namespace piper::verify {

// What a constant holds for each of the step's samples, of which `each` elements are together.
int32_t parts_of_samples(int32_t constant, DType dtype, int64_t each, int64_t batch, NumberTable& table);
// How it lies where those of several samples lie as in the constant.
HeldValue held_parts(int32_t parts, DType dtype, int64_t each, int64_t samples, const NumberTable& table);

// What a reference's constant slot holds.
HeldValue held_constant(const plan::Reference& reference, const plan::Reference::Constant& constant, int64_t batch,
                        NumberTable& table);
// What an index_select makes that reads such a constant at the numbers of the run's samples; nothing of any other.
std::optional<HeldValue> selected_parts(const plan::KernelCall& call, const std::vector<View>& operands,
                                        const NumberedProgram& run, NumberTable& table);

}  // namespace piper::verify
