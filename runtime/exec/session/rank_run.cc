#include "runtime/exec/session/rank_run.h"

#include <cstdio>
#include <numeric>
#include <utility>

#include "runtime/bootstrap/agreement.h"
#include "runtime/exec/calibration.h"
#include "runtime/exec/checks/digest_recorder.h"
#include "runtime/exec/checks/replica_check.h"
#include "runtime/exec/graph_cuts.h"
#include "runtime/exec/session/agreed_options.h"
#include "runtime/exec/session/evaluation.h"
#include "runtime/exec/session/profile_recorder.h"
#include "runtime/exec/session/save_weights.h"
#include "runtime/exec/trace_recorder.h"

namespace piper::exec {

using std::chrono::steady_clock;

RankRun::RankRun(Session& session, const plan::RankPlan& plan, hal::ControlChannel& control,
                 hal::ControlChannel* checkpoint_control)
    : session_(session),
      plan_(plan),
      control_(control),
      checkpoint_control_(checkpoint_control),
      wait_{&session.stop, session.options.timeout},
      status_(session, plan.rank),
      finite_(session.bundle->manifest, session.weights, session.resume) {}

Status RankRun::run(const MakeBackend& make_backend) {
  PIPER_RETURN_IF_ERROR(meet());
  PIPER_RETURN_IF_ERROR(load(make_backend));
  PIPER_ASSIGN(StepInputs inputs, StepInputs::bind(*rank_, *session_.data, session_.options.seed));
  PIPER_RETURN_IF_ERROR(go_on(inputs));
  PIPER_RETURN_IF_ERROR(open_checkpointer());
  PIPER_RETURN_IF_ERROR(open_reports());
  Executor executor(*rank_, session_.stop, session_.options.timeout, ring_);
  PIPER_RETURN_IF_ERROR(watch(executor));
  PIPER_RETURN_IF_ERROR(control_.barrier(wait_));
  inputs.read_ahead(first_step_, session_.options.steps, ring_->loader());
  session_.started = true;
  status_.enter(live::RankState::kTraining);
  PIPER_ASSIGN(const StopAction action, all_steps(executor, inputs));
  if (!verdict_.ok()) return end_with_verdict();
  return end(executor, action);
}

Status RankRun::meet() {
  const plan::Manifest& manifest = session_.bundle->manifest;
  PIPER_ASSIGN(ring_,
               session_.rings.open(session_.options.rings, {plan_.rank, manifest.world_size, session_.bundle_digest,
                                                            static_cast<int32_t>(plan_.streams.size())}));
  ring_->host(live::EventKind::kStarting, 0);
  messages_.emplace(ring_->host_track());
  wait_.messages = &*messages_;
  return bootstrap::check_agreement(control_, {session_.bundle_digest, agreed_options(session_)}, wait_);
}

Status RankRun::load(const MakeBackend& make_backend) {
  for (const std::string* path :
       {&session_.options.save, &session_.options.save_gradients, &session_.evaluation.save_best})
    if (!path->empty() && control_.rank() == 0) PIPER_RETURN_IF_ERROR(checkpoint::check_writable(*path));
  PIPER_ASSIGN(Backend backend, make_backend(plan_));
  PIPER_ASSIGN(rank_, load_rank(*session_.bundle, plan_, {session_.weights, session_.resume, session_.evaluation.alone},
                                std::move(backend), control_, wait_, !session_.options.save_gradients.empty()));
  return {};
}

Status RankRun::open_reports() {
  if (plan_.rank == session_.bundle->manifest.reporting_rank) {
    PIPER_ASSIGN(reporter_, Reporter::open(session_, *rank_));
    if (checkpointer_ != nullptr) reporter_->tell_checkpoints(checkpointer_->total_bytes(), checkpointer_->bytes());
  }
  for (const std::string& line : graph_cuts(*rank_)) std::fprintf(stderr, "piper-run: note: %s\n", line.c_str());
  return {};
}

Status RankRun::watch(Executor& executor) {
  const SessionOptions& options = session_.options;
  const auto add = [&](auto made) { hooks_.push_back(std::move(made)); };
  if (!options.digests.file.empty()) {
    PIPER_ASSIGN(auto digests, DigestRecorder::make(session_, *rank_, control_));
    add(std::move(digests));
  }
  if (rank_->evaluation != nullptr) {
    PIPER_ASSIGN(auto evaluation, Evaluation::make(session_, *rank_, control_, plan_, *this, ring_));
    add(std::move(evaluation));
  }
  if (options.check_replicas > 0) {
    PIPER_ASSIGN(auto replicas, ReplicaCheck::make(*rank_, control_, wait_, options.check_replicas));
    add(std::move(replicas));
  }
  if (!options.profile.empty())
    add(std::make_unique<ProfileRecorder>(session_, plan_, control_, hal::patient(wait_), executor));
  if (!options.trace.file.empty()) {
    PIPER_ASSIGN(auto trace, TraceRecorder::make(session_, plan_, control_, wait_));
    executor.set_trace(&trace->steps());
    add(std::move(trace));
  }
  if (!options.calibrate.empty()) {
    PIPER_ASSIGN(auto calibration, Calibration::make(session_, *rank_, control_, wait_));
    add(std::move(calibration));
  }
  return {};
}

Status RankRun::end(Executor& executor, StopAction action) {
  const bool stopped = action == StopAction::kStop || action == StopAction::kLeave;
  host(live::EventKind::kEnding, session_.options.steps);
  status_.enter(stopped ? live::RankState::kStopping : live::RankState::kCheckpointing);
  if (checkpointer_ != nullptr) {
    PIPER_RETURN_IF_ERROR(checkpointer_->finish());
    status_.committed(*checkpointer_);
  }
  if (action == StopAction::kLeave) {
    PIPER_RETURN_IF_ERROR(control_.barrier(hal::patient(wait_)));  // all ranks know of the commit
    session_.stop.raise_signal(session_.stopping->signal_number());
    return hal::stopped();
  }
  if (stopped) session_.stopped = true;
  if (!session_.options.save.empty() && !stopped)
    PIPER_RETURN_IF_ERROR(save_weights(session_, session_.options.save, *rank_, plan_, control_, wait_));
  PIPER_RETURN_IF_ERROR(finish(executor));
  hooks_.clear();
  if (!stopped) status_.enter(live::RankState::kDone);
  rank_->close();
  ring_->host(live::EventKind::kEnded, session_.options.steps);
  return {};
}

Status RankRun::go_on(StepInputs& inputs) {
  if (session_.resume == nullptr) return {};
  const checkpoint::Manifest& from = session_.resume->manifest();
  const int64_t batch = session_.bundle->manifest.batch;
  first_step_ = from.step + 1;
  if (first_step_ > session_.options.steps) return {};  // no samples are drawn
  if (batch <= 0 || from.samples % batch != 0)
    return Status::failure("R0703",
                           "the checkpoint ends after " + std::to_string(from.samples) +
                               " samples, which is not a multiple of the batch of " + std::to_string(batch) +
                               "\nhelp: compile with a batch that divides this number, --set model.batch=" +
                               std::to_string(std::gcd(from.samples, batch)) +
                               ", or continue with the old batch until the number is a multiple of the new one");
  samples_shift_ = from.samples / batch - from.step;
  if (session_.data->numbers_samples()) data_shift_ = samples_shift_;
  inputs.shift_data(data_shift_);
  return {};
}

Status RankRun::open_checkpointer() {
  if (session_.storage == nullptr) return {};
  checkpoint::WriterOptions options = session_.writer;
  options.track = ring_->writer();
  if (stops_on_nan()) options.finite = &finite_;
  options.writing = &session_.requests.writing;
  PIPER_ASSIGN(checkpointer_,
               checkpoint::Checkpointer::make(session_.bundle->manifest, plan_, rank_->buffers, rank_->device(),
                                              *checkpoint_control_, hal::for_files({&session_.stop}), *session_.storage,
                                              session_.identity, std::move(options)));
  return {};
}

Status RankRun::without_steps() {
  const int64_t last = session_.options.steps;
  for (const auto& hook : hooks_) PIPER_RETURN_IF_ERROR(hook->without_steps(last));
  if (checkpointer_ == nullptr || session_.resume == nullptr || first_step_ != last + 1) return {};
  if (session_.resume->manifest().plan_sha256 != session_.bundle_digest)
    return checkpointer_->save(last, session_.resume->manifest().samples);
  checkpointer_->remove_leavings();
  return {};
}

Result<StopAction> RankRun::all_steps(Executor& executor, StepInputs& inputs) {
  const int64_t last = session_.options.steps;
  CheckpointClock clock(session_.options.checkpoints, first_step_, last);
  if (first_step_ <= last) {
    if (checkpointer_ != nullptr) checkpointer_->begin_line();
    PIPER_ASSIGN([[maybe_unused]] const StopAction none, agreed_after(first_step_ - 1));
  }
  StopAction action = StopAction::kGoOn;
  for (int64_t step = first_step_; step <= last && action < StopAction::kStop; ++step) {
    PIPER_RETURN_IF_ERROR(one_step(executor, inputs, step));
    PIPER_RETURN_IF_ERROR(after(step));
    if (!verdict_.ok()) return action;
    PIPER_ASSIGN(action, step < last ? agreed_after(step) : StopAction::kGoOn);
    if (checkpointer_ != nullptr) PIPER_RETURN_IF_ERROR(save_checkpoint(clock, step, action));
  }
  if (first_step_ > last) PIPER_RETURN_IF_ERROR(without_steps());
  PIPER_RETURN_IF_ERROR(look_for_nan(executor, first_step_ <= last && action == StopAction::kGoOn));
  return action;
}

Status RankRun::after(int64_t step) {
  for (const auto& hook : hooks_) {
    Status status = hook->after(step);
    if (!status.ok() && status.error().code == "R0811") verdict_ = std::move(status);
    else PIPER_RETURN_IF_ERROR(std::move(status));
    if (!verdict_.ok()) break;
  }
  return {};
}

void RankRun::look_at_saved_state() {
  if (checkpointer_ == nullptr || nan_.step > 0) return;
  const checkpoint::Checkpointer::NotFinite found = checkpointer_->not_finite();
  if (found.step == 0) return;
  nan_ = {found.step, "step " + std::to_string(found.step) + ": " + found.what};
  session_.requests.replay = true;
}

Status RankRun::look_for_nan(Executor& executor, bool complete) {
  if (!stops_on_nan()) return {};
  if (checkpointer_ != nullptr) PIPER_RETURN_IF_ERROR(checkpointer_->finish());
  look_at_saved_state();
  // With checkpoints the last state has been looked at.
  if (nan_.step == 0 && complete && checkpointer_ == nullptr && !session_.options.save.empty()) {
    PIPER_ASSIGN(const std::string fault, fault_of_weights(*rank_, finite_));
    const int64_t last = session_.options.steps;
    if (!fault.empty()) nan_ = {last, "step " + std::to_string(last) + ": " + fault};
  }
  const std::string mine = nan_.step == 0 ? "" : std::to_string(nan_.step) + " " + nan_.what;
  PIPER_ASSIGN(const std::vector<std::string> all, control_.allgather(mine, hal::patient(wait_)));
  nan_ = {};
  for (const std::string& found : all) {
    const size_t space = found.find(' ');
    const int64_t step = found.empty() ? 0 : std::stoll(found.substr(0, space));
    if (step > 0 && (nan_.step == 0 || step < nan_.step)) nan_ = {step, found.substr(space + 1)};
  }
  if (nan_.step == 0) return {};
  executor.set_profile(nullptr);
  executor.set_trace(nullptr);
  NanReplay replay(session_, *rank_, control_, executor, data_shift_);
  Status found = replay.run(nan_, committed());
  if (found.error().code != "R0801") return found;
  verdict_ = std::move(found);
  return {};
}

Status RankRun::end_with_verdict() {
  if (checkpointer_ != nullptr) PIPER_RETURN_IF_ERROR(checkpointer_->finish());
  hooks_.clear();
  rank_->close();
  session_.end_with(std::move(verdict_));
  return {};
}

void RankRun::host(live::EventKind kind, int64_t step) {
  ring_->host(kind, step);
  for (const auto& hook : hooks_) hook->host(kind, step);
}

Result<StopAction> RankRun::agreed_after(int64_t step) {
  if (session_.stopping == nullptr) return StopAction::kGoOn;
  host(live::EventKind::kAgree, step);
  return session_.stopping->after(step, checkpointer_ == nullptr ? 0 : checkpointer_->write_seconds());
}

Status RankRun::save_checkpoint(CheckpointClock& clock, int64_t step, StopAction action) {
  PIPER_RETURN_IF_ERROR(checkpointer_->failure());
  look_at_saved_state();
  host(live::EventKind::kAgree, step);
  PIPER_ASSIGN(const bool due, clock.due(step, control_, wait_));
  const bool asked = action == StopAction::kSave || action == StopAction::kStop;
  if (action == StopAction::kLeave || (!due && !asked)) return {};
  if (nan_.step > 0) return checkpointer_->refuse(step);
  host(live::EventKind::kSave, step);
  status_.enter(action == StopAction::kStop ? live::RankState::kStopping : live::RankState::kCheckpointing);
  PIPER_RETURN_IF_ERROR(checkpointer_->save(step, (step + samples_shift_) * session_.bundle->manifest.batch));
  if (action != StopAction::kStop) status_.enter(live::RankState::kTraining);
  return {};
}

Status RankRun::run_step(Executor& executor, int64_t step) {
  for (const auto& hook : hooks_)
    if (const auto by_call = hook->by_call(step)) return executor.run_step(step, by_call->calls, by_call->observer);
  return executor.run_step(step);
}

Status RankRun::one_step(Executor& executor, StepInputs& inputs, int64_t step) {
  const plan::Manifest& manifest = session_.bundle->manifest;
  const auto begin = steady_clock::now();
  host(live::EventKind::kData, step);
  PIPER_RETURN_IF_ERROR(inputs.write(step));
  host(live::EventKind::kStep, step);
  PIPER_RETURN_IF_ERROR(run_step(executor, step));
  host(live::EventKind::kReport, step);
  const double seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
  if (session_.stopping != nullptr) session_.stopping->tell_step_time(plan_.rank, seconds * 1e3);
  PIPER_RETURN_IF_ERROR(report(step, seconds, inputs));
  session_.steps_done.store(step, std::memory_order_relaxed);
  status_.step(step, seconds, reporter_.get(), checkpointer_.get());
  if (step == first_step_ && rank_->gradients != nullptr)
    PIPER_RETURN_IF_ERROR(checkpoint::save_tensors({session_.options.save_gradients, nullptr}, manifest,
                                                   rank_->gradients->pieces(manifest), rank_->device(), control_,
                                                   wait_));
  return {};
}

Status RankRun::report(int64_t step, double seconds, const StepInputs& inputs) {
  if (reporter_ == nullptr || nan_.step > 0) return {};
  Status status = reporter_->step(step, step + data_shift_, seconds, inputs);
  if (status.ok() || status.error().code != "R0801" || session_.stopping == nullptr) return status;
  nan_ = {step, status.error().message};
  std::fprintf(stderr, "piper-run: %s: all ranks end their steps to look for what made it\n", nan_.what.c_str());
  session_.requests.replay = true;
  return {};
}

int64_t RankRun::read_ahead_bytes() const {
  const plan::Manifest& manifest = session_.bundle->manifest;
  if (manifest.target.device != plan::DeviceKind::kCpu) return 0;
  const LoadedRank* evaluation = rank_->evaluation.get();
  return plan::read_ahead_bytes(manifest, plan_) +
         (evaluation == nullptr ? 0 : plan::read_ahead_bytes(evaluation->bundle->manifest, *evaluation->plan));
}

void RankRun::entered(live::EventKind kind, live::RankState state, int64_t step) {
  host(kind, step);
  status_.enter(state);
}

void RankRun::evaluated(int64_t step, double loss) {
  if (reporter_ != nullptr && nan_.step == 0) reporter_->evaluation(step, loss);
}

Status RankRun::finish(Executor& executor) {
  const int64_t peak = rank_->allocated_bytes() + executor.scratch_high_water() +
                       rank_->backend->kernels->memory_bytes() + rank_->backend->collectives->buffer_bytes() +
                       read_ahead_bytes() + (checkpointer_ == nullptr ? 0 : checkpointer_->bytes());
  PIPER_ASSIGN(const std::vector<std::string> all, control_.allgather(std::to_string(peak), hal::patient(wait_)));
  for (const auto& hook : hooks_) PIPER_RETURN_IF_ERROR(hook->finish());
  if (reporter_ == nullptr) return {};
  std::vector<int64_t> peaks;
  for (const std::string& text : all) peaks.push_back(std::stoll(text));
  session_.log_failure = reporter_->finish(std::move(peaks));
  return {};
}

}  // namespace piper::exec
