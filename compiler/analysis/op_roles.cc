#include "compiler/analysis/op_roles.h"

namespace piper::analysis {
namespace {

bool is_view_or_cast(ir::OpKind kind) {
  return kind == ir::OpKind::kReshape || kind == ir::OpKind::kPermute || kind == ir::OpKind::kExpand ||
         kind == ir::OpKind::kSlice || kind == ir::OpKind::kCast || kind == ir::OpKind::kDetach;
}

}  // namespace

std::vector<OpRole> op_roles(const ir::Graph& graph) {
  enum : uint8_t { kInputBit = 1, kWeightBit = 2 };
  std::vector<uint8_t> depends(graph.num_values());
  for (size_t v = 0; v < graph.num_values(); ++v) {
    const ir::ValueKind kind = graph.value(ir::ValueId(v)).kind;
    if (kind == ir::ValueKind::kInput) depends[v] = kInputBit;
    if (graph.is_unchanging(ir::ValueId(v))) continue;
    if (kind == ir::ValueKind::kParameter || kind == ir::ValueKind::kBuffer) depends[v] = kWeightBit;
  }
  std::vector<OpRole> roles;
  std::vector<bool> plain_weight(graph.num_values());  // a weight, or only views and casts of one
  for (size_t v = 0; v < graph.num_values(); ++v) plain_weight[v] = depends[v] == kWeightBit;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    uint8_t bits = 0;
    bool plain = is_view_or_cast(op.kind);
    for (ir::ValueId operand : op.operands) {
      if (!operand.valid()) continue;
      bits |= depends[operand.index];
      plain = plain && plain_weight[operand.index];
    }
    for (ir::ValueId result : op.results) {
      depends[result.index] = bits;
      plain_weight[result.index] = plain;
    }
    if ((bits & kWeightBit) == 0 || plain) {
      roles.push_back(OpRole::kCopied);
    } else {
      roles.push_back((bits & kInputBit) != 0 ? OpRole::kWork : OpRole::kWeights);
    }
  }
  return roles;
}

}  // namespace piper::analysis
