// The operator functions of ops_table.def, and the patterns that several families share.
// Each function reads one node's operands and attributes, emits ops and sets the node's results;
// a form it does not support is refused with what is wrong. import_nodes.cc calls them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/frontend/onnx/node_import.h"

namespace piper::frontend::onnx {

#define PIPER_ONNX_OP(op_type, function) void import_##function(NodeImport& n);
#include "compiler/frontend/onnx/ops_table.def"
#undef PIPER_ONNX_OP

using ImportFunction = void (*)(NodeImport&);
// A node whose operator is the column ONNX of a row of schemas/plan/elementwise.def.
void import_elementwise(NodeImport& n);
// The operator of that row.
std::optional<OpKind> find_elementwise(std::string_view op_type);
// Null where the operator is in neither table.
ImportFunction find_operator(std::string_view op_type);
// "Abs, Add, ..." in alphabetical order.
std::string supported_operators();

// The attention that a product `probabilities x values` ends, where the nodes before it are the
// exporter's decomposition of scaled_dot_product_attention (PyTorch, torch.onnx for opsets below
// 23): scale split on q and k, optional mask, softmax, optional guard against NaN.
std::optional<ValueId> match_attention(NodeImport& n, ValueId probabilities, ValueId values);

// `linear(x, w)` where `weight` is a parameter's transpose; nullopt otherwise.
std::optional<ValueId> match_linear(NodeImport& n, ValueId x, ValueId weight, const std::string& name);
// The same op with a bias, where a + b is a linear op without one plus its bias; nullopt otherwise.
std::optional<ValueId> match_linear_bias(NodeImport& n, ValueId a, ValueId b);

// Group normalisation written as reshape, instance normalisation, reshape, mul, add (opsets below
// 21): each step turns the group_norm op of the step before it into a more complete one.
std::optional<ValueId> match_group_norm_reshape(NodeImport& n, ValueId x, const std::vector<int64_t>& to);
std::optional<ValueId> match_group_norm_scale(NodeImport& n, ValueId a, ValueId b);
std::optional<ValueId> match_group_norm_shift(NodeImport& n, ValueId a, ValueId b);

// gelu(x), where a * b is x * 0.5 * (1 + erf(x / sqrt(2))) in any order (opsets below 20).
std::optional<ValueId> match_gelu(NodeImport& n, ValueId a, ValueId b);

// mse_loss(x, target) where `squares` is the square of their difference; nullopt otherwise.
std::optional<ValueId> match_mse_loss(NodeImport& n, ValueId squares);

}  // namespace piper::frontend::onnx
