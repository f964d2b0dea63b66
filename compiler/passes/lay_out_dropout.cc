#include "compiler/passes/lay_out_dropout.h"

#include "compiler/ir/shapes.h"

namespace piper::passes {

using ir::OpKind;
using ir::Shape;
using ir::ValueId;

namespace {

bool has_dropout(const ir::Graph& graph) {
  for (size_t i = 0; i < graph.num_ops(); ++i)
    if (graph.op(ir::OpId(i)).kind == OpKind::kDropout) return true;
  return false;
}

}  // namespace

Status lay_out_dropout(ir::Graph& graph, const analysis::BatchMap& batch, int64_t local_batch, int64_t pieces,
                       diag::Diagnostics& diags) {
  ValueId zero;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    ir::Op& op = graph.op(ir::OpId(i));
    if (op.kind != OpKind::kDropout) continue;
    auto& attrs = std::get<ir::DropoutAttrs>(op.attrs);
    const Shape shape = graph.type(op.operands[0]).shape;
    analysis::BatchFactor f = batch.of(op.operands[0]);
    attrs.outer = attrs.batch = 1;
    attrs.inner = ir::elements(shape, 0, shape.size());
    switch (f.kind) {
      case analysis::BatchKind::kAxis: {
        size_t axis = static_cast<size_t>(f.axis);
        attrs.outer = ir::elements(shape, 0, axis) * f.outer;
        attrs.batch = local_batch;
        attrs.inner = f.inner * ir::elements_behind(shape, axis);
        break;
      }
      case analysis::BatchKind::kNone:
      case analysis::BatchKind::kTotal: {
        // One mask for all samples of the step: it must not follow the piece's offset.
        if (!zero.valid()) {
          ir::GraphBuilder b(graph, ir::ScopeId(), op.prov);
          zero = b.constant_i64({1}, {0});
        }
        graph.op(ir::OpId(i)).operands[2] = zero;
        break;
      }
      case analysis::BatchKind::kGrouped:
      case analysis::BatchKind::kMixed:
        if (pieces > 1)
          return diags.error("P0330").help(
                     "apply the dropout before the samples are mixed, or compile with one microbatch on one replica")
                 << "dropout of " << graph.provenance().describe(op.prov)
                 << " acts on a value that mixes the samples of the batch, so its mask cannot be the same when the "
                    "batch "
                 << "is divided into " << pieces << " parts";
        break;
    }
  }
  return {};
}

Status lay_out_dropout(ir::Module& module, diag::Diagnostics& diags) {
  for (size_t v = module.variants.size(); v-- > 0;) {
    ir::Graph& graph = module.variants[v].chunked.graph;
    if (!has_dropout(graph)) continue;
    const int64_t local = module.variants[v].local_batch;
    const analysis::BatchMap batch = analysis::track_batch(module.variants[v]);
    PIPER_RETURN_IF_ERROR(lay_out_dropout(graph, batch, local, module.step.batch / local, diags));
  }
  return Status();
}

}  // namespace piper::passes
