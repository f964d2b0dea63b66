// How the results of calls lie in their memory, for those who number them (program.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/number.h"

namespace piper::verify {

// Bytes from the operand's first to after its last element.
int64_t span_bytes(const plan::Operand& operand);
// Whether it fills its memory, each byte once.
bool is_dense(const plan::Operand& operand);
// Whether its elements lie in rows or fill its memory in another order: nothing else is between them.
bool has_no_gaps(const plan::Operand& operand);
// Axes in the order of the memory that `out` names; nothing where `out` is not dense. The values' own strides are in
// `axes`, axis by axis as out's.
std::optional<std::vector<ViewAxis>> in_memory_order(const plan::Operand& out, const std::vector<ViewAxis>& axes);

}  // namespace piper::verify
