// The members of manifest.json, struct by struct (fields.h).
#pragma once

#include <array>

#include "schemas/plan/bundle_files.h"
#include "schemas/plan/fields.h"
#include "schemas/plan/lr_curves.h"
#include "schemas/plan/optimizers.h"

namespace piper::plan {

void fields(auto& v, Of<Source> auto& source) {
  v("name", source.name);
  v("sha256", source.sha256);
}
void fields(auto& v, Of<InputDecl> auto& input) {
  v("input", input.name, {.unique = "inputs"});
  v("dtype", input.dtype);
  v("sample_shape", input.sample_shape, {.shape = true});
  v("batched", input.batched);
  v("feed", input.feed, {.or_empty = true});
}
void fields(auto& v, Of<Cut> auto& cut) {
  v("cut", cut.name, {.filled = true, .unique = "cuts"});
  v("groups", cut.groups);
}
void fields(auto& v, Of<TensorCut> auto& cut) {
  v("over", cut.cut, {.least = 0, .about = "the place of a cut in the list of them"});
  v("axis", cut.axis, {.least = 0});
  v.optional("segments", cut.segments, 1, {.least = 2});
  v.optional("extents", cut.extents, std::vector<int64_t>());
}
void fields(auto& v, Of<TensorInfo> auto& tensor) {
  v("tensor", tensor.name, {.unique = "tensors"});
  v("dtype", tensor.dtype);
  v("shape", tensor.shape, {.shape = true});
  v("aliases", tensor.aliases);
  v("trained", tensor.trained);
  v.optional("group", tensor.group, 0, {.least = 1});
  v.optional("buffer", tensor.buffer, ModelBuffer::kNone, {.what = "kind of buffer"});
  v("cut", tensor.cut);
}
void fields(auto& v, Of<Chunk> auto& chunk) {
  v("chunk", chunk.name, {.unique = "chunks"});
  v.optional("region", chunk.region, chunk.name,
             {.about = "the part of the model that the strategy names; the chunk itself where it is left out"});
  v("tags", chunk.tags);
}

inline constexpr auto kOptimizerNames = [] {
  std::array<std::string_view, std::size(kOptimizers)> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kOptimizers[i].name;
  return names;
}();
void number_fields(auto& v, auto& numbers) {
  v("kind", numbers.kind, {.words = kOptimizerNames, .what = "optimizer"});
  v("lr", numbers.lr);
  v("momentum", numbers.momentum);
  v("beta1", numbers.beta1);
  v("beta2", numbers.beta2);
  v("eps", numbers.eps);
  v("nesterov", numbers.nesterov);
  const OptimizerInfo* const info = find_optimizer(numbers.kind);
  v.where(info != nullptr && info->has(OptimizerInfo::kOrthogonal), [&] {
    v("steps", numbers.steps, {.least = 1, .most = kMostOrthogonalSteps});
    v("adjust", numbers.adjust, {.what = "rule for the rate"});
  });
}
void fields(auto& v, Of<OptimizerNumbers> auto& numbers) { number_fields(v, numbers); }
void fields(auto& v, Of<Optimizer> auto& optimizer) {
  number_fields(v, optimizer);
  v("rest", optimizer.rest);
}
void fields(auto& v, Of<OptimizerGroup> auto& group) {
  v("group", group.name);
  v("weight_decay", group.weight_decay);
  v.optional("rest", group.rest, false);
  v.optional("lr_factor", group.lr_factor, 1.0, {.positive = true});
  v("beta1", group.beta1);
  v("beta2", group.beta2);
}
constexpr std::string_view word_of(LrCurve curve) {
  const auto row = static_cast<size_t>(curve);
  return row < std::size(kLrCurves) ? kLrCurves[row].name : "";
}
void fields(auto& v, Of<LrPhase> auto& phase) {
  v("curve", phase.curve, {.what = "curve of a learning rate"});
  v("steps", phase.steps, {.least = 0});
  v("from", phase.from);
  const LrCurveInfo& info = lr_curve(phase.curve);
  v.where(info.has(LrCurveInfo::kTo), [&] { v("to", phase.to); });
  v.where(info.has(LrCurveInfo::kPower), [&] { v("power", phase.power); });
  v.where(info.has(LrCurveInfo::kTimescale), [&] { v("timescale", phase.timescale); });
}
inline constexpr std::string_view kLrSchedules[] = {"constant", "cosine", "linear", "phases"};
void fields(auto& v, Of<LrSchedule> auto& schedule) {
  v("kind", schedule.kind, {.words = kLrSchedules, .what = "learning-rate schedule"});
  v("warmup", schedule.warmup, {.least = 0});
  v("until", schedule.until, {.least = 0});
  v("to", schedule.to);
  v("constant", schedule.constant);
  v.where(schedule.kind == "phases", [&] { v("phases", schedule.phases); });
}

void fields(auto& v, Of<DataPath> auto& data) {
  v("path", data.path);
  v.optional("weight", data.weight, 0, {.positive = true, .says = "the weight of a data path is a positive number"});
  v.optional("at", data.at, "");
}
void fields(auto& v, Of<RunDefaults> auto& run) {
  v("data", run.data);
  v("steps", run.steps, {.least = 0});
  v("seed", run.seed);
  v("sampling", run.sampling);
  v.optional("document_end", run.document_end, -1,
             {.least = 0, .most = UINT32_MAX, .says = "document_end is no token"});
}
void fields(auto& v, Of<Evaluation> auto& eval) {
  v("data", eval.data);
  v("every", eval.every, {.least = 0});
  v("batches", eval.batches, {.least = 0});
  v("perplexity", eval.perplexity);
}
void fields(auto& v, Of<RankSummary> auto& rank) {
  v("arena_bytes", rank.arena_bytes, {.least = 0});
  v("persistent_bytes", rank.persistent_bytes, {.least = 0});
  v("scratch_bytes", rank.scratch_bytes, {.least = 0});
  v("sent_bytes", rank.sent_bytes, {.least = 0});
  v("peak_bytes", rank.peak_bytes, {.least = 0});
}
void fields(auto& v, Of<FileEntry> auto& file) {
  v("file", file.path, {.unique = "files"});
  v("bytes", file.bytes, {.least = 0});
  v("sha256", file.sha256, {.as = "sha256"});
  v.where(file.path.starts_with(kWeightFolder), [&] { v("chunks", file.chunks); });
}

void fields(auto& v, Of<Manifest> auto& manifest) {
  v.format(manifest.version);
  v("device", manifest.target.device);
  v("reduction", manifest.target.summing);
  v.optional("ranks_per_node", manifest.target.ranks_per_node, 0, {.least = 1});
  v("model", manifest.model);
  v("strategy", manifest.strategy);
  v("world_size", manifest.world_size, {.least = 1, .most = 1 << 24});
  v("reporting_rank", manifest.reporting_rank, {.least = 0, .most = manifest.world_size - 1});
  v("batch", manifest.batch, {.least = 0});
  v.optional("model_flops", manifest.model_flops, 0, {.positive = true});
  v.optional("proved", manifest.proved, 0, {.least = 1});
  v.optional("evaluates", manifest.evaluates, false);
  v("inputs", manifest.inputs);
  v.unless_empty("cuts", manifest.cuts);
  v("tensors", manifest.tensors);
  v("chunks", manifest.chunks);
  v("optimizer", manifest.optimizer);
  v("optimizer_groups", manifest.optimizer.groups);
  v("lr_schedule", manifest.lr_schedule);
  v("clip_grad_norm", manifest.clip_grad_norm);
  v.optional("loss_scale", manifest.loss_scale, 0, {.positive = true, .says = "a loss scale is positive"});
  v("run", manifest.run);
  v("eval", manifest.eval);
  v("ranks", manifest.ranks);
  v("files", manifest.files);
}

}  // namespace piper::plan
