#include "compiler/passes/part_sinks.h"

#include <utility>
#include <vector>

#include "compiler/ir/copy_graph.h"
#include "compiler/ir/graph.h"
#include "schemas/base/check.h"

namespace piper::passes {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

bool has_sink(const ir::Op& op) { return op.kind == OpKind::kSdpa && op.operands.size() > 4 && op.operands[4].valid(); }

void part(const ir::Graph& from, OpId id, ir::Graph& to, ir::CopyGraph& copy) {
  const ir::Op& op = from.op(id);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 3 || (i == 3 && op.operands[3].valid()); ++i) operands.push_back(copy.moved(op.operands[i]));
  ir::GraphBuilder b(to, copy.moved_scope(op.scope), to.provenance().derived("part_sinks", {op.prov}));
  b.set_chunk(op.chunk);
  b.set_phase(op.phase);
  const std::vector<ValueId> without = b.add(OpKind::kSdpa, std::move(operands), op.attrs);
  PIPER_CHECK(b.status().ok(), "attention without its sink: ", b.status().ok() ? "" : b.status().error().message);
  copy.append_like(id, OpKind::kAttentionSink, ir::NoAttrs{}, {without[0], without[1], copy.moved(op.operands[4])});
}

}  // namespace

void part_sinks(ir::Module& module) {
  for (ir::ModelVariant& variant : module.variants) {
    const ir::Graph& from = variant.chunked.graph;
    bool any = false;
    for (size_t i = 0; i < from.num_ops(); ++i) any = any || has_sink(from.op(OpId(i)));
    if (!any) continue;
    ir::Graph to;
    ir::CopyGraph copy(from, to);
    for (size_t i = 0; i < from.num_ops(); ++i) {
      if (has_sink(from.op(OpId(i)))) part(from, OpId(i), to, copy);
      else copy.copy_op(OpId(i));
    }
    copy.finish();
    std::vector<ValueId> gradients(to.num_values());
    for (uint32_t v = 0; v < variant.gradients.size(); ++v)
      if (copy.is_moved(ValueId(v))) gradients[copy.moved(ValueId(v)).index] = copy.moved(variant.gradients[v]);
    variant.gradients = std::move(gradients);
    variant.chunked.graph = std::move(to);
  }
}

}  // namespace piper::passes
