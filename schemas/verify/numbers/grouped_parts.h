// Facts about kernels on rows in the order of their experts whose operands have parts of a cut's places (experts.h).
// Each row is computed by itself, with the matrix or the row of its expert, so along features, those of a row or of a
// matrix, they do what products and element-wise kernels do:
// - rows that are taken, tables that are spread over rows and sums over the rows of an expert keep each feature alone,
//   and are linear in rows and tables;
// - a product by groups makes each output feature alone, and sums over the features that it reads; its matrices'
//   gradient has the features of both of its operands.
// Which rows an expert has is the same at all places: orders, positions and counts have no parts.
#pragma once

#include <optional>
#include <string>

#include "schemas/verify/numbers/spread_call.h"

namespace piper::verify {

// Sets part, or share, as find_part does. Nothing: the kernel is none of these; else "" or why it is neither.
std::optional<std::string> part_of_rows(SpreadCall& call);

}  // namespace piper::verify
