#include "compiler/ir/copy_graph.h"

#include <utility>

#include "schemas/base/check.h"

namespace piper::ir {

CopyGraph::CopyGraph(const Graph& from, Graph& to, Constants constants)
    : from_(from), to_(to), moved_(from.num_values()) {
  PIPER_CHECK(to.num_values() == 0, "the copy has values already");
  to_.provenance() = from_.provenance();
  for (size_t i = 0; i < from_.num_values(); ++i) {
    const Value& v = from_.value(ValueId(static_cast<uint32_t>(i)));
    switch (v.kind) {
      case ValueKind::kInput:
        moved_[i] = to_.add_input(from_.inputs()[v.payload].name, v.type, from_.inputs()[v.payload].batched);
        break;
      case ValueKind::kParameter: {
        const Parameter& p = from_.parameters()[v.payload];
        moved_[i] = to_.add_parameter(p.names, v.type, p.trainable, p.source);
        to_.parameters().back() = p;
        to_.parameters().back().value = moved_[i];
        break;
      }
      case ValueKind::kBuffer: {
        const Parameter& p = from_.buffers()[v.payload];
        moved_[i] = to_.add_buffer(p.names, v.type, p.source);
        break;
      }
      case ValueKind::kConstant:
        if (constants == Constants::kCopied)
          moved_[i] = to_.add_constant(v.name, v.type, from_.constants()[v.payload].source);
        break;
      case ValueKind::kOpResult:
      case ValueKind::kSeedStep:
      case ValueKind::kSampleOffset:
      case ValueKind::kPlace:
      case ValueKind::kLossScale: break;
    }
  }
}

ValueId CopyGraph::moved(ValueId old) {
  if (!old.valid()) return old;
  ValueId& id = moved_[old.index];
  if (id.valid()) return id;
  const Value& value = from_.value(old);
  if (value.kind == ValueKind::kSeedStep) return id = to_.seed_step();
  if (value.kind == ValueKind::kSampleOffset) return id = to_.sample_offset();
  if (value.kind == ValueKind::kPlace) return id = to_.place();
  if (value.kind == ValueKind::kLossScale) return id = to_.loss_scale();
  PIPER_CHECK(false, "read before it is made: ", value.name);
  return id;
}

OpId CopyGraph::copy_op(OpId old) {
  const Op& op = from_.op(old);
  std::vector<ValueId> operands;
  for (ValueId v : op.operands) operands.push_back(moved(v));
  return append_like(old, op.kind, op.attrs, std::move(operands));
}

OpId CopyGraph::append_like(OpId old, OpKind kind, Attrs attrs, std::vector<ValueId> operands,
                            std::vector<TensorType> more) {
  const Op& op = from_.op(old);
  if (auto* grad = std::get_if<AccumulateGradAttrs>(&attrs)) grad->parameter = moved(grad->parameter);
  std::vector<TensorType> types;
  for (ValueId v : op.results) types.push_back(from_.type(v));
  for (TensorType& type : more) types.push_back(std::move(type));
  const OpId id = to_.append(kind, std::move(attrs), std::move(operands), std::move(types), moved_scope(op.scope),
                             op.prov, op.results.empty() ? "" : from_.value(op.results[0]).name);
  to_.op(id).phase = op.phase;
  to_.op(id).chunk = op.chunk;
  for (size_t i = 0; i < op.results.size(); ++i) place(op.results[i], to_.op(id).results[i]);
  return id;
}

void CopyGraph::finish() {
  for (const Graph::Output& output : from_.outputs) to_.outputs.push_back({output.name, moved(output.value)});
  for (ValueId term : from_.loss_terms) to_.loss_terms.push_back(moved(term));
  for (ValueId number : from_.dropped) to_.dropped.push_back(moved(number));
  if (from_.loss.valid()) to_.loss = moved(from_.loss);
  if (from_.scales_loss()) (void)to_.loss_scale();  // nothing reads it before the backward is made
}

bool has_effect(const Op& op) {
  return op.kind == OpKind::kAccumulateGrad ||
         (op.kind == OpKind::kBatchNorm && op.operands.size() > 3 && op.operands[3].valid());
}

void drop_unread(Graph& graph) {
  std::vector<bool> read(graph.num_values(), false), drop(graph.num_ops(), false);
  for (const Graph::Output& output : graph.outputs) read[output.value.index] = true;
  for (ValueId loss : graph.all_losses()) read[loss.index] = true;
  for (ValueId number : graph.dropped) read[number.index] = true;
  for (size_t i = graph.num_ops(); i-- > 0;) {
    const Op& op = graph.op(OpId(static_cast<uint32_t>(i)));
    bool live = has_effect(op);
    for (ValueId result : op.results) live = live || read[result.index];
    drop[i] = !live;
    if (!live) continue;
    for (ValueId operand : op.operands)
      if (operand.valid()) read[operand.index] = true;
  }
  graph.remove_ops(drop);
}

}  // namespace piper::ir
