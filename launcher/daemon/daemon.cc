#include "launcher/daemon/daemon.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "launcher/daemon/incident.h"
#include "launcher/daemon/left_processes.h"
#include "launcher/exit_text.h"
#include "launcher/restarts.h"

namespace piper::launcher {

using std::chrono::milliseconds;

namespace {

// Another start goes on where it was.
bool saves(const Job& job) { return has_flag(job.spec.arguments, "--checkpoint"); }

bool began(const Job& job) {
  return has_begun(job.checkpoints_before, checkpoints_of(job.spec.arguments, job.spec.folder));
}

}  // namespace

int64_t now_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Daemon::Daemon(EventLoop& loop, const StateFolder& state, DaemonOptions options)
    : loop_(loop), state_(state), options_(std::move(options)) {}

Status Daemon::open() {
  PIPER_ASSIGN(record_, state_.load_record());
  PIPER_ASSIGN(std::vector<Job> jobs, state_.load_jobs([](const std::string& what) {
    std::fprintf(stderr, "piperd: warning[L0133]: %s; it is left where it is\n", what.c_str());
  }));
  for (Job& job : jobs) {
    record_.next_job = std::max(record_.next_job, job.id + 1);
    jobs_.emplace(job.id, std::move(job));
  }
  if (nodes_)
    nodes_->serve({[this] { return own_state(); },
                   [this] {
                     schedule();
                     end_where_idle();
                   }});
  for (auto& [id, job] : jobs_) take_up(job);
  schedule();
  return {};
}

// Processes of a job that ran may be left, or just about to end; on other nodes they live as long as they may without
// an answer.
void Daemon::take_up(Job& job) {
  if (job.state == JobState::kWaiting) return wait_until_start(job);
  if (job.state != JobState::kRunning) return;
  if (job.fence_ms > 0) {
    const milliseconds fence(std::exchange(job.fence_ms, 0));
    activities_[job.id].timer = loop_.after(fence, [this, &job] { take_up(job); });
    return;
  }
  settle(job.id, [this, &job] {
    if (job.cancelling) finish(job, JobState::kCancelled, "cancelled; piperd ended meanwhile");
    else if (saves(job)) requeue(job, "piperd ended while it ran");
    else finish(job, JobState::kFailed, "piperd ended while it ran, and it saves no checkpoints");
    schedule();
    end_where_idle();
  });
}

Status Daemon::fits(const JobSpec& spec) const {
  if (spec.nodes > 1) {
    if (!nodes_)
      return Status::failure("L0135",
                             "a job of several nodes cannot be submitted: this piperd knows of no other "
                             "node, start it with --nodes");
    const std::string why = never_fits(nodes_->states(), spec.nodes, spec.ranks / spec.nodes, {});
    return why.empty() ? Status() : Status::failure("L0134", "the job does not fit: " + why);
  }
  if (spec.ranks <= options_.slots) return {};
  return Status::failure("L0134", std::to_string(spec.ranks) + " ranks do not fit on this node, which has " +
                                      std::to_string(options_.slots) + " slots");
}

Result<int64_t> Daemon::submit(JobSpec spec) {
  PIPER_RETURN_IF_ERROR(fits(spec));
  Job job;
  job.id = record_.next_job;
  job.spec = std::move(spec);
  job.submitted_ms = now_ms();
  // A number that was given is not given again, also where the job could not be kept.
  DaemonRecord record = record_;
  ++record.next_job;
  PIPER_RETURN_IF_ERROR(state_.save(record));
  record_ = record;
  PIPER_RETURN_IF_ERROR(state_.save(job));
  const int64_t id = job.id;
  jobs_.emplace(id, std::move(job));
  loop_.post([this] { schedule(); });
  return id;
}

Status Daemon::cancel(int64_t id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return Status::failure("L0132", "there is no job " + std::to_string(id));
  Job& job = found->second;
  if (has_ended(job.state))
    return Status::failure("L0132", "job " + std::to_string(id) + " has ended: " + name_of(job.state));
  if (job.state != JobState::kRunning) {
    finish(job, JobState::kCancelled, "cancelled before it ran" + std::string(job.attempts > 0 ? " again" : ""));
    schedule();
    return {};
  }
  job.cancelling = true;
  save(job);
  interrupt(id, SIGTERM);
  return {};
}

Status Daemon::drain(bool on) {
  DaemonRecord record = record_;
  record.draining = on;
  PIPER_RETURN_IF_ERROR(state_.save(record));
  record_ = record;
  if (!on) {
    schedule();
    return {};
  }
  for (auto& [id, job] : jobs_) {
    if (job.state == JobState::kWaiting) requeue(job, "drained while it waited for its next start");
    if (job.state != JobState::kRunning || job.cancelling || !saves(job) || has_own_part(job)) continue;
    Activity& activity = activities_[id];
    if (!std::exchange(activity.interrupted, true) && activity.attempt) activity.attempt->signal(SIGUSR1, {});
  }
  if (nodes_) nodes_->parts().drain();
  return {};
}

void Daemon::end() {
  ending_ = true;
  for (auto& [id, job] : jobs_)
    if (job.state == JobState::kRunning) {
      activities_[id].interrupted = true;
      if (!has_own_part(job)) interrupt(id, SIGTERM);
    }
  if (nodes_) nodes_->parts().end();
  end_where_idle();
}

// Its ranks here are asked to stop as every part of this node is, and agree on it with the others.
bool Daemon::has_own_part(const Job& job) const {
  return nodes_ && job.spec.nodes > 1 &&
         std::find(job.placed.begin(), job.placed.end(), nodes_->own()) != job.placed.end();
}

NodeState Daemon::own_state() const {
  NodeState state;
  state.name = nodes_ ? nodes_->own() : "";
  state.slots = options_.slots;
  state.used = slots_used();
  state.answers = true;
  state.drained = record_.draining || ending_;
  return state;
}

int32_t Daemon::slots_used() const {
  int32_t used = 0;
  for (const auto& [id, job] : jobs_) used += holds_slots(job.state) && job.spec.nodes == 1 ? job.spec.ranks : 0;
  return used + (nodes_ ? nodes_->parts().slots_used() : 0);
}

void Daemon::schedule() {
  if (record_.draining || ending_) return;
  for (auto& [id, job] : jobs_) {
    if (job.state != JobState::kQueued) continue;
    if (job.spec.nodes > 1) {
      if (!find_place(job)) return;
      if (has_ended(job.state)) continue;
    } else if (slots_used() + job.spec.ranks > options_.slots) {
      return;
    }
    start(job);
  }
}

// Whether it need not wait: it has a place, or has failed because it will never have one.
bool Daemon::find_place(Job& job) {
  if (job.next_start_ms > now_ms()) return false;
  const int32_t ranks = job.spec.ranks / job.spec.nodes;
  if (!nodes_) {
    job.why = "waits for other nodes: this piperd was started without --nodes";
    return false;
  }
  const std::vector<NodeState> states = nodes_->states();
  // It fitted when it was submitted; a list of nodes that has changed since may change back.
  const std::string never = never_fits(states, job.spec.nodes, ranks, job.excluded);
  if (!never.empty() && !job.excluded.empty()) {
    finish(job, JobState::kFailed, never);
    return true;
  }
  Placement placement = place(states, job.spec.nodes, ranks, job.excluded);
  job.placed = std::move(placement.nodes);
  if (job.placed.empty()) job.why = std::move(placement.why);
  return !job.placed.empty();
}

void Daemon::start(Job& job) {
  job.state = JobState::kRunning;
  job.started_ms = now_ms();
  job.next_start_ms = 0;
  if (job.attempts == 0) job.checkpoints_before = checkpoints_of(job.spec.arguments, job.spec.folder);
  ++job.attempts;
  job.fence_ms = job.spec.nodes > 1 ? nodes_->fence().count() : 0;
  job.why.clear();
  // Before it runs: the next daemon looks for what this one may leave.
  save(job);
  auto attempt = start_attempt(job);
  if (!attempt.ok()) {
    job.exit_status = 1;
    return finish(job, JobState::kFailed, "error[" + attempt.error().code + "]: " + attempt.error().message);
  }
  activities_[job.id] = {std::move(attempt).value(), nullptr, false};
  say(job, "attempt " + std::to_string(job.attempts) + (job.resume ? " continues from the newest checkpoint" : ""));
}

Result<std::unique_ptr<RunningAttempt>> Daemon::start_attempt(const Job& job) {
  const auto ended = [this, id = job.id](const AttemptEnd& end) { attempt_ended(id, end); };
  if (job.spec.nodes > 1)
    return nodes_->start(job, folder_of(job.id), ended, [this, id = job.id](const std::string& node) {
      activities_.at(id).interrupted = true;
      say(jobs_.at(id), node + " takes its ranks away: it is drained, or its piperd ends");
    });
  PIPER_ASSIGN(JobLog opened, JobLog::open(folder_of(job.id), options_.log));
  const auto log = std::make_shared<JobLog>(std::move(opened));
  AttemptStart how;
  how.launcher = options_.launcher;
  how.folder = folder_of(job.id);
  how.incidents = how.folder + "/hangs";
  how.line = [log](const std::string& line) { log->append(line); };
  how.blocked = options_.blocked;
  PIPER_ASSIGN(std::unique_ptr<Attempt> attempt, Attempt::start(loop_, how, job, ended));
  return std::unique_ptr<RunningAttempt>(std::move(attempt));
}

// Ranks hold their checkpoint folder, ports and memory until they are gone.
void Daemon::settle(int64_t id, std::function<void()> next) {
  kill_processes_of(folder_of(id));
  Activity& activity = activities_[id];
  if (!all_gone(folder_of(id))) {
    activity.timer = loop_.after(kSettle, [this, id, next = std::move(next)] { settle(id, next); });
    return;
  }
  next();
}

void Daemon::attempt_ended(int64_t id, const AttemptEnd& end) {
  Job& job = jobs_.at(id);
  activities_.at(id).attempt.reset();
  if (!end.refused) job.exit_status = end.exit_status;
  settle(id, [this, &job, end] {
    const bool interrupted = activities_[job.id].interrupted;
    activities_.erase(job.id);
    if (end.refused) try_again_later(job, end.why);
    else decide(job, end, interrupted);
    schedule();
    end_where_idle();
  });
}

// No attempt at all: nothing of it ran.
void Daemon::try_again_later(Job& job, const std::string& why) {
  --job.attempts;
  if (job.cancelling) return finish(job, JobState::kCancelled, "cancelled before it ran");
  job.state = JobState::kQueued;
  job.why = why;
  const milliseconds pause(1000 + std::uniform_int_distribution<int>(0, 1000)(chance_));
  job.next_start_ms = now_ms() + pause.count();
  save(job);
  say(job, "does not start: " + why);
  retry_ = loop_.after(pause + milliseconds(1), [this] { schedule(); });
}

void Daemon::decide(Job& job, const AttemptEnd& end, bool interrupted) {
  const std::string ended = exit_text(job.exit_status) + (end.why.empty() ? "" : ", " + end.why);
  const bool again = saves(job) && (job.exit_status == kStoppedOnRequest || worth_restarting(job.exit_status));
  if (job.exit_status == 0) return finish(job, JobState::kDone, "");
  if (job.cancelling) return finish(job, JobState::kCancelled, "cancelled, " + ended);
  if (interrupted && again) return requeue(job, ending_ ? "piperd ended" : "drained");
  if (interrupted && worth_restarting(job.exit_status))
    return finish(job, JobState::kFailed, "piperd ended while it ran, and it saves no checkpoints");
  if (job.exit_status != kStoppedOnRequest) {
    ++record_.incidents;
    keep(write_incident(folder_of(job.id), job, ++job.incidents));
    if (job.spec.nodes > 1) blame(job, end.node);
  }
  if (!again)
    return finish(job, JobState::kFailed,
                  ended + (worth_restarting(job.exit_status) ? "; without --checkpoint it is not started again" : ""));
  job.restarted_ms = counted_restarts(job.restarted_ms, now_ms(), std::chrono::seconds(job.spec.window_s));
  if (job.restarted_ms.size() >= static_cast<size_t>(job.spec.restarts))
    return finish(job, JobState::kFailed,
                  ended + ", after " + std::to_string(job.restarted_ms.size()) + " restarts in " +
                      std::to_string(job.spec.window_s) + " s, as many as it may have");
  wait_for_restart(job, ended);
}

void Daemon::blame(Job& job, const std::string& node) {
  if (!fails_too_often(job.failing, node)) return;
  job.excluded.push_back(node);
  say(job,
      "failed " + std::to_string(kExcludeAfter) + " times in a row on " + node + ", which gets no part of it any more");
}

void Daemon::wait_for_restart(Job& job, const std::string& why) {
  const auto pause = pause_before(static_cast<int32_t>(job.restarted_ms.size()) + 1,
                                  std::uniform_real_distribution<double>(0, 1)(chance_));
  const int64_t now = now_ms();
  job.restarted_ms.push_back(now);
  ++job.restarts;
  ++record_.restarts;
  job.state = JobState::kWaiting;
  job.why = why;
  job.next_start_ms = now + pause.count();
  job.resume = job.resume || began(job);
  save(job);
  save_record();
  say(job, "ended with " + job.why + "; starts again in " + std::to_string(pause.count()) + " ms");
  if (ending_ || record_.draining) requeue(job, job.why);
  else wait_until_start(job);
}

void Daemon::wait_until_start(Job& job) {
  const int64_t left = std::clamp<int64_t>(job.next_start_ms - now_ms(), 0, 600'000);
  activities_[job.id].timer = loop_.after(milliseconds(left), [this, &job] {
    activities_.erase(job.id);
    if (record_.draining || ending_) return requeue(job, job.why);
    if (job.spec.nodes == 1) return start(job);  // its slots are still its own
    job.state = JobState::kQueued;
    job.next_start_ms = 0;
    save(job);
    schedule();
  });
}

void Daemon::requeue(Job& job, const std::string& why) {
  activities_.erase(job.id);
  job.state = JobState::kQueued;
  job.next_start_ms = 0;
  job.resume = job.resume || (job.attempts > 0 && began(job));
  job.why = why;
  save(job);
  say(job, why + "; it is queued again");
}

void Daemon::finish(Job& job, JobState state, const std::string& why) {
  activities_.erase(job.id);
  job.state = state;
  job.why = why;
  job.next_start_ms = 0;
  job.ended_ms = now_ms();
  ++record_.ended[static_cast<size_t>(state)];
  save(job);
  save_record();
  say(job, std::string(name_of(state)) + (why.empty() ? "" : ": " + why));
  loop_.post([this] { forget_old_jobs(); });
}

void Daemon::interrupt(int64_t id, int signal) {
  const milliseconds grace = std::chrono::seconds(jobs_.at(id).spec.grace_s) + kBehindGrace;
  if (Activity& activity = activities_[id]; activity.attempt) activity.attempt->signal(signal, grace);
}

void Daemon::end_where_idle() {
  const bool runs = std::any_of(jobs_.begin(), jobs_.end(),
                                [](const auto& entry) { return entry.second.state == JobState::kRunning; });
  if (ending_ && !runs && (!nodes_ || nodes_->parts().idle())) loop_.end();
}

void Daemon::save(const Job& job) { keep(state_.save(job)); }

void Daemon::save_record() { keep(state_.save(record_)); }

// A disk that takes nothing ends no job: the next change tries again.
void Daemon::keep(Status saved) {
  disk_failure_ = saved.ok() ? "" : saved.error().message;
  if (!saved.ok())
    std::fprintf(stderr, "piperd: error[%s]: %s\n", saved.error().code.c_str(), saved.error().message.c_str());
}

void Daemon::forget_old_jobs() {
  size_t ended = static_cast<size_t>(
      std::count_if(jobs_.begin(), jobs_.end(), [](const auto& entry) { return has_ended(entry.second.state); }));
  for (auto at = jobs_.begin(); at != jobs_.end() && ended > kKeptJobs;) {
    if (!has_ended(at->second.state)) {
      ++at;
      continue;
    }
    keep(state_.remove(at->first));
    at = jobs_.erase(at);
    --ended;
  }
}

void Daemon::say(const Job& job, const std::string& what) const {
  std::fprintf(stderr, "piperd: job %lld: %s\n", static_cast<long long>(job.id), what.c_str());
}

}  // namespace piper::launcher
