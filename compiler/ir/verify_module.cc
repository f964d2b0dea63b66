// Checks a module part by part: the rules M of verify_module.h here.
#include "compiler/ir/verify_module.h"

#include <cmath>
#include <unordered_set>

#include "compiler/ir/module_text.h"
#include "compiler/ir/verify_parts.h"

namespace piper::ir {
namespace {

Status verify_step(const Module& module) {
  if (module.step.batch < 1 || module.step.num_microbatches < 1)
    return broken(kRuleStep, "a batch of " + std::to_string(module.step.batch) + " samples in " +
                                 std::to_string(module.step.num_microbatches) + " microbatches");
  if (!(module.training.clip_grad_norm >= 0)) return broken(kRuleStep, "gradients are clipped to a negative norm");
  PIPER_RETURN_IF_ERROR(verify_prov(module, module.training.clip_prov, "clipping"));
  return verify_prov(module, module.training.update_prov, "the update");
}

Status verify_precision(const Module& module) {
  const Precision& precision = module.precision;
  if (precision.compute && !is_half(*precision.compute))
    return broken(kRulePrecision, "it computes in " + std::string(dtype_name(*precision.compute)));
  for (const std::optional<DType>& type : {precision.master, precision.reduce})
    if (type && !is_floating(*type)) return broken(kRulePrecision, "it trains " + std::string(dtype_name(*type)));
  if (!(precision.loss_scale > 0) || std::isinf(precision.loss_scale))
    return broken(kRulePrecision, "the loss is scaled by no positive number");
  return verify_prov(module, precision.prov, "the precision");
}

bool same_chunks(const ChunkedGraph& a, const ChunkedGraph& b) {
  if (a.chunks.size() != b.chunks.size() || a.tags.size() != b.tags.size()) return false;
  for (size_t c = 0; c < a.chunks.size(); ++c) {
    const Chunk &x = a.chunks[c], &y = b.chunks[c];
    if (x.tags != y.tags || x.region != y.region || x.name != y.name || x.exchange != y.exchange ||
        x.again != y.again || x.shard != y.shard)
      return false;
  }
  for (size_t t = 0; t < a.tags.size(); ++t)
    if (a.tags[t].tag != b.tags[t].tag || a.tags[t].count != b.tags[t].count) return false;
  return true;
}

Status verify_chunks(const ChunkedGraph& chunked, const Distribution& distribution) {
  std::unordered_set<std::string> names;
  for (const Chunk& chunk : chunked.chunks) {
    if (chunk.name.empty() || !names.insert(chunk.name).second)
      return broken(kRuleChunks, "two chunks are named '" + chunk.name + "'");
    for (size_t t = 0; t < chunk.tags.size(); ++t)
      if (chunk.tags[t].index < 0 || (t > 0 && !(chunk.tags[t - 1].tag < chunk.tags[t].tag)))
        return broken(kRuleChunks, "tags of chunk " + chunk.name + " are not in order of their names");
    if (chunk.shard < -1 || chunk.shard >= static_cast<int64_t>(distribution.expert_groups.size()))
      return broken(kRuleChunks,
                    "chunk " + chunk.name + " is of shard " + std::to_string(chunk.shard) + ", which does not exist");
  }
  return {};
}

Status verify_ops(const ChunkedGraph& chunked, const Graph& graph) {
  const auto name = [&](const Op& op) {
    return "'" + std::string(op_name(op.kind)) + "'" +
           (op.results.empty() ? "" : " of '" + graph.value(op.results[0]).name + "'");
  };
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(OpId(i));
    if (op.chunk.valid() && op.chunk.index >= chunked.chunks.size())
      return broken(kRuleChunkOfOp,
                    name(op) + " is in chunk " + std::to_string(op.chunk.index) + ", which does not exist");
    if (op.phase != Phase::kForward) continue;
    if (!op.chunk.valid()) return broken(kRuleChunkOfOp, name(op) + " is in no chunk");
    for (const ValueId operand : op.operands) {
      if (!operand.valid() || graph.value(operand).kind != ValueKind::kOpResult) continue;
      const Op& producer = graph.op(graph.value(operand).producer);
      if (producer.phase == Phase::kForward && op.chunk < producer.chunk)
        return broken(kRuleChunkOrder, name(op) + " in chunk " + chunked.chunks[op.chunk.index].name + " reads '" +
                                           graph.value(operand).name + "' of chunk " +
                                           chunked.chunks[producer.chunk.index].name + ", which comes after it");
    }
  }
  return {};
}

Status verify_gradients(const ModelVariant& variant) {
  const size_t num_values = variant.chunked.graph.num_values();
  if (variant.gradients.size() > num_values)
    return broken(kRuleGradientOf, "gradients of " + std::to_string(variant.gradients.size()) + " of " +
                                       std::to_string(num_values) + " values");
  for (const ValueId gradient : variant.gradients)
    if (gradient.valid() && gradient.index >= num_values)
      return broken(kRuleGradientOf, "a gradient is no value of the graph");
  return {};
}

Status verify_repeating(const ModelVariant& variant) {
  const Graph &graph = variant.chunked.graph, &repeating = *variant.repeating;
  PIPER_RETURN_IF_ERROR(verify(repeating));
  for (size_t v = 0; v < graph.num_values(); ++v)
    if (v >= repeating.num_values() || repeating.value(ValueId(v)).name != graph.value(ValueId(v)).name)
      return broken(kRuleRepeating, "value " + std::to_string(v) + " is not '" + graph.value(ValueId(v)).name + "'");
  return variant.chunked.chunks.empty() ? Status() : verify_ops(variant.chunked, repeating);
}

Status verify_variant(const Module& module, const ModelVariant& variant) {
  PIPER_RETURN_IF_ERROR(verify(variant.chunked.graph));
  PIPER_RETURN_IF_ERROR(verify_chunks(variant.chunked, module.distribution));
  PIPER_RETURN_IF_ERROR(verify_gradients(variant));
  if (!variant.chunked.chunks.empty())  // before a graph is cut no op has a chunk
    PIPER_RETURN_IF_ERROR(verify_ops(variant.chunked, variant.chunked.graph));
  return variant.repeating ? verify_repeating(variant).with_context("repeating") : Status();
}

}  // namespace

Status verify_prov(const Module& module, ProvId prov, const std::string& whose) {
  if (!prov.valid() || prov.index < module.provenance.size()) return {};
  return broken(kRuleProvenance, "the origin of " + whose + " is entry " + std::to_string(prov.index) + " of " +
                                     std::to_string(module.provenance.size()));
}

std::string chunk_text(const Module& module, ChunkId chunk) {
  const bool known = !module.variants.empty() && chunk.index < module.chunks().size();
  return "chunk " + (known ? module.chunks()[chunk.index].name : std::to_string(chunk.index));
}

std::vector<int32_t> joined(const std::vector<std::vector<int32_t>>& lists) {
  std::vector<int32_t> all;
  for (const std::vector<int32_t>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

Status verify_variants(const Module& module) {
  for (size_t v = 0; v < module.variants.size(); ++v) {
    const ModelVariant& variant = module.variants[v];
    const std::string context = "variant " + std::to_string(variant.local_batch);
    if (variant.local_batch < 1 || (v > 0 && variant.local_batch >= module.variants[v - 1].local_batch))
      return broken(kRuleVariants, context + " is not in its place, the largest first");
    PIPER_RETURN_IF_ERROR(verify_variant(module, variant).with_context(context));
    if (!same_chunks(variant.chunked, module.variants[0].chunked))
      return broken(kRuleSameChunks,
                    context + " has other chunks than variant " + std::to_string(module.variants[0].local_batch));
  }
  return {};
}

Status verify(const Module& module) {
  PIPER_RETURN_IF_ERROR(verify_step(module));
  PIPER_RETURN_IF_ERROR(verify_precision(module));
  PIPER_RETURN_IF_ERROR(verify_variants(module));
  PIPER_RETURN_IF_ERROR(verify_distribution(module).with_context("distribution"));
  PIPER_RETURN_IF_ERROR(verify_schedule(module).with_context("schedule"));
  PIPER_RETURN_IF_ERROR(verify_state(module).with_context("state"));
  return verify_dag(module).with_context("dag");
}

}  // namespace piper::ir
