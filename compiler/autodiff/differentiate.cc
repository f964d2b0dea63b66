#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compiler/autodiff/autodiff.h"
#include "compiler/autodiff/find_splits.h"

namespace piper::autodiff {

namespace {

using ir::ChunkId;
using ir::Graph;
using ir::GraphBuilder;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;
using ir::ValueKind;

// One walk from the last forward op to the first.
class ReverseWalk {
 public:
  ReverseWalk(Graph& graph, diag::Diagnostics& diags, ir::BuilderChoices* choices)
      : graph_(graph), diags_(diags), choices_(choices), num_values_(graph.num_values()), num_ops_(graph.num_ops()) {}

  Result<std::vector<ValueId>> run() {
    find_needs();
    find_reached();
    PIPER_RETURN_IF_ERROR(check_loss());
    find_first_reads();
    splits_ = find_splits(graph_);
    sums_.resize(num_values_);
    gradients_.resize(num_values_);
    seed();
    for (size_t index = num_ops_; index-- > 0;) {
      const Op op = graph_.op(OpId(index));  // a copy: appending ops moves the graph's list
      if (op.phase != ir::Phase::kForward) continue;
      if (is_part(op)) join_parts(OpId(index), op);
      else PIPER_RETURN_IF_ERROR(visit(op));
      PIPER_RETURN_IF_ERROR(accumulate_after(OpId(index), op));
    }
    PIPER_RETURN_IF_ERROR(accumulate_zeros());
    return std::move(gradients_);
  }

 private:
  // The gradient of a value that one chunk contributes, summed in reverse op order of the uses.
  struct ChunkSum {
    ChunkId chunk;
    ValueId sum;
  };

  // needs_[v]: v is a trained parameter, or depends on one through operators with a derivative.
  void find_needs() {
    needs_.assign(num_values_, false);
    for (const ir::Parameter& parameter : graph_.parameters())
      needs_[parameter.value.index] = parameter.trainable && is_floating(graph_.type(parameter.value).dtype);
    for (size_t index = 0; index < num_ops_; ++index) {
      const Op& op = graph_.op(OpId(index));
      if (op.phase != ir::Phase::kForward || !passes_gradient(op.kind)) continue;
      const bool any = std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) { return needs(v); });
      if (!any) continue;
      for (ValueId result : op.results) needs_[result.index] = is_floating(graph_.type(result).dtype);
    }
  }
  // reached_[v]: the loss depends on v through operators with a derivative, or steps.
  void find_reached() {
    reached_.assign(num_values_, false);
    for (ValueId loss : graph_.all_losses()) reached_[loss.index] = true;
    for (size_t index = num_ops_; index-- > 0;) {
      const Op& op = graph_.op(OpId(index));
      if (op.phase != ir::Phase::kForward || derivative_of(op.kind) == Derivative::kZero) continue;
      if (std::none_of(op.results.begin(), op.results.end(), [&](ValueId v) { return reached_[v.index]; })) continue;
      for (ValueId operand : op.operands)
        if (operand.valid() && is_floating(graph_.type(operand).dtype)) reached_[operand.index] = true;
    }
  }
  bool needs(ValueId value) const { return value.valid() && needs_[value.index]; }

  Status check_loss() {
    PIPER_CHECK(graph_.loss.valid(), "differentiate: the graph has no loss");
    const ir::TensorType& type = graph_.type(graph_.loss);
    if (!type.shape.empty() || !is_floating(type.dtype))
      return diags_.error("P0422") << "the loss '" << graph_.value(graph_.loss).name << "' is " << to_string(type)
                                   << ", not a floating-point scalar (shape [])";
    const std::vector<ValueId> losses = graph_.all_losses();
    if (std::any_of(losses.begin(), losses.end(), [&](ValueId loss) { return needs(loss); })) return {};
    const std::vector<ir::Parameter>& all = graph_.parameters();
    if (std::none_of(all.begin(), all.end(),
                     [&](const ir::Parameter& p) { return needs(p.value) && reached_[p.value.index]; }))
      return diags_.error("P0421") << "the loss '" << graph_.value(graph_.loss).name
                                   << "' does not depend on any trained parameter";
    diags_.warning("P0421") << "the loss '" << graph_.value(graph_.loss).name
                            << "' depends on trained parameters only through step functions: all gradients are zero";
    return {};
  }

  // first_reads_[op]: the parameters for which `op` is the first op of its chunk, in op order, that
  // reads them; after its backward the chunk's sum is complete.
  void find_first_reads() {
    first_reads_.resize(num_ops_);
    std::vector<std::vector<ChunkId>> seen(num_values_);
    for (size_t index = 0; index < num_ops_; ++index) {
      const Op& op = graph_.op(OpId(index));
      if (op.phase != ir::Phase::kForward) continue;
      for (ValueId operand : op.operands) {
        if (!needs(operand) || graph_.value(operand).kind != ValueKind::kParameter) continue;
        std::vector<ChunkId>& chunks = seen[operand.index];
        if (std::find(chunks.begin(), chunks.end(), op.chunk) != chunks.end()) continue;
        chunks.push_back(op.chunk);
        first_reads_[index].push_back(operand);
      }
    }
  }

  void seed() {
    for (ValueId loss : graph_.all_losses())
      if (needs(loss)) seed(loss);
  }

  void seed(ValueId loss) {
    ChunkId chunk;
    if (graph_.value(loss).kind == ValueKind::kOpResult) chunk = graph_.op(graph_.value(loss).producer).chunk;
    GraphBuilder builder(graph_, ir::ScopeId(), graph_.provenance().derived("autodiff", {}));
    const DType type = graph_.type(loss).dtype;
    if (!graph_.scales_loss()) {
      sums_[loss.index].push_back({chunk, builder.scalar(1.0, type)});
      return;
    }
    builder.set_phase(ir::Phase::kBackward);
    builder.set_chunk(chunk);
    sums_[loss.index].push_back({chunk, builder.cast(graph_.loss_scale(), type)});
  }

  GraphBuilder builder_for(const Op& op) {
    GraphBuilder builder(graph_, op.scope, graph_.provenance().derived("autodiff", {op.prov}));
    builder.set_phase(ir::Phase::kBackward);
    builder.set_chunk(op.chunk);
    builder.set_choices(choices_);
    return builder;
  }

  Status visit(const Op& op) {
    std::vector<bool> wanted;
    for (ValueId operand : op.operands) wanted.push_back(needs(operand));
    if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return {};
    const bool reached = std::any_of(op.results.begin(), op.results.end(),
                                     [&](ValueId v) { return needs(v) && !sums_[v.index].empty(); });
    if (!reached) return {};
    const Rule rule = find_rule(op.kind);
    if (rule == nullptr) return not_differentiable(op, "has no derivative");

    GraphBuilder builder = builder_for(op);
    std::vector<ValueId> grad_results;
    for (ValueId result : op.results) grad_results.push_back(total(builder, result));
    const ir::TensorType first = graph_.type(op.results[0]);
    if (!grad_results[0].valid() && is_floating(first.dtype))
      grad_results[0] = builder.add1(OpKind::kFill, {}, ir::FillAttrs{first.shape, 0.0, first.dtype});
    std::vector<bool> read(op.results.size(), false);
    const std::vector<ValueId> gradients = rule(RuleContext{builder, op, grad_results, wanted, read});
    for (size_t r = 1; r < op.results.size(); ++r)
      if (grad_results[r].valid() && !read[r])
        return not_differentiable(op, "has no derivative by way of its result " + std::to_string(r) + " ('" +
                                          graph_.value(op.results[r]).name + "')");
    PIPER_CHECK(builder.status().ok(), "the derivative of ", op_name(op.kind),
                " does not fit: ", builder.status().ok() ? "" : builder.status().error().message);
    PIPER_CHECK(gradients.size() == op.operands.size(), "the derivative of ", op_name(op.kind), " gives ",
                gradients.size(), " gradients for ", op.operands.size(), " operands");
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!wanted[i]) continue;
      if (!gradients[i].valid()) return not_differentiable(op, "has no derivative by its operand " + std::to_string(i));
      PIPER_CHECK(graph_.type(gradients[i]) == graph_.type(op.operands[i]), "the derivative of ", op_name(op.kind),
                  " by operand ", i, " is ", to_string(graph_.type(gradients[i])), ", not ",
                  to_string(graph_.type(op.operands[i])));
      contribute(builder, op.operands[i], op.chunk, gradients[i]);
    }
    return {};
  }

  bool is_part(const Op& op) const {
    return op.kind == OpKind::kSlice && needs(op.operands[0]) && !splits_[op.operands[0].index].parts.empty();
  }

  // Parts of a split are handled together at the first of them, where the gradients of all are known.
  void join_parts(OpId id, const Op& op) {
    const Split& split = splits_[op.operands[0].index];
    const auto part_of = [&](OpId part) { return graph_.op(part).results[0]; };
    if (id != split.first) return;
    if (std::all_of(split.parts.begin(), split.parts.end(),
                    [&](OpId part) { return sums_[part_of(part).index].empty(); }))
      return;
    GraphBuilder builder = builder_for(op);
    builder.set_chunk(split.chunk);
    std::vector<ValueId> pieces;
    for (OpId part : split.parts) {
      ValueId piece = total(builder, part_of(part));
      if (!piece.valid()) {
        const ir::TensorType type = graph_.type(part_of(part));
        piece = builder.add1(OpKind::kFill, {}, ir::FillAttrs{type.shape, 0.0, type.dtype});
      }
      pieces.push_back(piece);
    }
    contribute(builder, op.operands[0], split.chunk, builder.add1(OpKind::kCat, pieces, ir::DimAttrs{split.dim}));
    PIPER_CHECK(builder.status().ok(), "the gradients of a split do not fit");
  }

  Status not_differentiable(const Op& op, const std::string& why) {
    return diags_.error("P0420") << "operator " << graph_.provenance().describe(op.prov) << " (" << op_name(op.kind)
                                 << ") " << why << ", and a trained parameter needs its gradient";
  }

  void contribute(GraphBuilder& builder, ValueId value, ChunkId chunk, ValueId gradient) {
    const ir::Value& to = graph_.value(value);
    const bool leaves = to.kind == ValueKind::kOpResult && graph_.op(to.producer).chunk != chunk;
    // The last look at `to`: appending an operator moves the list that it is in.
    if (to.kind == ValueKind::kParameter && graph_.parameters()[to.payload].master)
      gradient = builder.cast(gradient, *graph_.parameters()[to.payload].master);
    // A number of the step is its chunk's own: another chunk hears of it as of any gradient (emit/layout.cc).
    if (const ir::Value& made = graph_.value(gradient);
        leaves && made.kind == ValueKind::kOpResult && graph_.op(made.producer).phase == ir::Phase::kCountFinish)
      gradient = builder.add1(OpKind::kReshape, {gradient}, ir::ReshapeAttrs{graph_.type(gradient).shape});
    for (ChunkSum& entry : sums_[value.index]) {
      if (entry.chunk != chunk) continue;
      entry.sum = builder.add1(OpKind::kAdd, {entry.sum, gradient});
      return;
    }
    sums_[value.index].push_back({chunk, gradient});
  }

  // The sum over chunks, added in the producer's chunk in descending chunk order.
  ValueId total(GraphBuilder& builder, ValueId value) {
    std::vector<ChunkSum>& sums = sums_[value.index];
    if (!needs(value) || sums.empty()) return {};
    std::sort(sums.begin(), sums.end(), [](const ChunkSum& a, const ChunkSum& b) { return b.chunk < a.chunk; });
    ValueId result = sums[0].sum;
    for (size_t i = 1; i < sums.size(); ++i) result = builder.add1(OpKind::kAdd, {result, sums[i].sum});
    gradients_[value.index] = result;
    return result;
  }

  Status accumulate_after(OpId id, const Op& op) {
    for (ValueId parameter : first_reads_[id.index]) {
      const std::vector<ChunkSum>& sums = sums_[parameter.index];
      const auto entry =
          std::find_if(sums.begin(), sums.end(), [&](const ChunkSum& sum) { return sum.chunk == op.chunk; });
      if (entry == sums.end()) continue;
      GraphBuilder builder = builder_for(op);
      PIPER_RETURN_IF_ERROR(accumulate(builder, parameter, entry->sum));
    }
    return {};
  }

  // In the chunk that reads the parameter first.
  Status accumulate_zeros() {
    for (size_t index = 0; index < num_ops_; ++index)
      for (ValueId parameter : first_reads_[index]) {
        if (!reached_[parameter.index] || !sums_[parameter.index].empty()) continue;
        const Op op = graph_.op(OpId(index));
        GraphBuilder builder = builder_for(op);
        const ir::TensorType type = graph_.type(parameter);
        contribute(builder, parameter, op.chunk,
                   builder.add1(OpKind::kFill, {}, ir::FillAttrs{type.shape, 0.0, type.dtype}));
        PIPER_RETURN_IF_ERROR(accumulate(builder, parameter, sums_[parameter.index][0].sum));
      }
    return {};
  }

  Status accumulate(GraphBuilder& builder, ValueId parameter, ValueId sum) {
    (void)builder.add(OpKind::kAccumulateGrad, {sum}, ir::AccumulateGradAttrs{parameter});  // has no result
    if (!builder.status().ok()) return Status(builder.status().error());
    gradients_[parameter.index] = sums_[parameter.index].size() == 1 ? sum : ValueId();
    return {};
  }

  Graph& graph_;
  diag::Diagnostics& diags_;
  ir::BuilderChoices* const choices_;
  const size_t num_values_, num_ops_;              // of the forward graph
  std::vector<bool> needs_, reached_;              // [value]
  std::vector<std::vector<ValueId>> first_reads_;  // [op]
  std::vector<Split> splits_;                      // [value]
  std::vector<std::vector<ChunkSum>> sums_;        // [value]
  std::vector<ValueId> gradients_;                 // [value]
};

}  // namespace

Result<std::vector<ValueId>> differentiate(Graph& graph, diag::Diagnostics& diags, ir::BuilderChoices* choices) {
  return ReverseWalk(graph, diags, choices).run();
}

}  // namespace piper::autodiff
