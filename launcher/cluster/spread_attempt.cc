#include "launcher/cluster/spread_attempt.h"

#include <signal.h>

#include <algorithm>

#include "launcher/cluster/message_auth.h"
#include "launcher/report.h"
#include "launcher/restarts.h"

namespace piper::launcher {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kLookEvery{100};
constexpr int kPeerGone = 76, kNeverStarted = -1, kBySignal = 128;

}  // namespace

Result<std::unique_ptr<SpreadAttempt>> SpreadAttempt::start(EventLoop& loop, const SpreadStart& start, const Job& job,
                                                            Send send, Ended ended, Leaving leaving) {
  PIPER_RETURN_IF_ERROR(live::create_pages(start.folder + "/pages", job.spec.ranks));
  PIPER_ASSIGN(JobLog log, JobLog::open(start.folder, start.log));
  std::unique_ptr<SpreadAttempt> attempt(
      new SpreadAttempt(loop, start, job, std::move(log), std::move(send), std::move(ended), std::move(leaving)));
  attempt->ask_for_slots();
  attempt->tick();
  return attempt;
}

SpreadAttempt::SpreadAttempt(EventLoop& loop, const SpreadStart& start, const Job& job, JobLog log, Send send,
                             Ended ended, Leaving leaving)
    : loop_(loop),
      start_(start),
      job_(job),
      log_(std::move(log)),
      send_(std::move(send)),
      ended_(std::move(ended)),
      leaving_(std::move(leaving)),
      epoch_(new_nonce()),
      parts_(start.nodes.size()) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].node = start.nodes[i];
    parts_[i].heard = Clock::now();
  }
}

SpreadAttempt::~SpreadAttempt() = default;

void SpreadAttempt::ask_for_slots() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    Hold hold;
    hold.from = start_.own_node;
    hold.job = job_.id;
    hold.epoch = epoch_;
    hold.part = static_cast<int32_t>(i);
    hold.ranks = job_.spec.ranks / job_.spec.nodes;
    hold.lease_ms = start_.lease.count();
    send_(parts_[i].node, "/hold", text_of(hold),
          [this, i, alive = std::weak_ptr<int>(alive_)](const PeerAnswer& answer) {
            if (!alive.expired()) hold_answered(i, answer);
          });
  }
}

void SpreadAttempt::hold_answered(size_t index, const PeerAnswer& answer) {
  Part& part = parts_[index];
  HoldAnswer told;
  if (!answer.body) return refuse(part.node + " " + answer.why);
  if (!read_message(*answer.body, told)) return refuse(part.node + " does not answer as a piperd does");
  if (!told.held) return refuse(part.node + ": " + told.why);
  part.held = true;
  if (index > 0) return;
  const bool ipv6 = start_.first_host.find(':') != std::string::npos;
  master_ = (ipv6 ? "[" + start_.first_host + "]" : start_.first_host) + ":" + std::to_string(told.port);
}

// Before anything was started: parts that hold slots learn it when they report.
void SpreadAttempt::refuse(const std::string& why) {
  if (refused_.empty()) refused_ = why;
}

void SpreadAttempt::signal(int number, std::optional<milliseconds> kill_after) {
  if (number == SIGKILL) {
    kill_ = true;
  } else {
    signals_.push_back(number);
    asked_to_stop_ = true;
  }
  const bool started = std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.told_to_start; });
  if (!started) return refuse("it was asked to end before it started");
  if (!kill_after) return;
  const Clock::time_point at = Clock::now() + *kill_after;
  kill_at_ = kill_at_ ? std::min(*kill_at_, at) : at;
}

ReportAnswer SpreadAttempt::take(const Report& report) {
  ReportAnswer answer;
  const auto found =
      std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) { return part.node == report.node; });
  if (found == parts_.end()) return answer;
  Part& part = *found;
  keep(part, static_cast<size_t>(found - parts_.begin()), report);
  answer.log_next = part.log_next;
  if (report.leaving && !std::exchange(part.leaving, true)) leaving_(part.node);
  if (report.state == PartState::kEnded) {
    if (!part.ended) part_ended(part, report);
    return answer;
  }
  const bool too_late = asked_to_stop_ && report.state == PartState::kHeld;
  if (kill_ || part.lost || too_late || !refused_.empty()) return answer;
  for (auto at = static_cast<size_t>(report.signals); at < signals_.size(); ++at)
    answer.signals.push_back(signals_[at]);
  const bool all_held = std::all_of(parts_.begin(), parts_.end(), [](const Part& other) { return other.held; });
  answer.go = report.state == PartState::kRunning ? Go::kRun : all_held ? Go::kStart : Go::kWait;
  if (answer.go == Go::kStart) {
    part.told_to_start = true;
    answer.spec = job_.spec;
    answer.attempt = job_.attempts;
    answer.resume = job_.resume;
    answer.nodes = job_.spec.nodes;
    answer.master = master_;
  }
  part.answered = Clock::now();
  return answer;
}

// What the report says of the ranks.
void SpreadAttempt::keep(Part& part, size_t index, const Report& report) {
  part.heard = Clock::now();
  const int64_t known =
      std::clamp<int64_t>(part.log_next - report.log_from, 0, static_cast<int64_t>(report.log.size()));
  if (const std::string text = report.log.substr(static_cast<size_t>(known)); !text.empty()) append(text);
  part.log_next = std::max(part.log_next, report.log_from + static_cast<int64_t>(report.log.size()));
  const int64_t ranks = job_.spec.ranks / job_.spec.nodes;
  const int64_t first = static_cast<int64_t>(index) * ranks;
  for (const live::RankStatus& status : report.pages) {
    if (status.rank < first || status.rank >= first + ranks) continue;
    if (auto page = live::Page::map(start_.folder + "/pages", status.rank); page.ok()) page->copy(status);
  }
}

// Line by line, as its size is looked at.
void SpreadAttempt::append(const std::string& text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    log_.append(text.substr(begin, end - begin));
    begin = end;
  }
}

void SpreadAttempt::part_ended(Part& part, const Report& report) {
  part.ended = true;
  part.outcome.exit_status = report.ran ? report.outcome.exit_status : kNeverStarted;
  part.outcome.failed_rank = report.outcome.failed_rank;
  part.outcome.statuses = report.outcome.statuses;
  part.outcome.tail = report.outcome.tail;
  if (!report.outcome.hang.ok()) part.outcome.hang = Status(report.outcome.hang.error());
  if (!report.ran) {
    // Others may have got the order to start: they end as after a failure.
    refuse(part.node + " gave its slots back");
    return failed(kPeerGone);
  }
  if (part.lost) return;  // it counts already
  ends_.push_back({part.node, part.outcome.exit_status, false, kill_});
  if (part.outcome.exit_status != 0) failed(part.outcome.exit_status);
}

// Ranks that were asked to stop are about to: a second signal would keep them from saving what they did.
void SpreadAttempt::failed(int exit_status) {
  if (std::exchange(failed_, true)) return;
  const bool stops = asked_to_stop_ || exit_status == kStoppedOnRequest;
  const Clock::time_point at = Clock::now() + (stops ? milliseconds(job_.spec.grace_s * 1000) : kAfterFailure);
  kill_at_ = kill_at_ ? std::min(*kill_at_, at) : at;
  if (!stops) signals_.push_back(SIGTERM);
}

bool SpreadAttempt::gone(const Part& part, Clock::time_point now) const {
  if (part.ended) return true;
  // A part that never got the order to start runs nothing, and will get the order to end.
  if (!part.told_to_start) return !refused_.empty() || part.lost;
  return part.lost && now > part.answered + start_.lease + kMargin;
}

void SpreadAttempt::tick() {
  const Clock::time_point now = Clock::now();
  for (Part& part : parts_) {
    if (part.ended || part.lost || now < part.heard + start_.lease) continue;
    part.lost = true;
    ends_.push_back({part.node, kPeerGone, true, false});
    if (!part.told_to_start) refuse(part.node + " does not answer");
    failed(kPeerGone);
  }
  if (kill_at_ && now >= *kill_at_) kill_ = true;
  if (std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) { return gone(part, now); })) {
    // Its call may destroy this.
    timer_ = loop_.after(milliseconds(0), [this] { finish(); });
    return;
  }
  timer_ = loop_.after(kLookEvery, [this] { tick(); });
}

void SpreadAttempt::finish() {
  AttemptEnd end;
  const PartEnd* const cause = cause_of(ends_);
  const bool started = std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.told_to_start; });
  if (!refused_.empty() && !started) {
    end.refused = true;
    end.why = refused_;
  } else if (cause != nullptr) {
    end.exit_status = cause->exit_status;
    end.why = cause->lost ? cause->node + " has not answered for " + std::to_string(start_.lease.count()) + " ms"
                          : "on " + cause->node;
    // A hang, a storage or a peer that is gone is reported by a node that need not be the cause.
    if (cause->lost || cause->exit_status > kBySignal) end.node = cause->node;
    write_report_of_all(cause);
  } else if (!refused_.empty()) {
    end.exit_status = kPeerGone;
    end.why = refused_;
  }
  // Its call may destroy this.
  const Ended ended = std::move(ended_);
  ended(end);
}

void SpreadAttempt::write_report_of_all(const PartEnd* cause) const {
  Outcome all;
  all.exit_status = cause->exit_status;
  all.asked_to_stop = asked_to_stop_;
  const size_t ranks = static_cast<size_t>(job_.spec.ranks / job_.spec.nodes);
  for (const Part& part : parts_) {
    std::vector<int> statuses = part.outcome.statuses;
    statuses.resize(ranks, part.lost ? kPeerGone : part.outcome.exit_status);  // where nothing is known of each
    all.statuses.insert(all.statuses.end(), statuses.begin(), statuses.end());
    if (part.node != cause->node) continue;
    all.failed_rank = part.outcome.failed_rank;
    all.tail = part.outcome.tail;
    if (!part.outcome.hang.ok()) all.hang = Status(part.outcome.hang.error());
  }
  write_report(start_.folder + "/report.json", all);
}

}  // namespace piper::launcher
