// Rewrites the loss top-down from its value: terms that are linear to it keep the global count, the
// others become statistics of a piece or errors. New ops are appended; what they replace is dropped.
#include "compiler/passes/normalise_losses.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/regions/cut_chunks.h"
#include "compiler/losses/expand_losses.h"
#include "compiler/losses/step_totals.h"
#include "schemas/base/check.h"

namespace piper::passes {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;

class Normaliser {
 public:
  Normaliser(ir::Graph& graph, const analysis::BatchMap& batch, const StepShape& step,
             const std::vector<std::string>& per_microbatch, diag::Diagnostics& diags)
      : graph_(graph),
        batch_(batch),
        step_(step),
        cut_(step.cut || step.pieces > 1),
        per_microbatch_(per_microbatch),
        totals_(graph, batch, step.pieces, diags),
        diags_(diags) {}

  Status run() {
    PIPER_CHECK(graph_.loss.valid(), "the graph has no loss");
    find_taints();
    const size_t given = graph_.num_ops();
    places_.assign(graph_.num_values(), 0);
    for (size_t i = 0; i < given; ++i)
      for (ValueId result : graph_.op(OpId(i)).results) places_[result.index] = i;
    PIPER_ASSIGN(ValueId loss, cut_ ? share(graph_.loss, OpId()) : Result<ValueId>(graph_.loss));
    for (ir::Graph::Output& output : graph_.outputs)
      if (output.value == graph_.loss) output.value = loss;
    std::erase_if(graph_.outputs, [&](const ir::Graph::Output& o) { return o.value != loss; });
    graph_.loss = loss;
    if (cut_) PIPER_RETURN_IF_ERROR(read_totals(given));
    PIPER_RETURN_IF_ERROR(replace_remaining_losses());
    if (const ir::Value& value = graph_.value(graph_.loss); !value.type.shape.empty()) {
      ir::GraphBuilder b = builder(graph_.op(value.producer));
      replace_loss(finish(b, b.reshape(graph_.loss, {})));
    }
    if (graph_.type(graph_.loss).dtype != DType::kF32) replace_loss(in_f32(graph_.loss));
    put_in_place();
    drop_dead();
    return failure_.ok() ? Status() : std::move(failure_);
  }

 private:
  void replace_loss(ValueId loss) {
    for (ir::Graph::Output& output : graph_.outputs) output.value = loss;
    graph_.loss = loss;
  }
  // In f32, in which losses of pieces are added up: as it was before it was cast from that, where that is all. The
  // gradient of one in f64 is 1 in f64, exactly.
  ValueId in_f32(ValueId loss) {
    const ir::Op& made_by = graph_.op(graph_.value(loss).producer);
    if (made_by.kind == OpKind::kCast && graph_.type(made_by.operands[0]).dtype == DType::kF32)
      return made_by.operands[0];
    ir::GraphBuilder b = builder(made_by);
    return finish(b, b.cast(loss, DType::kF32));
  }

  // ---------------------------------------------------------------- what mixes samples
  bool covered(const ir::Op& op) const {
    const std::string& scope = graph_.scope(op.scope);
    for (const std::string& glob : per_microbatch_) {
      if (glob == "*") return true;
      for (size_t end = scope.size(); end != std::string::npos && end > 0; end = scope.rfind('.', end - 1))
        if (glob_matches(glob, scope.substr(0, end))) return true;
    }
    return false;
  }

  // taint_[v]: an op that mixes samples, that v depends on and that `per_microbatch` does not cover.
  void find_taints() {
    taint_.assign(graph_.num_values(), OpId());
    shares_.assign(graph_.num_ops(), false);
    size_t next = 0;
    for (size_t i = 0; i < graph_.num_ops(); ++i) {
      const ir::Op& op = graph_.op(OpId(i));
      OpId taint;
      for (ValueId operand : op.operands)
        if (operand.valid() && taint_[operand.index].valid() && !taint.valid()) taint = taint_[operand.index];
      if (next < batch_.mixers.size() && batch_.mixers[next] == OpId(i)) {
        ++next;
        if (!taint.valid() && !covered(op)) taint = OpId(i);
      }
      for (ValueId result : op.results) taint_[result.index] = taint;
    }
  }

  Status not_separable(OpId mixer) {
    const ir::Op& op = graph_.op(mixer);
    const std::string& scope = graph_.scope(op.scope);
    std::string module = scope.empty() ? "*" : scope;
    auto error = diags_.error("P0331", step_.cut_by);
    error << "'" << ir::op_name(op.kind) << "' of " << graph_.provenance().describe(op.prov)
          << " computes one value from all samples of the batch, and the step's batch is divided into " << step_.pieces
          << " parts (microbatches x replicas)";
    error.note("the loss does not depend on it as a sum over samples, so the results of the parts cannot be added up");
    error.help("`per_microbatch: [\"" + module +
               "\"]` computes it separately for each part; the term then enters the loss with weight 1/" +
               std::to_string(step_.pieces) + ". The result differs from that on the whole batch");
    return error;
  }
  // Error unless everything that v depends on is separable or covered; what is made here is.
  Status want_clean(ValueId v) {
    const bool given = v.valid() && v.index < taint_.size();
    return given && taint_[v.index].valid() ? not_separable(taint_[v.index]) : Status();
  }

  // ---------------------------------------------------------------- building
  ir::GraphBuilder builder(const ir::Op& op, Phase phase = Phase::kForward) {
    in_place_of_.emplace_back(graph_.num_values(), place_of(op));
    ir::ScopeId scope = op.scope;
    ir::GraphBuilder b(graph_, scope, graph_.provenance().derived("normalise_losses", {op.prov}));
    b.set_chunk(op.chunk);
    b.set_phase(phase);
    return b;
  }
  size_t place_of(const ir::Op& op) const {
    const size_t value = op.results[0].index;
    if (value < places_.size()) return places_[value];
    const auto after = std::partition_point(in_place_of_.begin(), in_place_of_.end(),
                                            [&](const auto& made) { return made.first <= value; });
    return after == in_place_of_.begin() ? 0 : std::prev(after)->second;
  }
  // What is made of an op is where the op was: gradients are added up in the reverse order of ops, and the model
  // that is cut adds them as the one that is not.
  void put_in_place() {
    std::vector<size_t> wanted;
    for (size_t i = 0; i < graph_.num_ops(); ++i) wanted.push_back(place_of(graph_.op(OpId(i))));
    graph_.sort_ops(wanted);
  }
  ValueId finish(const ir::GraphBuilder& b, ValueId v) {
    if (!b.status().ok() && failure_.ok()) failure_ = Status(b.status().error());
    return v;
  }
  ValueId divide(ir::GraphBuilder& b, ValueId v, int64_t count) {
    return count == 1 && !cut_ ? v : b.add1(OpKind::kDiv, {v, b.scalar(static_cast<double>(count), b.type(v).dtype)});
  }

  // ---------------------------------------------------------------- the linear part
  // A value whose sum over the pieces is what `v` is on the whole batch. `reader` is the op that reads
  // v, none for the loss itself.
  Result<ValueId> share(ValueId v, OpId reader) {
    if (auto found = shared_.find(v.index); found != shared_.end()) return found->second;
    PIPER_ASSIGN(ValueId result, make_share(v, reader));
    shared_.emplace(v.index, result);
    return result;
  }

  Result<ValueId> make_share(ValueId v, OpId reader) {
    const ir::Value& value = graph_.value(v);
    if (batch_.of(v).kind == analysis::BatchKind::kNone || value.kind != ir::ValueKind::kOpResult)
      return weighted(v, reader.valid() ? reader : value.producer);
    // Whoever reads samples without a sum over them mixes them with others.
    if (per_sample(v) && reader.valid() && !covered(graph_.op(reader))) return not_separable(reader);
    OpId id = value.producer;
    const ir::Op op = graph_.op(id);
    switch (op.kind) {
      case OpKind::kCrossEntropyLoss:
      case OpKind::kNllLoss:
      case OpKind::kMseLoss: {
        if (!analysis::sums_over_samples(graph_, op, batch_)) break;  // of totals, or of samples that it mixes
        PIPER_ASSIGN(const ir::Op wide, with_totals(op));
        return op.kind == OpKind::kMseLoss ? squared_error(wide) : class_loss(wide);
      }
      case OpKind::kAdd:
      case OpKind::kSub: {
        PIPER_ASSIGN(ValueId a, share(op.operands[0], id));
        PIPER_ASSIGN(ValueId b, share(op.operands[1], id));
        return rebuilt(op, {a, b});
      }
      case OpKind::kMul:
        if (same_for_all(op.operands[0])) {
          PIPER_ASSIGN(ValueId a, totals_.wide(op, op.operands[0]));
          PIPER_ASSIGN(ValueId b, share(op.operands[1], id));
          return rebuilt(op, {a, b});
        }
        [[fallthrough]];
      case OpKind::kDiv:
        if (same_for_all(op.operands[1])) {
          PIPER_ASSIGN(ValueId a, share(op.operands[0], id));
          PIPER_ASSIGN(ValueId b, totals_.wide(op, op.operands[1]));
          return rebuilt(op, {a, b});
        }
        break;
      case OpKind::kWhere:
        if (same_for_all(op.operands[0])) {
          PIPER_ASSIGN(ValueId condition, totals_.wide(op, op.operands[0]));
          PIPER_ASSIGN(ValueId a, share(op.operands[1], id));
          PIPER_ASSIGN(ValueId b, share(op.operands[2], id));
          return rebuilt(op, {condition, a, b});
        }
        break;
      case OpKind::kMatmul:
        if (analysis::adds_samples(graph_, op, batch_)) {
          for (ValueId operand : op.operands) PIPER_RETURN_IF_ERROR(want_clean(operand));
          return v;
        }
        if (same_for_all(op.operands[0]) || same_for_all(op.operands[1])) {
          const size_t factor = same_for_all(op.operands[0]) ? 0 : 1;
          std::vector<ValueId> operands = op.operands;
          PIPER_ASSIGN(operands[factor], totals_.wide(op, op.operands[factor]));
          PIPER_ASSIGN(operands[1 - factor], share(op.operands[1 - factor], id));
          return rebuilt(op, std::move(operands));
        }
        break;
      case OpKind::kCat: {
        if (std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId x) { return per_sample(x); })) break;
        std::vector<ValueId> parts;
        for (ValueId operand : op.operands) {
          PIPER_ASSIGN(const ValueId part, share(operand, id));
          parts.push_back(part);
        }
        return rebuilt(op, std::move(parts));
      }
      case OpKind::kSum:
      case OpKind::kMean: {
        if (batch_.of(op.operands[0]).kind == analysis::BatchKind::kGrouped) break;
        bool reduces_batch = batch_.of(op.operands[0]).kind == analysis::BatchKind::kAxis;
        if (!reduces_batch) {
          PIPER_ASSIGN(ValueId a, share(op.operands[0], id));
          return rebuilt(op, {a});
        }
        PIPER_RETURN_IF_ERROR(want_clean(op.operands[0]));
        return op.kind == OpKind::kSum ? Result<ValueId>(v) : batch_mean(op);
      }
      case OpKind::kCast:
        if (!is_floating(graph_.type(op.operands[0]).dtype)) break;
        [[fallthrough]];
      case OpKind::kNeg:
      case OpKind::kDetach:
      case OpKind::kReshape:
      case OpKind::kPermute:
      case OpKind::kExpand:
      case OpKind::kSlice:
        if (per_sample(op.operands[0])) break;  // takes some samples out of the batch
        {
          PIPER_ASSIGN(ValueId a, share(op.operands[0], id));
          return rebuilt(op, {a});
        }
      default: break;
    }
    PIPER_RETURN_IF_ERROR(want_clean(v));
    PIPER_ASSIGN(const ValueId wide, totals_.wide(op, v));
    return weighted(wide, id);
  }

  bool per_sample(ValueId v) const {
    return batch_.of(v).kind == analysis::BatchKind::kAxis || batch_.of(v).kind == analysis::BatchKind::kGrouped;
  }
  // On every piece, once totals are of the step.
  bool same_for_all(ValueId v) const {
    return batch_.of(v).kind == analysis::BatchKind::kNone || batch_.of(v).kind == analysis::BatchKind::kTotal;
  }

  // v x 1/pieces, in the chunk of `at`.
  Result<ValueId> weighted(ValueId v, OpId at) {
    PIPER_CHECK(at.valid(), "a loss that no op makes");
    ir::GraphBuilder b = builder(graph_.op(at));
    return finish(b, divide(b, v, step_.pieces));
  }

  ValueId rebuilt(const ir::Op& op, std::vector<ValueId> operands) {
    if (operands == op.operands) {
      shares_[graph_.value(op.results[0]).producer.index] = true;
      return op.results[0];
    }
    ir::GraphBuilder b = builder(op);
    return finish(b, b.add1(op.kind, std::move(operands), op.attrs));
  }

  Result<ValueId> batch_mean(const ir::Op& op) {
    const auto& a = std::get<ir::ReduceAttrs>(op.attrs);
    int64_t count = step_.pieces;
    for (int64_t dim : a.dims) count *= graph_.type(op.operands[0]).shape[static_cast<size_t>(dim)];
    ir::GraphBuilder b = builder(op);
    return finish(b, divide(b, b.sum(op.operands[0], a.dims, a.keepdim), count));
  }

  // ---------------------------------------------------------------- losses
  Result<ValueId> squared_error(const ir::Op& op) {
    for (ValueId operand : op.operands) PIPER_RETURN_IF_ERROR(want_clean(operand));
    ir::GraphBuilder b = builder(op);
    return finish(b, losses::expand_squared_error(b, op, step_.pieces));
  }

  Result<ValueId> class_loss(const ir::Op& op) {
    for (ValueId operand : op.operands) PIPER_RETURN_IF_ERROR(want_clean(operand));
    const auto& a = std::get<ir::CrossEntropyLossAttrs>(op.attrs);
    ir::GraphBuilder b = builder(op);
    if (a.reduction != "mean") return finish(b, losses::expand_class_loss(b, op, ValueId()));
    PIPER_ASSIGN(ValueId inverse, inverse_count(op));
    return finish(b, losses::expand_class_loss(b, op, inverse));
  }

  // 1 / number (or class weight) of counted targets of the whole step, from copies of the ops that make
  // the labels. One per (chunk, labels, weight, ignore_index): counts never cross chunks.
  Result<ValueId> inverse_count(const ir::Op& op) {
    const auto& a = std::get<ir::CrossEntropyLossAttrs>(op.attrs);
    ValueId weight = op.operands.size() > 2 ? op.operands[2] : ValueId();
    auto key = std::make_tuple(op.chunk.index, op.operands[1].index, weight.index, a.ignore_index);
    if (auto found = counts_.find(key); found != counts_.end()) return found->second;
    losses::StepTotals::Copies copies;
    PIPER_ASSIGN(ValueId labels, totals_.copy(op, op.operands[1], copies));
    if (weight.valid()) {
      PIPER_ASSIGN(weight, totals_.copy(op, weight, copies));
    }
    ir::GraphBuilder b = builder(op, Phase::kCount);
    std::vector<ValueId> operands{labels};
    if (weight.valid()) operands.push_back(weight);
    ValueId count = b.add1(OpKind::kCrossEntropyCount, operands, ir::CrossEntropyAttrs{a.ignore_index, 0});
    count = b.add1(OpKind::kStepSum, {count});
    b.set_phase(Phase::kCountFinish);
    ValueId inverse = b.add1(OpKind::kReciprocal, {count});
    inverse = b.cast(inverse, losses::loss_sum_type(graph_.type(op.operands[0]).dtype));
    counts_.emplace(key, inverse);
    return finish(b, inverse);
  }

  // ---------------------------------------------------------------- the rest
  // The op, reading totals of the step.
  Result<ir::Op> with_totals(ir::Op op) {
    for (ValueId& operand : op.operands)
      if (operand.valid()) {
        PIPER_ASSIGN(operand, totals_.wide(op, operand));
      }
    return op;
  }
  // What reads a total otherwise than on the linear way to the loss, among the first `given` ops.
  Status read_totals(size_t given) {
    mark_live();
    const std::vector<bool> live = live_;
    const size_t before = graph_.num_ops();
    for (size_t i = 0; i < given; ++i) {
      const ir::Op op = graph_.op(OpId(i));
      if (!live[i] || shares_[i] || batch_.of(op.results[0]).kind == analysis::BatchKind::kTotal) continue;
      PIPER_ASSIGN(const ir::Op wide, with_totals(op));
      graph_.op(OpId(i)).operands = wide.operands;
    }
    if (graph_.num_ops() != before) graph_.sort_ops();
    return Status();
  }

  // Loss operators that are read otherwise: statistics of a piece, or unreduced. Their readers are
  // redirected; a mean divides by the piece's own count.
  Status replace_remaining_losses() {
    mark_live();
    std::vector<ValueId> instead(graph_.num_values());
    size_t before = graph_.num_ops();
    for (size_t i = 0; i < before; ++i) {
      if (!live_[i]) continue;
      const ir::Op op = graph_.op(OpId(i));
      bool class_loss = op.kind == OpKind::kCrossEntropyLoss || op.kind == OpKind::kNllLoss;
      if (!class_loss && op.kind != OpKind::kMseLoss) continue;
      ir::GraphBuilder b = builder(op, op.phase);  // one of data alone may be of a count
      ValueId result;
      if (!class_loss) {
        result = losses::expand_squared_error(b, op, 1);
      } else {
        const auto& a = std::get<ir::CrossEntropyLossAttrs>(op.attrs);
        ValueId inverse;
        if (a.reduction == "mean") {
          std::vector<ValueId> operands(op.operands.begin() + 1, op.operands.end());
          inverse = b.add1(OpKind::kCrossEntropyCount, operands, ir::CrossEntropyAttrs{a.ignore_index, 0});
          inverse =
              b.cast(b.add1(OpKind::kReciprocal, {inverse}), losses::loss_sum_type(graph_.type(op.operands[0]).dtype));
        }
        result = losses::expand_class_loss(b, op, inverse);
      }
      instead[op.results[0].index] = finish(b, result);
    }
    if (graph_.num_ops() == before) return {};
    auto redirect = [&](ValueId& v) {
      if (v.valid() && v.index < instead.size() && instead[v.index].valid()) v = instead[v.index];
    };
    for (size_t i = 0; i < graph_.num_ops(); ++i)
      for (ValueId& operand : graph_.op(OpId(i)).operands) redirect(operand);
    redirect(graph_.loss);
    for (ir::Graph::Output& output : graph_.outputs) redirect(output.value);
    graph_.sort_ops();
    return {};
  }

  static bool has_effect(const ir::Op& op) {
    return op.kind == OpKind::kBatchNorm && op.operands.size() > 3 && op.operands[3].valid();
  }

  void mark_live() {
    live_.assign(graph_.num_ops(), false);
    std::vector<bool> read(graph_.num_values(), false);
    read[graph_.loss.index] = true;
    for (size_t i = graph_.num_ops(); i-- > 0;) {
      const ir::Op& op = graph_.op(OpId(i));
      bool live = has_effect(op);
      for (ValueId result : op.results) live = live || read[result.index];
      live_[i] = live;
      if (!live) continue;
      for (ValueId operand : op.operands)
        if (operand.valid()) read[operand.index] = true;
    }
  }

  void drop_dead() {
    mark_live();
    std::vector<bool> drop(live_.size());
    for (size_t i = 0; i < live_.size(); ++i) drop[i] = !live_[i];
    graph_.remove_ops(drop);
  }

  ir::Graph& graph_;
  const analysis::BatchMap& batch_;
  StepShape step_;
  bool cut_;
  const std::vector<std::string>& per_microbatch_;
  losses::StepTotals totals_;
  diag::Diagnostics& diags_;
  std::vector<OpId> taint_;             // [value of the graph as given]
  std::vector<bool> shares_;            // [op of the graph as given] reads of a total what it is on the piece
  std::map<uint32_t, ValueId> shared_;  // value -> share()
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, int64_t>, ValueId> counts_;
  std::vector<bool> live_;                              // [op]
  std::vector<size_t> places_;                          // [value of the graph as given] index of the op that makes it
  std::vector<std::pair<size_t, size_t>> in_place_of_;  // values from this number on are made in place of the op there
  Status failure_;
};

}  // namespace

Status normalise_losses(ir::Graph& graph, const analysis::BatchMap& batch, const StepShape& step,
                        const std::vector<std::string>& per_microbatch, diag::Diagnostics& diags) {
  return Normaliser(graph, batch, step, per_microbatch, diags).run();
}

Status normalise_losses(ir::Module& module, diag::Diagnostics& diags) {
  const ir::Step& step = module.step;
  for (size_t v = module.variants.size(); v-- > 0;) {
    ir::Graph& graph = module.variants[v].chunked.graph;
    const int64_t local = module.variants[v].local_batch;
    const StepShape shape{step.batch / local, step.cut, step.cut_by};
    const analysis::BatchMap batch = analysis::track_batch(module.variants[v]);
    PIPER_RETURN_IF_ERROR(normalise_losses(graph, batch, shape, step.per_microbatch, diags));
    module.variants[v].like.reset();
  }
  return Status();
}

}  // namespace piper::passes
