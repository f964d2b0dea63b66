#include "compiler/driver/check_boundaries.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "compiler/analysis/updated_statistic.h"
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

struct Boundary {
  const ir::DeviceGroup& from;
  const ir::DeviceGroup& to;
  diag::Span from_at, to_at;
};

Boundary boundary_of(const ir::Module& module, const ir::Crossing& crossing, int32_t m) {
  const ir::Distribution& d = module.distribution;
  return {d.groups[d.group(crossing.from, m).index], d.groups[d.group(crossing.to, m).index],
          d.chunks[crossing.from.index].devices[m], d.chunks[crossing.to.index].devices[m]};
}

std::string samples(int64_t count) { return std::to_string(count) + (count == 1 ? " sample" : " samples"); }

// What the model does with the samples of a variant at an operator, in words.
std::string does(const ir::ModelVariant& variant, size_t at) {
  const ir::Graph& graph = variant.chunked.graph;
  if (at >= graph.num_ops()) return "with " + samples(variant.local_batch) + ", the model ends there";
  const ir::Op& op = graph.op(ir::OpId(at));
  return "with " + samples(variant.local_batch) + ", the first operator that differs is '" +
         std::string(ir::op_name(op.kind)) + "' of " + graph.provenance().describe(op.prov);
}

void tell_difference(const ir::ModelVariant& a, const ir::ModelVariant& b, diag::InFlight& error) {
  const ir::Graph &first = a.chunked.graph, &second = b.chunked.graph;
  size_t at = 0;
  while (at < std::min(first.num_ops(), second.num_ops()) &&
         first.op(ir::OpId(at)).kind == second.op(ir::OpId(at)).kind &&
         first.op(ir::OpId(at)).operands == second.op(ir::OpId(at)).operands)
    ++at;
  for (const ir::ModelVariant* variant : {&a, &b}) error.note(does(*variant, at));
}

Status same_crossings(const ir::Module& module, diag::Diagnostics& diags) {
  const ir::ModelVariant& reference = module.variants[0];
  for (const ir::ModelVariant& other : module.variants) {
    const auto &wanted = reference.lowered.crossings, &found = other.lowered.crossings;
    size_t at = 0;
    while (at < std::min(wanted.size(), found.size()) && wanted[at].value == found[at].value) ++at;
    if (at == wanted.size() && at == found.size()) continue;
    auto error = diags.error("P0512");
    error << "the model has another structure for " << samples(other.local_batch) << " than for "
          << reference.local_batch << "; use device groups of one size";
    const auto name = [](const ir::ModelVariant& variant, const ir::Crossing& crossing) {
      return variant.chunked.graph.value(crossing.value).name;
    };
    const auto hands_on = [&](const ir::ModelVariant& variant, const ir::Crossing& crossing) {
      return "with " + samples(variant.local_batch) + ", a stage sends '" + name(variant, crossing) + "'";
    };
    if (at < wanted.size() && at < found.size() && name(reference, wanted[at]) == name(other, found[at])) {
      tell_difference(reference, other, error);
      return error;
    }
    if (at < wanted.size()) error.note(hands_on(reference, wanted[at]));
    if (at < found.size()) error.note(hands_on(other, found[at]));
    return error;
  }
  return Status();
}

Status groups_nest(const ir::Module& module, diag::Diagnostics& diags) {
  for (const ir::Crossing& crossing : module.crossings())
    for (int32_t m = 0; m < module.step.num_microbatches; ++m) {
      const Boundary b = boundary_of(module, crossing, m);
      const auto [fewer, more] = std::minmax({b.from.replicas(), b.to.replicas()});
      if (more % fewer == 0) continue;
      auto error = diags.error("P0216", b.to_at);
      error << module.chunks()[crossing.from.index].name << " on " << b.from.size_text() << " feeds "
            << module.chunks()[crossing.to.index].name << " on "
            << (b.to.places == 1 ? std::to_string(b.to.replicas()) : b.to.size_text())
            << ": neither number divides the other";
      error.note("the other group is here", b.from_at);
      error.help("choose group sizes such that one divides the other");
      return error;
    }
  return Status();
}

Status values_are_per_sample(const ir::Module& module, diag::Diagnostics& diags) {
  if (module.variants.size() < 2) return Status();
  const std::vector<bool> sampled = of_samples(module.graph());
  const auto shape = [&](ir::ValueId value, const ir::DeviceGroup& group) -> const std::vector<int64_t>& {
    const ir::ModelVariant* variant = module.variant_for(group.replicas());
    PIPER_CHECK(variant != nullptr, "no variant of the model for a group of ", group.size_text());
    return variant->chunked.graph.type(value).shape;
  };
  for (const ir::Crossing& crossing : module.crossings())
    for (int32_t m = 0; m < module.step.num_microbatches; ++m) {
      const Boundary b = boundary_of(module, crossing, m);
      if (b.from.replicas() == b.to.replicas()) continue;
      if (shape(crossing.value, b.from) != shape(crossing.value, b.to)) continue;
      if (crossing.phase == ir::Phase::kForward && !sampled[crossing.value.index]) continue;
      auto error = diags.error("P0511", b.to_at);
      error << "'" << module.graph().value(crossing.value).name << "' goes from "
            << module.chunks()[crossing.from.index].name << " on " << b.from.size_text() << " to "
            << module.chunks()[crossing.to.index].name << " on "
            << (b.to.places == 1 ? std::to_string(b.to.replicas()) : b.to.size_text())
            << ", and it is not per sample: a statistic of a microbatch, or the gradient of one";
      error.note("the other group is here", b.from_at);
      error.help("use groups of one size for these two regions, or cut the model elsewhere");
      return error;
    }
  return Status();
}

// A batch norm that several chunks call has one set of running statistics, which they would update in another order
// than the model, or each on devices of its own.
Status statistics_in_one_chunk(const ir::Module& module, diag::Diagnostics& diags) {
  const ir::Distribution& d = module.distribution;
  std::map<uint32_t, ir::ChunkId> updated_in;  // buffer -> the first chunk
  for (size_t i = 0; i < module.graph().num_ops(); ++i) {
    const ir::Op& op = module.graph().op(ir::OpId(i));
    const ir::ValueId statistic = analysis::updated_statistic(module.graph(), op);
    if (!statistic.valid()) continue;
    const ir::ChunkId first = updated_in.try_emplace(statistic.index, op.chunk).first->second;
    if (first == op.chunk) continue;
    const auto place = [&](ir::ChunkId chunk) {
      const auto& devices = d.chunks[chunk.index].devices;
      return devices.empty() ? diag::Span() : devices[0];
    };
    auto error = diags.error("P0274", place(op.chunk));
    error << "'" << module.graph().value(statistic).name << "' is updated in " << module.chunks()[first.index].name
          << " and in " << module.chunks()[op.chunk.index].name;
    if (place(first).line != 0) error.note("the first of them is placed here", place(first));
    return error;
  }
  return Status();
}

}  // namespace

Status check_boundaries(const ir::Module& module, diag::Diagnostics& diags) {
  PIPER_RETURN_IF_ERROR(same_crossings(module, diags));
  PIPER_RETURN_IF_ERROR(groups_nest(module, diags));
  PIPER_RETURN_IF_ERROR(statistics_in_one_chunk(module, diags));
  return values_are_per_sample(module, diags);
}

}  // namespace piper::driver
