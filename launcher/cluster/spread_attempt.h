// An attempt of a job on several nodes, as its coordinator has it: slots are held on all of them before anything
// starts, parts report and get orders (messages.h), and where one fails or is lost, the others are ended.
//
// It has ended when nothing of it can run any more: a part has said so, or its lease is over. The lease counts at the
// part from when it sent the report that was answered last, here from when it was answered, which is later; so it is
// over there before it is here, whatever the network keeps back, as long as both clocks run at one speed.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/messages.h"
#include "launcher/cluster/peer_link.h"
#include "launcher/daemon/event_loop.h"
#include "launcher/daemon/job.h"
#include "launcher/daemon/job_log.h"
#include "launcher/daemon/running_attempt.h"

namespace piper::launcher {

struct SpreadStart {
  std::string own_node;            // the coordinator
  std::vector<std::string> nodes;  // by part
  std::string first_host;          // the address of the first one, where ranks meet
  std::string folder;              // of the job
  JobLog::Limits log;
  std::chrono::milliseconds lease{10000};
};

class SpreadAttempt : public RunningAttempt {
 public:
  using Send = std::function<void(const std::string& node, const std::string& path, std::string body,
                                  PeerLink::Answered answered)>;
  // A node of it is drained, or its daemon ends: its ranks were asked to stop, which is no failure.
  using Leaving = std::function<void(const std::string& node)>;
  // `job` as it is in this attempt. L0133, L0137: nothing was started.
  static Result<std::unique_ptr<SpreadAttempt>> start(EventLoop& loop, const SpreadStart& start, const Job& job,
                                                      Send send, Ended ended, Leaving leaving);
  ~SpreadAttempt() override;

  void signal(int number, std::optional<std::chrono::milliseconds> kill_after) override;
  const std::string& epoch() const { return epoch_; }
  ReportAnswer take(const Report& report);

  // Clocks of two nodes may run so differently, and an answer be so long under way inside of this node.
  static constexpr std::chrono::milliseconds kMargin{1000};
  // The time of all parts between SIGTERM and SIGKILL once one has failed.
  static constexpr std::chrono::milliseconds kAfterFailure{5000};

 private:
  using Clock = std::chrono::steady_clock;
  struct Part {
    std::string node;
    bool held = false, told_to_start = false, ended = false, lost = false, leaving = false;
    Clock::time_point heard, answered;  // the last report, the last answer that let it live
    int64_t log_next = 0;
    Outcome outcome;
  };

  SpreadAttempt(EventLoop& loop, const SpreadStart& start, const Job& job, JobLog log, Send send, Ended ended,
                Leaving leaving);
  void ask_for_slots();
  void hold_answered(size_t index, const PeerAnswer& answer);
  void keep(Part& part, size_t index, const Report& report);
  void append(const std::string& text);
  void part_ended(Part& part, const Report& report);
  void failed(int exit_status);
  void refuse(const std::string& why);
  void tick();
  bool gone(const Part& part, Clock::time_point now) const;
  void finish();
  void write_report_of_all(const PartEnd* cause) const;

  EventLoop& loop_;
  const SpreadStart start_;
  const Job job_;
  JobLog log_;
  const Send send_;
  Ended ended_;
  const Leaving leaving_;
  const std::string epoch_;
  std::vector<Part> parts_;
  std::vector<PartEnd> ends_;  // in the order in which they were heard
  std::vector<int> signals_;
  std::string master_, refused_;  // refused_: why nothing was started
  bool failed_ = false, asked_to_stop_ = false, kill_ = false;
  std::optional<Clock::time_point> kill_at_;
  std::unique_ptr<EventLoop::Watch> timer_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace piper::launcher
