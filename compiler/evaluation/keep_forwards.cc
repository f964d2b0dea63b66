#include "compiler/evaluation/keep_forwards.h"

#include <utility>

#include "compiler/ir/copy_graph.h"
#include "compiler/evaluation/take_means.h"
#include "schemas/base/check.h"

namespace piper::evaluation {
namespace {

using ir::OpKind;
using ir::ValueId;

bool is_backward(ir::Phase phase) { return phase == ir::Phase::kBackward || phase == ir::Phase::kBackwardWeight; }

class ForwardCopy {
 public:
  explicit ForwardCopy(const ir::Graph& from) : from_(from), copy_(from, to_) {}

  ir::Graph make() {
    for (size_t i = 0; i < from_.num_ops(); ++i) {
      const ir::OpId id(static_cast<uint32_t>(i));
      const ir::Op& op = from_.op(id);
      if (is_backward(op.phase)) continue;
      if (op.kind == OpKind::kDropout) copy_.place(op.results[0], copy_.moved(op.operands[0]));
      else if (op.kind == OpKind::kBatchNorm && ir::has_effect(op)) normalise(op);
      else copy_.copy_op(id);
    }
    copy_.finish();
    to_.outputs.clear();
    to_.dropped.clear();
    return std::move(to_);
  }

 private:
  // (x - mean) / sqrt(var + eps) * weight + bias, torch.nn.functional.batch_norm of training=False.
  void normalise(const ir::Op& op) {
    ir::GraphBuilder b(to_, copy_.moved_scope(op.scope), op.prov);
    b.set_phase(op.phase);
    b.set_chunk(op.chunk);
    const ValueId x = copy_.moved(op.operands[0]);
    std::vector<int64_t> channels(to_.type(x).shape.size(), 1);
    channels[1] = to_.type(x).shape[1];
    const auto of_channel = [&](ValueId v) { return b.reshape(v, channels); };
    const DType type = to_.type(x).dtype;
    const ValueId mean = copy_.moved(op.operands[3]), var = copy_.moved(op.operands[4]);
    const DType wide = to_.type(var).dtype;
    const double eps = std::get<ir::BatchNormAttrs>(op.attrs).eps;
    const ValueId scale = b.add1(OpKind::kRsqrt, {b.add1(OpKind::kAdd, {var, b.scalar(eps, wide)})});
    ValueId y = b.add1(OpKind::kSub, {b.cast(x, wide), of_channel(mean)});
    y = b.add1(OpKind::kMul, {y, of_channel(scale)});
    if (const ValueId weight = op.operands[1]; weight.valid())
      y = b.add1(OpKind::kMul, {y, of_channel(b.cast(copy_.moved(weight), wide))});
    if (const ValueId bias = op.operands[2]; bias.valid())
      y = b.add1(OpKind::kAdd, {y, of_channel(b.cast(copy_.moved(bias), wide))});
    PIPER_CHECK(b.status().ok(), "a batch norm by running statistics: ", b.status().error().message);
    copy_.place(op.results[0], b.cast(y, type));
  }

  const ir::Graph& from_;
  ir::Graph to_;
  ir::CopyGraph copy_;
};

}  // namespace

Result<ir::Graph> forwards_of(const ir::Graph& step, int64_t samples, const diag::Span& asked,
                              diag::Diagnostics& diags) {
  ir::Graph forwards = ForwardCopy(step).make();
  PIPER_RETURN_IF_ERROR(take_means(forwards, samples, asked, diags));
  return forwards;
}

Status keep_forwards(ir::Module& module, const diag::Span& asked, diag::Diagnostics& diags) {
  for (ir::ModelVariant& variant : module.variants) {
    PIPER_ASSIGN(variant.chunked.graph, forwards_of(variant.chunked.graph, variant.local_batch, asked, diags));
    variant.gradients.clear();
    variant.repeating.reset();
    variant.lowered = {};
  }
  for (ir::ChunkProperties& row : module.distribution.chunks) {
    row.backward_split = false;
    row.recomputed.assign(row.recomputed.size(), false);
  }
  module.evaluates = true;
  module.training.clip_grad_norm = 0;
  module.training.clip_prov = module.training.update_prov = {};
  module.precision.scaling = ir::LossScale::kNone;
  module.schedule = {};
  module.shapes.clear();
  module.dag = {};
  module.state.gathers.clear();
  module.state.clears.clear();
  return Status();
}

}  // namespace piper::evaluation
