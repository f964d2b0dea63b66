// The constant evaluator: type inference first, then one family.
#include "compiler/frontend/fold/evaluator.h"
#include "compiler/ir/element_wise.h"

namespace piper::frontend {
namespace {

// Larger results are left to the run time.
constexpr int64_t kMostBytes = int64_t{1} << 28;

eval::Evaluated run(const eval::Call& c) {
  using ir::OpKind;
  switch (c.kind) {
    case OpKind::kReshape:
    case OpKind::kPermute:
    case OpKind::kExpand:
    case OpKind::kSlice:
    case OpKind::kDetach:
    case OpKind::kCopy:
    case OpKind::kFill: return eval::views(c);
    case OpKind::kCast: return eval::cast(c);
    case OpKind::kNeg:
    case OpKind::kAbs:
    case OpKind::kSign:
    case OpKind::kExp:
    case OpKind::kLog:
    case OpKind::kSqrt:
    case OpKind::kRsqrt:
    case OpKind::kReciprocal:
    case OpKind::kSin:
    case OpKind::kCos:
    case OpKind::kErf:
    case OpKind::kTanh:
    case OpKind::kSigmoid:
    case OpKind::kRelu:
    case OpKind::kPowScalar:
    case OpKind::kClamp:
    case OpKind::kLogicalNot:
    case OpKind::kIsNan: return eval::unary(c);
    case OpKind::kSum:
    case OpKind::kMean:
    case OpKind::kAmax:
    case OpKind::kMaxDim:
    case OpKind::kCumsum:
    case OpKind::kTopk:
    case OpKind::kMatmul: return eval::reductions(c);
    case OpKind::kEmbedding:
    case OpKind::kGather:
    case OpKind::kScatter:
    case OpKind::kScatterAdd:
    case OpKind::kIndexSelect:
    case OpKind::kIndexAdd:
    case OpKind::kCat:
    case OpKind::kPad: return eval::indexing(c);
    default: return ir::is_element_wise_broadcast(c.kind) ? eval::binary(c) : std::nullopt;
  }
}

}  // namespace

std::optional<std::vector<ConstantTensor>> evaluate(ir::OpKind kind, const ir::Attrs& attrs,
                                                    const std::vector<ConstantTensor>& operands) {
  std::vector<const ir::TensorType*> types;
  for (const ConstantTensor& operand : operands) types.push_back(&operand.type);
  Result<std::vector<ir::TensorType>> results = ir::infer_types(kind, attrs, types);
  if (!results.ok()) return std::nullopt;
  for (const ir::TensorType& type : *results)
    if (type.bytes() > kMostBytes) return std::nullopt;
  return run({kind, attrs, operands, *results});
}

std::optional<ConstantTensor> constant_of(const ir::Graph& graph, ir::ValueId value) {
  const ir::Value& v = graph.value(value);
  if (v.kind != ir::ValueKind::kConstant) return std::nullopt;
  const ir::WeightSource& source = graph.constants()[v.payload].source;
  if (!source.data || !source.permutation.empty()) return std::nullopt;
  if (static_cast<int64_t>(source.data->size()) != v.type.bytes()) return std::nullopt;
  return ConstantTensor{v.type, source.data};
}

}  // namespace piper::frontend
