#include "compiler/passes/split_backward.h"

namespace piper::passes {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;
using ir::ValueKind;

bool is_view(OpKind kind) { return kind == OpKind::kReshape || kind == OpKind::kPermute; }

// [value] whether it depends on a graph input; forward ops only.
std::vector<bool> find_activations(const ir::Graph& graph) {
  std::vector<bool> activation(graph.num_values(), false);
  for (const ir::Input& input : graph.inputs()) activation[input.value.index] = true;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(OpId(i));
    if (op.phase != Phase::kForward) continue;
    for (ValueId v : op.operands)
      if (v.valid() && activation[v.index])
        for (ValueId result : op.results) activation[result.index] = true;
  }
  return activation;
}

// `gradients`: [value] its total gradient, invalid where none. `split`: [chunk], the chunks to cut.
void split_backward(ir::Graph& graph, const std::vector<ir::ValueId>& gradients, const std::vector<bool>& split) {
  const std::vector<bool> activation = find_activations(graph);
  std::vector<bool> input_part(graph.num_ops(), false);
  auto mark = [&](ValueId v) {
    if (v.valid() && graph.value(v).kind == ValueKind::kOpResult && graph.value(v).producer.valid())
      input_part[graph.value(v).producer.index] = true;
  };
  for (size_t v = 0; v < gradients.size() && v < activation.size(); ++v)
    if (activation[v]) mark(gradients[v]);
  // A value that another chunk's backward reads is due before that chunk's weight part.
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(OpId(i));
    for (ValueId v : op.operands)
      if (v.valid() && graph.value(v).kind == ValueKind::kOpResult &&
          graph.op(graph.value(v).producer).chunk != op.chunk)
        mark(v);
  }
  for (size_t i = graph.num_ops(); i-- > 0;)
    if (input_part[i])
      for (ValueId v : graph.op(OpId(i)).operands) mark(v);
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    ir::Op& op = graph.op(OpId(i));
    if (op.phase != Phase::kBackward || !split[op.chunk.index] || input_part[i]) continue;
    // Views of what the input part makes, and their accumulation, cost nothing there and would cost a buffer here.
    const bool follows = op.kind == OpKind::kAccumulateGrad || is_view(op.kind);
    if (follows && op.operands[0].valid()) {
      const ir::Value& value = graph.value(op.operands[0]);
      const bool here = value.kind == ValueKind::kOpResult && input_part[value.producer.index] &&
                        graph.op(value.producer).phase == Phase::kBackward &&
                        graph.op(value.producer).chunk == op.chunk;
      if (here && (graph.op(value.producer).results.size() > 1 ||
                   (op.kind == OpKind::kAccumulateGrad && is_view(graph.op(value.producer).kind)))) {
        input_part[i] = true;
        continue;
      }
    }
    op.phase = Phase::kBackwardWeight;
  }
}

}  // namespace

void split_backward(ir::Module& module) {
  std::vector<bool> split;
  for (const ir::ChunkProperties& row : module.distribution.chunks) split.push_back(row.backward_split);
  for (ir::ModelVariant& variant : module.variants) {
    split_backward(variant.chunked.graph, variant.gradients, split);
    if (variant.repeating) split_backward(*variant.repeating, variant.gradients, split);
  }
}

}  // namespace piper::passes
