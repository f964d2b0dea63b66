// The reference's program on numbers, and what stories of differences are written with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/leaves.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/program.h"

namespace piper::verify {

// Calls fit their kernels' signatures, as those of programs do (program_bytes.h). P0641.
Status check_reference(const plan::Reference& reference);

// A reference whose inputs are of so many samples, and not of any number, is for pieces of that size (pieces.h).
// `reference` must outlive what is returned.
NumberedProgram number_reference(const plan::Reference& reference, const Leaves& leaves, NumberTable& table);

// Whether a sum is a result: of a step a gradient, the loss or the number of dropped rows, as others (counts) are what
// these are made of; of an evaluation every one, as it is reported.
bool is_result(const plan::Manifest& manifest, const plan::Slot& slot);

// A number below `from` that `is_new`, all of whose operands are not: where a difference begins.
int32_t first_new(const NumberTable& table, int32_t from, const std::function<bool(int32_t)>& is_new);
// "call 3 (linear of "layers.0")".
std::string tell_call(const plan::Program& program, int32_t call);

}  // namespace piper::verify
