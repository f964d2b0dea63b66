// Which element types operators take their floating-point operands in, in mixed precision. Used by insert_casts.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/op_traits.h"

namespace piper::analysis {

// [op] of the graph: the operator's own, kCompute where it adds the bias of a product whose rows are cut, or kF32 where
// a glob of `keep` covers its module, or where it is a product that a choice of experts (top-k) is made of. Ops that
// are not of the forward: kAny.
std::vector<ir::Takes> operand_types(const ir::Graph& graph, const std::vector<std::string>& keep);

// f64 before f32 before bf16 and f16, which together are f32.
DType wider_type(DType a, DType b);

}  // namespace piper::analysis
