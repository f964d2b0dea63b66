#include "runtime/exec/session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "runtime/bootstrap/agreement.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/lr_schedule.h"
#include "runtime/hal/host_collectives.h"
#include "runtime/trace/progress.h"
#include "runtime/trace/step_log.h"
#include "schemas/base/check.h"

namespace piper::exec {

namespace {

using std::chrono::steady_clock;

std::string agreed_options(const Session& session) {
  const SessionOptions& o = session.options;
  return "seed " + std::to_string(o.seed) + ", " + std::to_string(o.steps) + " steps, " +
         (session.data->sampling() == data::Sampling::kShuffled ? "shuffled" : "sequential") + " sampling, " +
         std::to_string(session.data->num_samples()) + " samples, " + (o.save.empty() ? "no --save, " : "--save, ") +
         (o.save_gradients.empty() ? "no --save-gradients" : "--save-gradients") +
         (o.profile.empty() ? "" : ", --profile") +
         (o.link_delay ? ", links of " + std::to_string(o.link_delay->latency.count()) + " us and " +
                             std::to_string(o.link_delay->bytes_per_second) + " bytes/s"
                       : "");
}

// What the reporting rank tells about the steps.
class Reporter {
 public:
  static Result<std::unique_ptr<Reporter>> open(const Session& session, const LoadedRank& rank) {
    auto reporter = std::make_unique<Reporter>(session, rank);
    PIPER_ASSIGN(reporter->log_, trace::StepLog::open(session.options.log));
    return reporter;
  }
  Reporter(const Session& session, const LoadedRank& rank)
      : session_(session), rank_(rank), progress_(session.options.steps), start_(steady_clock::now()) {
    times_.reserve(static_cast<size_t>(std::clamp<int64_t>(session.options.steps, 0, 1 << 20)));
  }

  void step(int64_t step, double seconds, double lr) {
    const plan::Manifest& manifest = session_.bundle->manifest;
    trace::StepRecord record;
    record.step = step;
    record.step_ms = seconds * 1e3;
    record.samples_per_s = static_cast<double>(manifest.batch) / seconds;
    record.tokens_per_s = record.samples_per_s * static_cast<double>(session_.data->tokens_per_sample());
    record.lr = lr;
    if (rank_.plan->loss.buffer >= 0) std::memcpy(&record.loss, rank_.at(rank_.plan->loss), sizeof record.loss);
    if (rank_.plan->grad_norm.buffer >= 0) {
      float norm = 0;
      std::memcpy(&norm, rank_.at(rank_.plan->grad_norm), sizeof norm);
      record.grad_norm = norm;
    }
    if (rank_.plan->dropped.buffer >= 0) {
      int64_t dropped = 0;
      std::memcpy(&dropped, rank_.at(rank_.plan->dropped), sizeof dropped);
      record.dropped = dropped;
    }
    times_.push_back(record.step_ms);
    if (const int64_t epoch = session_.data->epoch_beginning_in(step, manifest.batch); epoch > 0)
      progress_.note("step " + std::to_string(step) + ": the data begin again, epoch " + std::to_string(epoch));
    progress_.step(record);
    log(trace::step_line(record));
  }

  // What became of the log.
  Status finish(std::vector<int64_t> peak_memory) {
    trace::Summary summary;
    summary.steps = static_cast<int64_t>(times_.size());
    summary.total_s = std::chrono::duration<double>(steady_clock::now() - start_).count();
    if (!times_.empty()) {
      auto middle = times_.begin() + static_cast<int64_t>(times_.size() / 2);
      std::nth_element(times_.begin(), middle, times_.end());
      summary.median_step_ms = *middle;
      if (times_.size() % 2 == 0) summary.median_step_ms = (*middle + *std::max_element(times_.begin(), middle)) / 2;
    }
    summary.peak_memory_bytes = std::move(peak_memory);
    log(trace::summary_line(summary));
    return std::move(log_failure_);
  }

 private:
  // A disk that is full ends the log, not the training.
  void log(const std::string& line) {
    if (!log_failure_.ok()) return;
    log_failure_ = log_.write(line);
    if (!log_failure_.ok())
      progress_.note("piper-run: warning[R0601]: " + log_failure_.error().message +
                     "; the training goes on without a log");
  }

  const Session& session_;
  const LoadedRank& rank_;
  trace::StepLog log_;
  Status log_failure_;
  trace::Progress progress_;
  std::vector<double> times_;
  steady_clock::time_point start_;
};

class RankRun {
 public:
  RankRun(Session& session, const plan::RankPlan& plan, hal::Transport& transport)
      : session_(session), plan_(plan), transport_(transport), wait_{&session.stop, session.options.timeout} {
    if (session.options.link_delay) delayed_ = hal::delay_links(transport, *session.options.link_delay);
  }

  Status run() {
    PIPER_RETURN_IF_ERROR(
        bootstrap::check_agreement(transport_, {session_.bundle_digest, agreed_options(session_)}, wait_));
    for (const std::string* path : {&session_.options.save, &session_.options.save_gradients})
      if (!path->empty() && transport_.rank() == 0) PIPER_RETURN_IF_ERROR(checkpoint::check_writable(*path));
    LoadOptions load{session_.options.device, !session_.options.save_gradients.empty(), wait_};
    PIPER_ASSIGN(rank_, load_rank(*session_.bundle, plan_, session_.weights,
                                  delayed_ != nullptr ? *delayed_ : transport_, load));
    PIPER_RETURN_IF_ERROR(bind_inputs());
    if (plan_.rank == session_.bundle->manifest.reporting_rank) {
      PIPER_ASSIGN(reporter_, Reporter::open(session_, *rank_));
    }
    Executor executor(*rank_, session_.stop, session_.options.timeout, session_.options.threads);
    if (!session_.options.profile.empty()) {
      profile_ = std::make_unique<trace::Profile>(plan_.instructions.size());
      executor.set_profile(profile_.get());
    }
    PIPER_RETURN_IF_ERROR(hal::host_barrier(transport_, wait_));
    session_.started = true;
    for (int64_t step = 1; step <= session_.options.steps; ++step) PIPER_RETURN_IF_ERROR(one_step(executor, step));
    if (!session_.options.save.empty())
      PIPER_RETURN_IF_ERROR(checkpoint::save_tensors(
          {session_.options.save, session_.weights}, session_.bundle->manifest,
          weight_pieces(session_.bundle->manifest, plan_, rank_->buffer_base), transport_, hal::patient(wait_)));
    return finish(executor);
  }

 private:
  struct BoundInput {
    size_t input = 0;
    const plan::InputSlice* slice = nullptr;
    std::byte* where = nullptr;
  };

  Status bind_inputs() {
    const auto& declared = session_.bundle->manifest.inputs;
    for (const plan::InputSlice& slice : plan_.inputs) {
      auto found = std::find_if(declared.begin(), declared.end(),
                                [&](const plan::InputDecl& d) { return d.name == slice.input; });
      if (found == declared.end()) return Status::failure("R0404", "the manifest has no input '" + slice.input + "'");
      inputs_.push_back({static_cast<size_t>(found - declared.begin()), &slice, rank_->at(slice.where)});
    }
    return {};
  }

  Status one_step(Executor& executor, int64_t step) {
    const plan::Manifest& manifest = session_.bundle->manifest;
    const auto begin = steady_clock::now();
    for (const BoundInput& input : inputs_)
      session_.data->fill(input.input, step, input.slice->first, input.slice->count, input.where);
    const double lr = manifest.optimizer.lr * lr_factor(manifest.lr_schedule, step);
    PIPER_RETURN_IF_ERROR(executor.run_step(step, lr, session_.options.seed));
    const double seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
    if (reporter_ != nullptr) reporter_->step(step, seconds, lr);
    session_.steps_done.store(step, std::memory_order_relaxed);
    if (step == 1 && rank_->gradients != nullptr)
      PIPER_RETURN_IF_ERROR(checkpoint::save_tensors({session_.options.save_gradients, nullptr}, manifest,
                                                     rank_->gradients->pieces(manifest), transport_,
                                                     hal::patient(wait_)));
    return {};
  }

  Status finish(Executor& executor) {
    const int64_t peak = rank_->allocated_bytes() + executor.scratch_high_water() + transport_.buffer_bytes();
    PIPER_ASSIGN(const std::vector<std::string> all,
                 hal::host_allgather(transport_, std::to_string(peak), hal::patient(wait_)));
    if (profile_ != nullptr) PIPER_RETURN_IF_ERROR(write_profile());
    if (reporter_ == nullptr) return {};
    std::vector<int64_t> peaks;
    for (const std::string& text : all) peaks.push_back(std::stoll(text));
    session_.log_failure = reporter_->finish(std::move(peaks));
    return {};
  }

  // All ranks' lines in one file, written by the reporting rank.
  Status write_profile() {
    std::string lines;
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      if (i > 0) lines += '\n';
      lines += profile_->line({plan_.rank, static_cast<int32_t>(i),
                               plan_.streams.at(static_cast<size_t>(plan_.instructions[i].stream)).name,
                               action_text(*session_.bundle, plan_, static_cast<int32_t>(i))});
    }
    PIPER_ASSIGN(const std::vector<std::string> all, hal::host_allgather(transport_, lines, hal::patient(wait_)));
    if (reporter_ == nullptr) return {};
    PIPER_ASSIGN(trace::StepLog file, trace::StepLog::open(session_.options.profile));
    for (const std::string& text : all)
      if (!text.empty()) PIPER_RETURN_IF_ERROR(file.write(text));
    return {};
  }

  Session& session_;
  const plan::RankPlan& plan_;
  hal::Transport& transport_;
  hal::WaitControl wait_;
  std::unique_ptr<hal::Transport> delayed_;  // nullptr: links as they are
  std::unique_ptr<LoadedRank> rank_;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<trace::Profile> profile_;  // nullptr: not asked for
  std::vector<BoundInput> inputs_;
};

}  // namespace

void run_rank(Session& session, const plan::RankPlan& plan, hal::Transport& transport) {
  Status status;
  try {
    status = RankRun(session, plan, transport).run();
  } catch (const InternalError& bug) {
    status = Status::failure("bug", bug.what());
  } catch (const std::exception& failure) {
    status = Status::failure("bug", failure.what());
  }
  if (status.ok() || hal::is_stopped(status)) return;
  // An executor's failure names the rank already; what all ranks find alike names none.
  if (status.error().code != "R0102") status = std::move(status).with_context("rank " + std::to_string(plan.rank));
  session.stop.raise(std::move(status));
}

}  // namespace piper::exec
