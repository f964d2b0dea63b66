#include "compiler/driver/emit_plans.h"

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/driver/make_reference.h"
#include "compiler/emit/settle_evaluation.h"
#include "schemas/checkpoint/state_parts.h"
#include "schemas/plan/device_memory.h"
#include "schemas/plan/read_ahead.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/live_at_peak.h"

namespace piper::driver {
namespace {

std::string samples_read_ahead(const plan::Manifest& manifest, const plan::RankPlan& rank) {
  if (manifest.target.device != plan::DeviceKind::kCpu) return "";
  return ", samples of the next steps " + std::to_string(plan::read_ahead_bytes(manifest, rank));
}

}  // namespace

Status emit_plans(Compilation& c, diag::Diagnostics& diags) {
  if (!c.module.training.laid_out())  // of a module read from text, with a strategy that says nothing of it
    return Status::failure("P0238", "the strategy has no optimizer");
  emit::EmitRequest request;
  request.module = &c.module;
  request.target = c.target;
  request.packs = c.packs;
  Digests digests = c.digests.valid() ? c.digests.get() : Digests();  // a module read from text has none
  request.model = {c.model == nullptr ? "" : c.model->base_name(), std::move(digests.model)};
  request.strategy = {c.strategy.file_name, std::move(digests.strategy)};
  PIPER_ASSIGN(c.emitted, emit::emit_bundle(request, diags));
  c.emitted.bundle.manifest.model_flops = c.sample_flops * static_cast<double>(c.module.step.batch);
  if (c.evaluation) {
    request.module = &*c.evaluation;
    request.training = &c.emitted.bundle;
    PIPER_ASSIGN(emit::Emitted evaluation, emit::emit_bundle(request, diags));
    plan::Evaluation& eval = c.emitted.bundle.manifest.eval.emplace(*c.strategy.eval);
    const std::vector<ir::Graph::Mean>& means = c.evaluation->graph().means;
    eval.perplexity = means.size() == 1 && means[0].cross_entropy;
    emit::add_evaluation(c.emitted, std::move(evaluation));
  }
  return c.reference ? make_reference(c, diags) : Status();
}

std::string print_plans(const plan::Bundle& bundle) {
  std::string text;
  for (const plan::RankPlan& plan : bundle.ranks)
    text += plan::print_rank_plan(plan, bundle.provenance, bundle.programs);
  for (const plan::Bundle& evaluation : bundle.evaluation) text += print_plans(evaluation);
  return text;
}

void count_snapshots(plan::Bundle& bundle) {
  if (bundle.manifest.target.device != plan::DeviceKind::kCpu) return;
  for (size_t r = 0; r < bundle.ranks.size(); ++r)
    bundle.manifest.ranks[r].peak_bytes += checkpoint::snapshot_bytes(bundle.manifest, bundle.ranks[r]);
}

Status check_memory(const plan::Bundle& bundle, int64_t limit, diag::Diagnostics& diags) {
  if (limit <= 0) return Status();
  for (size_t r = 0; r < bundle.manifest.ranks.size(); ++r) {
    const plan::RankSummary& summary = bundle.manifest.ranks[r];
    if (summary.peak_bytes <= limit) continue;
    auto error = diags.error("P0520");
    error << "rank " << r << " needs " << summary.peak_bytes << " bytes, the limit is " << limit;
    const plan::Target& target = bundle.manifest.target;
    const std::string of_gpu =
        target.device == plan::DeviceKind::kCpu
            ? ""
            : ", communicators " + std::to_string(plan::communicator_bytes(bundle.ranks[r], target)) +
                  ", parts of kernels' sums " +
                  std::to_string(plan::kernel_part_bytes(bundle.programs, bundle.ranks[r], target));
    error.note(
        "arena " + std::to_string(summary.arena_bytes) + ", parameters, gradients and optimizer " +
        std::to_string(summary.persistent_bytes) + ", library scratch " + std::to_string(summary.scratch_bytes) +
        samples_read_ahead(bundle.manifest, bundle.ranks[r]) + of_gpu + ", on the host the copy of a checkpoint " +
        std::to_string(checkpoint::snapshot_bytes(bundle.manifest, bundle.ranks[r])) + " (counted with --checkpoints)");
    const verify::LiveAtPeak peak = verify::live_at_peak(bundle, bundle.ranks[r]);
    if (!peak.buffers.empty())
      error.note("the arena needs the most memory, " + std::to_string(peak.bytes) + " bytes, at " +
                 verify::describe_instruction(bundle, bundle.ranks[r], peak.instruction));
    constexpr size_t kMostTold = 8;
    int64_t told = 0;
    for (size_t i = 0; i < peak.buffers.size() && i < kMostTold; ++i) {
      const plan::Buffer& buffer = bundle.ranks[r].buffers[static_cast<size_t>(peak.buffers[i])];
      told += buffer.bytes;
      error.note(buffer.name + ": " + std::to_string(buffer.bytes) + " bytes");
    }
    if (peak.buffers.size() > kMostTold)
      error.note("and " + std::to_string(peak.buffers.size() - kMostTold) + " smaller ones, together " +
                 std::to_string(peak.bytes - told) + " bytes");
    error.help("use more microbatches, more stages or more ranks");
    return error;
  }
  return Status();
}

}  // namespace piper::driver
