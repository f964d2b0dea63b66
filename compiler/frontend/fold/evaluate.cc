// The constant evaluator: type inference first, then the function that the operator's row names.
#include "compiler/frontend/fold/evaluator.h"

namespace piper::frontend {
namespace {

// Larger results are left to the run time.
constexpr int64_t kMostBytes = int64_t{1} << 28;

eval::Evaluated run(const eval::Call& c) {
  switch (c.kind) {
#define PIPER_OP(enumerator, name, attrs, types, axes, precision, folding, derivative) \
  case ir::OpKind::enumerator: return eval::folding(c);
#include "compiler/ir/ops.def"
#undef PIPER_OP
  }
  return std::nullopt;
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
