#include "runtime/exec/session/reporter.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "runtime/exec/session/group_norms.h"

namespace piper::exec {

namespace {

// The optimizer counts the steps that it has done.
Result<int64_t> skipped_before(const checkpoint::OpenCheckpoint& resume) {
  const checkpoint::StoredTensor* counter =
      checkpoint::find_tensor(resume.manifest(), checkpoint::StateKind::kTraining, "optimizer_step");
  int64_t done = resume.manifest().step;
  if (counter != nullptr && counter->dtype == DType::kI64)
    PIPER_RETURN_IF_ERROR(resume.read(*counter, {}, 0, 1, [&done](int64_t, const std::byte* data, int64_t bytes) {
      std::memcpy(&done, data, std::min<size_t>(sizeof done, static_cast<size_t>(bytes)));
      return Status();
    }));
  return resume.manifest().step - done;
}

}  // namespace

Result<std::unique_ptr<Reporter>> Reporter::open(const Session& session, const LoadedRank& rank) {
  PIPER_ASSIGN(StepResults results, StepResults::bind(rank));
  std::unique_ptr<Reporter> reporter(new Reporter(session, std::move(results)));
  const int64_t before = session.resume == nullptr ? 0 : session.resume->manifest().step;
  if (session.options.peak_flops > 0 && session.bundle->manifest.model_flops <= 0)
    reporter->progress_.note("the plan does not say how many FLOPs a step has, so no MFU is logged");
  PIPER_ASSIGN(reporter->events_, trace::EventFile::open(session.options.tensorboard, before + 1));
  if (session.resume == nullptr) {
    PIPER_ASSIGN(reporter->log_, trace::StepLog::open(session.options.log));
    return reporter;
  }
  PIPER_ASSIGN(reporter->log_, trace::StepLog::resume(session.options.log, before));
  reporter->progress_.note("continues after step " + std::to_string(before) + ", from " + session.resume->path());
  if (rank.plan->loss_scale.buffer >= 0) {
    PIPER_ASSIGN(reporter->skipped_, skipped_before(*session.resume));
  }
  return reporter;
}

Reporter::Reporter(const Session& session, StepResults results)
    : session_(session), results_(std::move(results)), progress_(session.options.steps), start_(Clock::now()) {
  times_.reserve(static_cast<size_t>(std::clamp<int64_t>(session.options.steps, 0, 1 << 20)));
}

Status Reporter::step(int64_t step, int64_t data_step, double seconds, const StepInputs& inputs) {
  const plan::Manifest& manifest = session_.bundle->manifest;
  trace::StepRecord record;
  record.step = step_ = step;
  record.step_ms = seconds * 1e3;
  record.samples_per_s = static_cast<double>(manifest.batch) / seconds;
  record.tokens_per_s = record.samples_per_s * static_cast<double>(session_.data->tokens_per_sample());
  // Chowdhery et al. 2022, "PaLM", section 4.1.
  mfu_ = session_.options.peak_flops > 0
             ? manifest.model_flops / (seconds * session_.options.peak_flops * manifest.world_size)
             : 0;
  if (mfu_ > 0) record.mfu = mfu_;
  record.lr = inputs.learning_rate(step);
  record.data_wait_s = inputs.data_wait_s();
  record.samples_fingerprint = session_.data->fingerprint(data_step, manifest.batch);
  PIPER_ASSIGN(const StepResults::Values values, results_.read());
  record.loss = loss_ = values.loss;
  record.grad_norm = values.grad_norm;
  if (values.grad_norm) record.grad_norms = group_norms(manifest, *values.grad_norm, values.grad_squares);
  record.dropped = values.dropped;
  if (values.loss_scale) {
    skipped_ += *values.overflow ? 1 : 0;
    record.loss_scale = values.loss_scale;
    record.skipped = skipped_;
  }
  spikes_.add(static_cast<double>(values.loss));
  record.loss_spikes = spikes_.count();
  times_.push_back(record.step_ms);
  if (const std::string note = session_.data->epoch_note(data_step, manifest.batch); !note.empty())
    progress_.note("step " + std::to_string(step) + ": " + note);
  progress_.step(record);
  log(trace::step_line(record));
  draw(record);
  return session_.options.stop_on_nan ? check_finite(values, step) : Status();
}

void Reporter::tell_checkpoints(int64_t bytes, int64_t copy_bytes) {
  const auto mib = [](int64_t count) { return std::to_string((count + (1 << 20) - 1) >> 20) + " MiB"; };
  progress_.note("a checkpoint has " + mib(bytes) + "; this rank's copy of its part takes " + mib(copy_bytes) +
                 " of host memory");
}

void Reporter::evaluation(int64_t step, double loss) {
  trace::EvaluationRecord record{step, loss, std::nullopt};
  if (session_.evaluation.perplexity) record.perplexity = std::exp(loss);
  progress_.note(trace::evaluation_text(record));
  log(trace::evaluation_line(record));
  std::vector<trace::Scalar> scalars = {{"eval_loss", static_cast<float>(loss)}};
  if (record.perplexity) scalars.push_back({"perplexity", static_cast<float>(*record.perplexity)});
  draw(step, scalars);
}

Status Reporter::finish(std::vector<int64_t> peak_memory) {
  trace::Summary summary;
  summary.steps = static_cast<int64_t>(times_.size());
  summary.total_s = std::chrono::duration<double>(Clock::now() - start_).count();
  if (!times_.empty()) {
    auto middle = times_.begin() + static_cast<int64_t>(times_.size() / 2);
    std::nth_element(times_.begin(), middle, times_.end());
    summary.median_step_ms = *middle;
    if (times_.size() % 2 == 0) summary.median_step_ms = (*middle + *std::max_element(times_.begin(), middle)) / 2;
  }
  if (step_ > 0) draw_memory(peak_memory);
  summary.peak_memory_bytes = std::move(peak_memory);
  log(trace::summary_line(summary));
  return log_failure_.ok() ? std::move(event_failure_) : std::move(log_failure_);
}

void Reporter::log(const std::string& line) {
  if (!log_failure_.ok()) return;
  log_failure_ = log_.write(line);
  if (!log_failure_.ok())
    progress_.note("piper-run: warning[R0601]: " + log_failure_.error().message +
                   "; the training continues without a log");
}

void Reporter::draw(const trace::StepRecord& record) {
  std::vector<trace::Scalar> scalars = {{"loss", record.loss},
                                        {"learning_rate", static_cast<float>(record.lr)},
                                        {"speed/step_ms", static_cast<float>(record.step_ms)},
                                        {"speed/data_wait_s", static_cast<float>(record.data_wait_s)},
                                        {"speed/samples_per_s", static_cast<float>(record.samples_per_s)}};
  if (record.tokens_per_s > 0) scalars.push_back({"speed/tokens_per_s", static_cast<float>(record.tokens_per_s)});
  if (record.mfu) scalars.push_back({"speed/mfu", static_cast<float>(*record.mfu)});
  if (record.loss_spikes) scalars.push_back({"loss_spikes", static_cast<float>(*record.loss_spikes)});
  if (session_.stopping != nullptr && session_.bundle->manifest.world_size > 1)
    for (const auto& [rank, ms] : session_.stopping->step_times_ms())
      scalars.push_back({"speed/step_ms_by_rank/" + std::to_string(rank), static_cast<float>(ms)});
  if (record.grad_norm) scalars.push_back({"grad_norm", *record.grad_norm});
  for (const auto& [group, norm] : record.grad_norms) scalars.push_back({"grad_norm/" + group, norm});
  if (record.loss_scale) scalars.push_back({"loss_scale", *record.loss_scale});
  if (record.skipped) scalars.push_back({"skipped_steps", static_cast<float>(*record.skipped)});
  if (record.dropped) scalars.push_back({"dropped_rows", static_cast<float>(*record.dropped)});
  draw(record.step, scalars);
}

void Reporter::draw_memory(const std::vector<int64_t>& peaks) {
  std::vector<trace::Scalar> scalars;
  for (size_t rank = 0; rank < peaks.size(); ++rank)
    scalars.push_back({"memory/peak_mib_by_rank/" + std::to_string(rank),
                       static_cast<float>(static_cast<double>(peaks[rank]) / (1 << 20))});
  draw(step_, scalars);
}

void Reporter::draw(int64_t step, const std::vector<trace::Scalar>& scalars) {
  if (session_.options.tensorboard.empty() || !event_failure_.ok()) return;
  event_failure_ = events_.write(step, scalars);
  if (!event_failure_.ok())
    progress_.note("piper-run: warning[R0601]: " + event_failure_.error().message +
                   "; the training continues without an event file");
}

}  // namespace piper::exec
