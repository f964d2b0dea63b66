// torch.einsum written as permutes, reshapes, sums and matrix products of the op set, contracted
// from left to right as PyTorch does without opt_einsum. Used by both import routes.
// Takes no sublist form; a label that repeats within one operand (a diagonal) is refused.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "schemas/base/status.h"

namespace piper::frontend {

// Whether the equation ("tc,ech->eth", "...ij,jk", spaces allowed) fits operands of these shapes.
// Error P0306, saying what does not fit.
Status check_einsum(std::string_view equation, const std::vector<std::vector<int64_t>>& shapes);

// Appends the ops and returns the result. The equation must have passed check_einsum.
ir::ValueId einsum(ir::GraphBuilder& builder, std::string_view equation, const std::vector<ir::ValueId>& operands);

}  // namespace piper::frontend
