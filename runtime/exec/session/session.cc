#include "runtime/exec/session/session.h"

#include <cstdio>
#include <exception>

#include "runtime/bootstrap/agreement.h"
#include "runtime/exec/calibration.h"
#include "runtime/exec/checks/digest_recorder.h"
#include "runtime/exec/session/evaluation.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/graph_cuts.h"
#include "runtime/exec/instruction_text.h"
#include "runtime/exec/checks/nan_replay.h"
#include "runtime/exec/checks/replica_check.h"
#include "runtime/exec/session/reporter.h"
#include "runtime/exec/ring_waits.h"
#include "runtime/exec/session/status_report.h"
#include "runtime/exec/step_inputs.h"
#include "runtime/exec/trace_recorder.h"
#include "schemas/base/check.h"

namespace piper::exec {

namespace {

using std::chrono::steady_clock;

std::string checkpoint_options(const Session& session) {
  if (session.storage == nullptr) return "";
  const SessionOptions& o = session.options;
  return ", --checkpoint every " + std::to_string(o.checkpoints.every) + " steps or " +
         std::to_string(o.checkpoints.every_minutes) + " minutes, data " + session.identity.data.sha256 +
         (session.resume == nullptr ? "" : ", resumed from " + session.resume->manifest().digest);
}

std::string evaluation_options(const Session& session) {
  const SessionEvaluation& e = session.evaluation;
  if (e.data == nullptr) return "";
  return ", " + std::to_string(e.batches) + " batches evaluated every " + std::to_string(e.every) +
         " steps, the first of fingerprint " +
         trace::fingerprint_text(e.data->fingerprint(1, session.bundle->manifest.batch)) +
         (e.save_best.empty() ? "" : ", --save-best");
}

std::string steps_option(const char* name, const StepsToFile& steps) {
  if (steps.file.empty()) return "";
  return std::string(", ") + name + " of steps " + std::to_string(steps.first) + " to " + std::to_string(steps.last);
}

std::string agreed_options(const Session& session) {
  const SessionOptions& o = session.options;
  return "seed " + std::to_string(o.seed) + ", " + std::to_string(o.steps) + " steps, " +
         (session.data->sampling() == data::Sampling::kShuffled ? "shuffled" : "sequential") + " sampling, " +
         std::to_string(session.data->num_samples()) + " samples, the first of fingerprint " +
         trace::fingerprint_text(session.data->fingerprint(1, session.bundle->manifest.batch)) + ", " +
         (o.save.empty() ? "no --save, " : "--save, ") +
         (o.save_gradients.empty() ? "no --save-gradients" : "--save-gradients") +
         (o.profile.empty() ? "" : ", --profile") + (o.calibrate.empty() ? "" : ", --calibrate") +
         (o.kernel_times.empty() ? "" : ", --kernel-times") + steps_option("--digest", o.digests) +
         steps_option("--trace", o.trace) +
         (o.check_replicas > 0 ? ", --check-replicas " + std::to_string(o.check_replicas) : "") +
         (o.stop_on_nan ? "" : ", --no-stop-on-nan") + checkpoint_options(session) + evaluation_options(session) +
         (o.link_delay ? ", links of " + std::to_string(o.link_delay->latency.count()) + " us and " +
                             std::to_string(o.link_delay->bytes_per_second) + " bytes/s"
                       : "");
}

class RankRun {
 public:
  RankRun(Session& session, const plan::RankPlan& plan, hal::ControlChannel& control,
          hal::ControlChannel* checkpoint_control)
      : session_(session),
        plan_(plan),
        control_(control),
        checkpoint_control_(checkpoint_control),
        wait_{&session.stop, session.options.timeout},
        status_(session, plan.rank) {}

  Status run(const MakeBackend& make_backend) {
    const plan::Manifest& manifest = session_.bundle->manifest;
    PIPER_ASSIGN(ring_,
                 session_.rings.open(session_.options.rings, {plan_.rank, manifest.world_size, session_.bundle_digest,
                                                              static_cast<int32_t>(plan_.streams.size())}));
    ring_->host(live::EventKind::kStarting, 0);
    messages_.emplace(ring_->host_track());
    wait_.messages = &*messages_;
    PIPER_RETURN_IF_ERROR(
        bootstrap::check_agreement(control_, {session_.bundle_digest, agreed_options(session_)}, wait_));
    for (const std::string* path :
         {&session_.options.save, &session_.options.save_gradients, &session_.evaluation.save_best})
      if (!path->empty() && control_.rank() == 0) PIPER_RETURN_IF_ERROR(checkpoint::check_writable(*path));
    PIPER_ASSIGN(Backend backend, make_backend(plan_));
    PIPER_ASSIGN(rank_, load_rank(*session_.bundle, plan_, session_.weights, std::move(backend), control_, wait_,
                                  !session_.options.save_gradients.empty(), session_.resume));
    PIPER_ASSIGN(StepInputs inputs, StepInputs::bind(*rank_, *session_.data, session_.options.seed));
    PIPER_RETURN_IF_ERROR(go_on(inputs));
    PIPER_RETURN_IF_ERROR(open_checkpointer());
    if (plan_.rank == session_.bundle->manifest.reporting_rank) {
      PIPER_ASSIGN(reporter_, Reporter::open(session_, *rank_));
      if (checkpointer_ != nullptr) reporter_->tell_checkpoints(checkpointer_->total_bytes(), checkpointer_->bytes());
    }
    for (const std::string& line : graph_cuts(*rank_)) std::fprintf(stderr, "piper-run: note: %s\n", line.c_str());
    if (rank_->evaluation != nullptr) {
      PIPER_ASSIGN(evaluation_, Evaluation::make(session_, *rank_, control_, ring_));
    }
    Executor executor(*rank_, session_.stop, session_.options.timeout, ring_);
    if (!session_.options.profile.empty()) {
      profile_ = std::make_unique<trace::Profile>(plan_.instructions.size());
      executor.set_profile(profile_.get());
    }
    if (!session_.options.trace.file.empty()) {
      PIPER_ASSIGN(trace_, TraceRecorder::make(session_, plan_, control_, wait_));
      executor.set_trace(&trace_->steps());
    }
    if (!session_.options.calibrate.empty()) {
      PIPER_ASSIGN(calibration_, Calibration::make(*rank_));
    }
    if (session_.options.check_replicas > 0) {
      PIPER_ASSIGN(replicas_, ReplicaCheck::make(*rank_, control_, wait_));
    }
    if (!session_.options.digests.file.empty()) {
      PIPER_ASSIGN(digests_, DigestRecorder::make(session_, *rank_, control_));
    }
    PIPER_RETURN_IF_ERROR(control_.barrier(wait_));
    inputs.read_ahead(first_step_, session_.options.steps, ring_->loader());
    session_.started = true;
    status_.enter(live::RankState::kTraining);
    PIPER_ASSIGN(const bool stopped, all_steps(executor, inputs));
    if (!verdict_.ok()) return end_with_verdict();
    host(live::EventKind::kEnding, session_.options.steps);
    PIPER_RETURN_IF_ERROR(save_resharded());
    status_.enter(stopped ? live::RankState::kStopping : live::RankState::kCheckpointing);
    if (checkpointer_ != nullptr) {
      PIPER_RETURN_IF_ERROR(checkpointer_->finish());
      status_.committed(*checkpointer_);
    }
    if (stopped) session_.stopped = true;
    if (!session_.options.save.empty() && !stopped)
      PIPER_RETURN_IF_ERROR(checkpoint::save_tensors({session_.options.save, session_.weights},
                                                     session_.bundle->manifest,
                                                     weight_pieces(session_.bundle->manifest, plan_, rank_->buffers),
                                                     rank_->device(), control_, hal::patient(wait_)));
    PIPER_RETURN_IF_ERROR(finish(executor));
    digests_.reset();
    if (!stopped) status_.enter(live::RankState::kDone);
    rank_->close();
    ring_->host(live::EventKind::kEnded, session_.options.steps);
    return {};
  }

  // The step of the newest checkpoint that this run has committed, 0: none.
  int64_t committed() { return checkpointer_ == nullptr ? 0 : checkpointer_->committed_step(); }

 private:
  // Behind the checkpoint's steps and samples.
  Status go_on(StepInputs& inputs) {
    if (session_.resume == nullptr) return {};
    const checkpoint::Manifest& from = session_.resume->manifest();
    const int64_t batch = session_.bundle->manifest.batch;
    if (batch <= 0 || from.samples % batch != 0)
      return Status::failure("R0703", "the checkpoint ends behind " + std::to_string(from.samples) +
                                          " samples, which are no whole steps of " + std::to_string(batch));
    first_step_ = from.step + 1;
    data_shift_ = from.samples / batch - from.step;
    inputs.shift_data(data_shift_);
    return {};
  }

  // A thread that waits for another rank's file waits as long as that takes; a failure wakes it.
  Status open_checkpointer() {
    if (session_.storage == nullptr) return {};
    const hal::WaitControl writing{&session_.stop, std::chrono::hours(24)};
    checkpoint::WriterOptions options = session_.writer;
    options.track = ring_->writer();
    PIPER_ASSIGN(checkpointer_,
                 checkpoint::Checkpointer::make(session_.bundle->manifest, plan_, rank_->buffers, rank_->device(),
                                                *checkpoint_control_, writing, *session_.storage, session_.identity,
                                                std::move(options)));
    return {};
  }

  // Without steps to do, the checkpoint of another plan becomes one in this plan's parts.
  Status save_resharded() {
    const bool idle = session_.resume != nullptr && first_step_ == session_.options.steps + 1;
    if (checkpointer_ == nullptr || !idle || session_.resume->manifest().plan_sha256 == session_.bundle_digest)
      return {};
    return checkpointer_->save(first_step_ - 1, session_.resume->manifest().samples);
  }

  // Whether they ended before the last one, because a signal asked for it.
  Result<bool> all_steps(Executor& executor, StepInputs& inputs) {
    const int64_t last = session_.options.steps;
    CheckpointClock clock(session_.options.checkpoints, first_step_, last);
    if (first_step_ <= last) {
      PIPER_ASSIGN([[maybe_unused]] const StopAction none, agreed_behind(first_step_ - 1));
    }
    StopAction action = StopAction::kGoOn;
    for (int64_t step = first_step_; step <= last && action < StopAction::kStop; ++step) {
      PIPER_RETURN_IF_ERROR(one_step(executor, inputs, step));
      PIPER_RETURN_IF_ERROR(evaluate(step));
      PIPER_RETURN_IF_ERROR(compare_replicas(step));
      if (!verdict_.ok()) return false;
      PIPER_ASSIGN(action, step < last ? agreed_behind(step) : StopAction::kGoOn);
      if (checkpointer_ != nullptr) PIPER_RETURN_IF_ERROR(save_checkpoint(clock, step, action));
    }
    if (first_step_ > last) PIPER_RETURN_IF_ERROR(evaluate(last));
    PIPER_RETURN_IF_ERROR(look_for_nan(executor));
    return action == StopAction::kStop;
  }

  Status compare_replicas(int64_t step) {
    if (replicas_ == nullptr || step % session_.options.check_replicas != 0) return {};
    PIPER_ASSIGN(const std::string difference, replicas_->run(step));
    if (!difference.empty()) verdict_ = Status::failure("R0811", difference);
    return {};
  }

  // Behind the last of the steps that all ranks do: whether one of them was lost, and what lost it.
  Status look_for_nan(Executor& executor) {
    if (session_.stopping == nullptr || !session_.options.stop_on_nan) return {};
    const std::string mine = nan_.step == 0 ? "" : std::to_string(nan_.step) + " " + nan_.what;
    PIPER_ASSIGN(const std::vector<std::string> all, control_.allgather(mine, hal::patient(wait_)));
    const std::string& told = all.at(static_cast<size_t>(session_.bundle->manifest.reporting_rank));
    if (told.empty()) return {};
    const size_t space = told.find(' ');
    nan_ = {std::stoll(told.substr(0, space)), told.substr(space + 1)};
    if (checkpointer_ != nullptr) PIPER_RETURN_IF_ERROR(checkpointer_->finish());
    executor.set_profile(nullptr);
    executor.set_trace(nullptr);
    NanReplay replay(session_, *rank_, control_, executor, data_shift_);
    Status found = replay.run(nan_, committed());
    if (found.error().code != "R0801") return found;
    verdict_ = std::move(found);
    return {};
  }

  Status end_with_verdict() {
    if (checkpointer_ != nullptr) PIPER_RETURN_IF_ERROR(checkpointer_->finish());
    digests_.reset();
    rank_->close();
    session_.end_with(std::move(verdict_));
    return {};
  }

  void host(live::EventKind kind, int64_t step) {
    ring_->host(kind, step);
    if (trace_ != nullptr) trace_->steps().host(kind, step);
  }

  Result<StopAction> agreed_behind(int64_t step) {
    if (session_.stopping == nullptr) return StopAction::kGoOn;
    host(live::EventKind::kAgree, step);
    return session_.stopping->behind(step, checkpointer_ == nullptr ? 0 : checkpointer_->write_seconds());
  }

  Status save_checkpoint(CheckpointClock& clock, int64_t step, StopAction action) {
    PIPER_RETURN_IF_ERROR(checkpointer_->failure());
    host(live::EventKind::kAgree, step);
    PIPER_ASSIGN(const bool due, clock.due(step, control_, wait_));
    if (!due && (action == StopAction::kGoOn || action == StopAction::kReplay)) return {};
    if (nan_.step > 0) return checkpointer_->refuse(step);
    host(live::EventKind::kSave, step);
    status_.enter(action == StopAction::kStop ? live::RankState::kStopping : live::RankState::kCheckpointing);
    PIPER_RETURN_IF_ERROR(checkpointer_->save(step, (step + data_shift_) * session_.bundle->manifest.batch));
    if (action != StopAction::kStop) status_.enter(live::RankState::kTraining);
    return {};
  }

  Status run_step(Executor& executor, int64_t step, bool digests) {
    if (digests) return executor.run_step(step, digests_->calls(), *digests_);
    if (calibration_ == nullptr) return executor.run_step(step);
    calibration_->begin_step(step);
    return executor.run_step(step, calibration_->calls(), *calibration_);
  }

  Status one_step(Executor& executor, StepInputs& inputs, int64_t step) {
    const plan::Manifest& manifest = session_.bundle->manifest;
    const auto begin = steady_clock::now();
    const bool digests = digests_ != nullptr && digests_->due(step);
    host(live::EventKind::kData, step);
    PIPER_RETURN_IF_ERROR(inputs.write(step));
    host(live::EventKind::kStep, step);
    PIPER_RETURN_IF_ERROR(run_step(executor, step, digests));
    host(live::EventKind::kReport, step);
    const double seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
    if (session_.stopping != nullptr) session_.stopping->tell_step_time(plan_.rank, seconds * 1e3);
    PIPER_RETURN_IF_ERROR(report(step, seconds, inputs));
    session_.steps_done.store(step, std::memory_order_relaxed);
    if (digests) PIPER_RETURN_IF_ERROR(digests_->end_step(step));
    status_.step(step, seconds, reporter_.get(), checkpointer_.get());
    if (step == first_step_ && rank_->gradients != nullptr)
      PIPER_RETURN_IF_ERROR(checkpoint::save_tensors({session_.options.save_gradients, nullptr}, manifest,
                                                     rank_->gradients->pieces(manifest), rank_->device(), control_,
                                                     hal::patient(wait_)));
    return {};
  }

  // A loss that is no number ends the run behind a step that all ranks agree on, so that they can look for what made
  // it. What the steps until then give is nobody's business.
  Status report(int64_t step, double seconds, const StepInputs& inputs) {
    if (reporter_ == nullptr || nan_.step > 0) return {};
    Status status = reporter_->step(step, step + data_shift_, seconds, inputs);
    if (status.ok() || status.error().code != "R0801" || session_.stopping == nullptr) return status;
    nan_ = {step, status.error().message};
    std::fprintf(stderr, "piper-run: %s: all ranks end their steps to look for what made it\n", nan_.what.c_str());
    session_.requests.replay = true;
    return {};
  }

  // Where the host's memory is the device's.
  int64_t read_ahead_bytes() const {
    const plan::Manifest& manifest = session_.bundle->manifest;
    if (manifest.target.device != plan::DeviceKind::kCpu) return 0;
    const LoadedRank* evaluation = rank_->evaluation.get();
    return plan::read_ahead_bytes(manifest, plan_) +
           (evaluation == nullptr ? 0 : plan::read_ahead_bytes(evaluation->bundle->manifest, *evaluation->plan));
  }

  Status evaluate(int64_t step) {
    if (evaluation_ == nullptr || !evaluation_->due(step)) return {};
    host(live::EventKind::kEvaluate, step);
    status_.enter(live::RankState::kEvaluating);
    PIPER_ASSIGN(const std::optional<double> loss, evaluation_->run(step));
    if (loss && reporter_ != nullptr && nan_.step == 0) reporter_->evaluation(step, *loss);
    return evaluation_->keep_best(loss, plan_);
  }

  Status finish(Executor& executor) {
    const int64_t peak = rank_->allocated_bytes() + executor.scratch_high_water() +
                         rank_->backend->kernels->memory_bytes() + rank_->backend->collectives->buffer_bytes() +
                         read_ahead_bytes() + (checkpointer_ == nullptr ? 0 : checkpointer_->bytes());
    PIPER_ASSIGN(const std::vector<std::string> all, control_.allgather(std::to_string(peak), hal::patient(wait_)));
    if (profile_ != nullptr) PIPER_RETURN_IF_ERROR(write_profile());
    if (trace_ != nullptr) PIPER_RETURN_IF_ERROR(trace_->write(hal::patient(wait_)));
    if (calibration_ != nullptr)
      PIPER_RETURN_IF_ERROR(write_of_all_ranks(session_.options.calibrate, calibration_->lines()));
    if (reporter_ == nullptr) return {};
    std::vector<int64_t> peaks;
    for (const std::string& text : all) peaks.push_back(std::stoll(text));
    session_.log_failure = reporter_->finish(std::move(peaks));
    return {};
  }

  Status write_profile() {
    std::string lines;
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      if (i > 0) lines += '\n';
      lines += profile_->line({plan_.rank, static_cast<int32_t>(i),
                               plan_.streams.at(static_cast<size_t>(plan_.instructions[i].stream)).name,
                               action_text(*session_.bundle, plan_, static_cast<int32_t>(i))});
    }
    return write_of_all_ranks(session_.options.profile, lines);
  }

  // All ranks' lines in one file, written by the reporting rank.
  Status write_of_all_ranks(const std::string& path, const std::string& lines) {
    PIPER_ASSIGN(const std::vector<std::string> all, control_.allgather(lines, hal::patient(wait_)));
    if (reporter_ == nullptr) return {};
    PIPER_ASSIGN(trace::StepLog file, trace::StepLog::open(path));
    for (const std::string& text : all)
      if (!text.empty()) PIPER_RETURN_IF_ERROR(file.write(text));
    return {};
  }

  Session& session_;
  const plan::RankPlan& plan_;
  hal::ControlChannel& control_;
  hal::ControlChannel* checkpoint_control_;
  hal::WaitControl wait_;
  StatusReport status_;
  int64_t first_step_ = 1, data_shift_ = 0;  // data_shift_: steps by which the data are ahead
  trace::RingWriter* ring_ = nullptr;
  std::optional<RingWaits> messages_;  // of the host, which is the thread of this
  std::unique_ptr<LoadedRank> rank_;
  std::unique_ptr<checkpoint::Checkpointer> checkpointer_;  // nullptr: none are saved
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<Evaluation> evaluation_;    // nullptr: nothing is evaluated
  std::unique_ptr<ReplicaCheck> replicas_;    // nullptr: not asked for
  NanFound nan_;                              // step 0: none is known here
  Status verdict_;                            // why all ranks end alike
  std::unique_ptr<trace::Profile> profile_;   // nullptr: not asked for
  std::unique_ptr<TraceRecorder> trace_;      // nullptr: not asked for
  std::unique_ptr<Calibration> calibration_;  // nullptr: not asked for
  std::unique_ptr<DigestRecorder> digests_;   // nullptr: not asked for
};

}  // namespace

void Session::end_with(Status found) {
  std::lock_guard lock(verdict_mutex);
  if (verdict.ok()) verdict = std::move(found);
}

void run_rank(Session& session, const plan::RankPlan& plan, const MakeBackend& make_backend,
              hal::ControlChannel& control, hal::ControlChannel* checkpoint_control) {
  Status status;
  // Behind the failure's report: a thread that writes waits for other ranks until it hears of one.
  RankRun run(session, plan, control, checkpoint_control);
  try {
    status = run.run(make_backend);
  } catch (const InternalError& bug) {
    status = Status::failure("bug", bug.what());
  } catch (const std::exception& failure) {
    status = Status::failure("bug", failure.what());
  }
  if (const int64_t committed = run.committed(); committed > 0) session.committed = committed;
  if (status.ok() || hal::is_stopped(status)) return;
  // An executor's failure names the rank already; what all ranks find alike names none.
  if (status.error().code != "R0102") status = std::move(status).with_context("rank " + std::to_string(plan.rank));
  session.stop.raise(std::move(status));
}

}  // namespace piper::exec
