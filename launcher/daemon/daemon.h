// The jobs that were submitted at a node: which one runs when, what becomes of it when it ends, and what of that is on
// disk. Of the event loop's thread. It knows no socket: requests.h and metrics.h look at it from outside. Jobs of
// several nodes are placed and started by way of launcher/cluster, by the same rules.
//
//   queued -> running -> done, failed, cancelled
//     ^         |  ^
//     |         v  |      a failure that another start may mend, while the budget lasts
//     +------ waiting     drained, or piperd ended: back to the queue
//
// Jobs start in the order of their numbers: one that does not fit keeps later ones waiting, so that it starts at all.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "launcher/cluster/nodes.h"
#include "launcher/daemon/attempt.h"
#include "launcher/daemon/event_loop.h"
#include "launcher/daemon/job.h"
#include "launcher/daemon/job_log.h"
#include "launcher/daemon/state_folder.h"

namespace piper::launcher {

struct DaemonOptions {
  int32_t slots = 1;  // ranks at a time
  JobLog::Limits log;
  std::string launcher;  // the path of piper-launch
  sigset_t blocked{};    // signals, of what is started
};

class Daemon {
 public:
  // Both outlive it.
  Daemon(EventLoop& loop, const StateFolder& state, DaemonOptions options);
  // Before open(): other nodes, and this one among them.
  void join(std::unique_ptr<Nodes> nodes) { nodes_ = std::move(nodes); }
  // Takes up the jobs of the daemon before. L0133: the state cannot be read.
  Status open();

  // The job's number; it is on the disk. L0133; L0134: it wants more slots than there are; L0135: it
  // wants several nodes, and this daemon knows of one.
  Result<int64_t> submit(JobSpec spec);
  // Asks it to end, once more: at once. L0132: there is no such job, or it has ended.
  Status cancel(int64_t id);
  // On: nothing starts any more, and running jobs that save checkpoints do so and go back to the queue; others run to
  // their end. L0133.
  Status drain(bool on);
  // Running jobs are asked to end; then the loop ends. Jobs that save checkpoints are taken up by the next daemon.
  void end();

  const std::map<int64_t, Job>& jobs() const { return jobs_; }
  const DaemonRecord& record() const { return record_; }
  const DaemonOptions& options() const { return options_; }
  std::string folder_of(int64_t id) const { return state_.folder_of(id); }
  int32_t slots_used() const;
  const Nodes* nodes() const { return nodes_.get(); }  // null: this one alone
  // Why the last write to the state folder failed; "": it did not.
  const std::string& disk_failure() const { return disk_failure_; }

  // So many of the jobs that have ended are kept, the newest.
  static constexpr size_t kKeptJobs = 200;

 private:
  // What runs, or is waited for, of a job.
  struct Activity {
    std::unique_ptr<RunningAttempt> attempt;
    std::unique_ptr<EventLoop::Watch> timer;
    bool interrupted = false;  // asked to stop by drain() or end()
  };

  void schedule();
  Status fits(const JobSpec& spec) const;
  bool find_place(Job& job);
  void start(Job& job);
  Result<std::unique_ptr<RunningAttempt>> start_attempt(const Job& job);
  bool has_own_part(const Job& job) const;
  NodeState own_state() const;
  void settle(int64_t id, std::function<void()> next);
  void attempt_ended(int64_t id, const AttemptEnd& end);
  void try_again_later(Job& job, const std::string& why);
  void decide(Job& job, const AttemptEnd& end, bool interrupted);
  void blame(Job& job, const std::string& node);
  void wait_for_restart(Job& job, const std::string& why);
  void wait_until_start(Job& job);
  void requeue(Job& job, const std::string& why);
  void finish(Job& job, JobState state, const std::string& why);
  void interrupt(int64_t id, int signal);
  void take_up(Job& job);
  void save(const Job& job);
  void save_record();
  void keep(Status saved);
  void forget_old_jobs();
  void end_where_idle();
  void say(const Job& job, const std::string& what) const;

  EventLoop& loop_;
  const StateFolder& state_;
  DaemonOptions options_;
  DaemonRecord record_;
  std::map<int64_t, Job> jobs_;
  std::unique_ptr<Nodes> nodes_;             // null: this one alone; outlives the attempts
  std::map<int64_t, Activity> activities_;   // of running and waiting jobs
  std::unique_ptr<EventLoop::Watch> retry_;  // of a job that its nodes had no place for
  std::mt19937 chance_{std::random_device{}()};
  std::string disk_failure_;
  bool ending_ = false;
};

// Milliseconds since 1970.
int64_t now_ms();

}  // namespace piper::launcher
