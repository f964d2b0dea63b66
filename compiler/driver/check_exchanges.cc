#include "compiler/driver/check_exchanges.h"

#include <algorithm>

#include "schemas/base/check.h"

namespace piper::driver {
namespace {

// [value] depends on an input of the piece. What is summed over the whole step is the same for every piece.
std::vector<bool> of_samples(const ir::Graph& graph) {
  std::vector<bool> depends(graph.num_values(), false);
  for (const ir::Input& input : graph.inputs()) depends[input.value.index] = true;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    const bool any =
        op.kind != ir::OpKind::kStepSum && std::any_of(op.operands.begin(), op.operands.end(),
                                                       [&](ir::ValueId v) { return v.valid() && depends[v.index]; });
    for (ir::ValueId result : op.results) depends[result.index] = any;
  }
  return depends;
}

}  // namespace

Status check_exchanges(const directives::Placement& placement, const ir::Dag& dag,
                       const std::vector<ModelVariant>& variants, int64_t batch, diag::Diagnostics& diags) {
  if (variants.size() < 2) return Status();
  const std::vector<bool> sampled = of_samples(variants[0].chunked.graph);
  auto shape = [&](ir::ValueId value, size_t devices) -> const std::vector<int64_t>& {
    const int64_t local = batch / dag.num_microbatches / static_cast<int64_t>(devices);
    const auto found =
        std::find_if(variants.begin(), variants.end(), [&](const ModelVariant& v) { return v.local_batch == local; });
    PIPER_CHECK(found != variants.end(), "no variant of the model for a local batch of ", local);
    return found->chunked.graph.type(value).shape;
  };
  for (const ir::ChunkCrossing& crossing : dag.crossings)
    for (int32_t m = 0; m < dag.num_microbatches; ++m) {
      const directives::Claim& a = placement.at(crossing.from, m);
      const directives::Claim& b = placement.at(crossing.to, m);
      if (a.ranks.size() == b.ranks.size() || a.ranks.empty() || b.ranks.empty()) continue;
      if (shape(crossing.value, a.ranks.size()) != shape(crossing.value, b.ranks.size())) continue;
      if (crossing.pass == ir::Pass::kForward && !sampled[crossing.value.index]) continue;
      auto error = diags.error("P0511", b.span);
      error << "'" << variants[0].chunked.graph.value(crossing.value).name << "' goes from "
            << dag.chunks[crossing.from.index].name << " on " << a.ranks.size() << " devices to "
            << dag.chunks[crossing.to.index].name << " on " << b.ranks.size()
            << ", and it is not per sample: a statistic of a piece, or a gradient of one";
      error.note("the other group is here", a.span);
      error.help("use groups of one size for these two regions, or cut the model elsewhere");
      return error;
    }
  return Status();
}

}  // namespace piper::driver
