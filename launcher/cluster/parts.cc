#include "launcher/cluster/parts.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "launcher/cluster/lease.h"
#include "launcher/cluster/part_log.h"
#include "launcher/daemon/left_processes.h"
#include "launcher/report.h"
#include "launcher/restarts.h"
#include "schemas/live/page.h"

namespace piper::launcher {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kTick{100}, kReportEvery{500};
constexpr size_t kLongestTailLine = 2000;

}  // namespace

struct Parts::Part {
  Hold hold;
  std::string folder;
  PartState state = PartState::kHeld;
  JobSpec spec;  // once it has started
  std::optional<StoreSocket> socket;
  std::unique_ptr<Attempt> attempt;
  PartLog log;
  Outcome outcome;
  bool ran = false;
  bool leaving = false, forsaken = false;  // forsaken: its coordinator is not heard of, or wants no more of it
  int64_t signals = 0;
  std::optional<Lease> lease;
  Clock::time_point report_at;
  bool asking = false;  // a report is under way
  std::unique_ptr<EventLoop::Watch> timer, settling;
};

Parts::Parts(EventLoop& loop, PartsOptions options, Send send, Node node)
    : loop_(loop), options_(std::move(options)), send_(std::move(send)), node_(std::move(node)) {}
Parts::~Parts() = default;

void Parts::open() {
  std::error_code error;
  fs::create_directories(options_.folder, error);
  for (fs::directory_iterator at(options_.folder, error), end; !error && at != end; at.increment(error))
    leavings_.push_back(at->path().string());
  settle_leavings();
}

void Parts::settle_leavings() {
  std::erase_if(leavings_, [](const std::string& folder) {
    kill_processes_of(folder);
    std::error_code error;
    if (all_gone(folder)) fs::remove_all(folder, error);
    return !fs::exists(folder, error);
  });
  if (leavings_.empty()) return node_.changed();
  settling_ = loop_.after(kSettle, [this] { settle_leavings(); });
}

HoldAnswer Parts::hold(const Hold& hold) {
  if (parts_.count(hold.epoch) > 0) return {false, "it is held already", 0};
  if (!leavings_.empty()) return {false, "it still ends what the piperd before it ran", 0};
  if (!node_.starts()) return {false, "it starts nothing", 0};
  if (node_.free_slots() < hold.ranks) return {false, "its slots are taken", 0};
  auto part = std::make_unique<Part>();
  part->hold = hold;
  part->folder = options_.folder + "/" + hold.from + "." + std::to_string(hold.job) + "." + hold.epoch.substr(0, 8);
  HoldAnswer answer{true, "", 0};
  if (hold.part == 0) {
    auto socket = StoreSocket::open(StoreSocket::Reach::kAllInterfaces);
    if (!socket.ok()) return {false, socket.error().message, 0};
    answer.port = socket->port();
    part->socket.emplace(std::move(socket).value());
  }
  if (mkdir(part->folder.c_str(), 0700) != 0) return {false, "its state folder takes nothing", 0};
  auto lease = Lease::create(part->folder + "/lease");
  if (!lease.ok()) return {false, lease.error().message, 0};
  part->lease.emplace(std::move(lease).value());
  part->lease->set_until(Lease::now() + milliseconds(hold.lease_ms));
  part->report_at = Clock::now();
  Part& held = *parts_.emplace(hold.epoch, std::move(part)).first->second;
  held.timer = loop_.after(milliseconds(0), [this, &held] { tick(held); });
  return answer;
}

int32_t Parts::slots_used() const {
  int32_t used = 0;
  for (const auto& [epoch, part] : parts_) used += part->state == PartState::kEnded ? 0 : part->hold.ranks;
  return used;
}

std::vector<PartView> Parts::views() const {
  std::vector<PartView> views;
  for (const auto& [epoch, part] : parts_)
    views.push_back({part->hold.from, part->spec.name, part->hold.job, part->hold.ranks, part->state});
  return views;
}

void Parts::drain() {
  for (auto& [epoch, part] : parts_)
    if (part->state == PartState::kHeld || has_flag(part->spec.arguments, "--checkpoint")) leave(*part, SIGUSR1);
}

void Parts::end() {
  for (auto& [epoch, part] : parts_) leave(*part, SIGTERM);
}

void Parts::leave(Part& part, int number) {
  part.report_at = Clock::now();
  if (part.state == PartState::kHeld) return ended(part);
  if (part.state != PartState::kRunning) return;
  // Asked to save already: a second request would end it at once.
  if (std::exchange(part.leaving, true) || !part.attempt) return;
  if (number == SIGTERM) part.attempt->signal(number, std::chrono::seconds(part.spec.grace_s) + kBehindGrace);
  else part.attempt->signal(number, {});
}

// The lease is looked at here, whatever answers come or do not.
void Parts::tick(Part& part) {
  if (part.lease->is_over() && !part.forsaken) {
    std::fprintf(
        stderr,
        "piperd: job %lld of %s: the job's daemon has not answered for %lld ms; the part on this node is ended\n",
        static_cast<long long>(part.hold.job), part.hold.from.c_str(), static_cast<long long>(part.hold.lease_ms));
    part.forsaken = true;
    kill(part);
  }
  if (part.forsaken && part.state == PartState::kEnded) return drop(part.hold.epoch);
  if (Clock::now() >= part.report_at && !part.asking) report(part);
  part.timer = loop_.after(kTick, [this, &part] { tick(part); });
}

void Parts::report(Part& part) {
  part.asking = true;
  // The lease counts from before the coordinator could answer, so its own count of it ends later.
  const std::chrono::nanoseconds sent = Lease::now();
  const auto take = [this, epoch = part.hold.epoch, sent,
                     alive = std::weak_ptr<int>(alive_)](const PeerAnswer& answer) {
    const auto found = alive.expired() ? parts_.end() : parts_.find(epoch);
    if (alive.expired() || found == parts_.end()) return;
    Part& asked = *found->second;
    asked.asking = false;
    asked.report_at = Clock::now() + (asked.state == PartState::kRunning ? kReportEvery : kTick);
    ReportAnswer told;
    if (!answer.body || !read_message(*answer.body, told)) return;
    // One that is over is never renewed: the coordinator may count on that.
    if (told.go != Go::kEnd && !asked.forsaken && !asked.lease->is_over())
      asked.lease->set_until(sent + milliseconds(asked.hold.lease_ms));
    answered(asked, told);
  };
  send_(part.hold.from, "/report", text_of(report_of(part)), take);
}

Report Parts::report_of(const Part& part) const {
  Report report;
  report.node = options_.node;
  report.job = part.hold.job;
  report.epoch = part.hold.epoch;
  report.state = part.state;
  report.leaving = part.leaving;
  report.ran = part.ran;
  // A status that has no copy is given field by field.
  report.outcome.exit_status = part.outcome.exit_status;
  report.outcome.failed_rank = part.outcome.failed_rank;
  report.outcome.asked_to_stop = part.outcome.asked_to_stop;
  report.outcome.statuses = part.outcome.statuses;
  for (const std::string& line : part.outcome.tail)
    report.outcome.tail.push_back(plain_text(line.substr(0, kLongestTailLine)));
  if (!part.outcome.hang.ok()) report.outcome.hang = Status(part.outcome.hang.error());
  report.log_from = part.log.from();
  report.log = part.log.piece();
  report.signals = part.signals;
  if (!part.ran) return report;
  for (int32_t rank = part.hold.part * part.hold.ranks; rank < (part.hold.part + 1) * part.hold.ranks; ++rank) {
    const auto page = live::Page::map(part.folder + "/pages", rank);
    if (const auto told = page.ok() ? page->read(rank) : std::nullopt) report.pages.push_back(*told);
  }
  return report;
}

void Parts::answered(Part& part, const ReportAnswer& answer) {
  part.log.acknowledge(answer.log_next);
  if (!part.log.empty()) part.report_at = Clock::now();
  for (const int number : answer.signals) {
    ++part.signals;
    if (part.attempt) part.attempt->signal(number, {});
  }
  if (part.state == PartState::kHeld && answer.go == Go::kStart && !part.forsaken && !part.lease->is_over())
    return start(part, answer);
  if (answer.go != Go::kEnd) return;
  if (part.state == PartState::kEnded && part.log.empty()) return drop(part.hold.epoch);
  if (part.state != PartState::kEnded) kill(part);
}

void Parts::start(Part& part, const ReportAnswer& answer) {
  part.report_at = Clock::now() + kReportEvery;
  if (answer.spec.ranks != answer.nodes * part.hold.ranks || part.hold.part >= answer.nodes) return ended(part);
  part.spec = answer.spec;
  part.ran = true;
  part.state = PartState::kRunning;
  Job job;
  job.id = part.hold.job;
  job.spec = answer.spec;
  job.attempts = answer.attempt;
  job.resume = answer.resume;
  AttemptStart how;
  how.launcher = options_.launcher;
  how.folder = part.folder;
  how.incidents = options_.hangs + "/" + part.hold.from + "." + std::to_string(part.hold.job);
  how.line = [log = &part.log](const std::string& line) { log->append(line); };
  how.blocked = options_.blocked;
  how.node = part.hold.part;
  how.master = answer.master;
  how.lease = part.folder + "/lease";
  how.store_socket = part.socket ? part.socket->descriptor() : -1;
  auto attempt =
      Attempt::start(loop_, how, job, [this, &part](const AttemptEnd& end) { attempt_ended(part, end.exit_status); });
  part.socket.reset();
  if (attempt.ok()) {
    part.attempt = std::move(attempt).value();
    return;
  }
  part.log.append("piperd: error[" + attempt.error().code + "]: " + attempt.error().message + "\n");
  part.outcome.exit_status = 1;
  ended(part);
}

void Parts::attempt_ended(Part& part, int exit_status) {
  part.attempt.reset();
  if (auto outcome = read_report(part.folder + "/report.json")) part.outcome = std::move(*outcome);
  part.outcome.exit_status = exit_status;
  settle(part);
}

// Ranks hold their checkpoint folder, ports and memory until they are gone.
void Parts::settle(Part& part) {
  kill_processes_of(part.folder);
  if (all_gone(part.folder)) return ended(part);
  part.settling = loop_.after(kSettle, [this, &part] { settle(part); });
}

void Parts::ended(Part& part) {
  part.state = PartState::kEnded;
  part.report_at = Clock::now();
  part.socket.reset();
  loop_.post([this, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) node_.changed();
  });
}

void Parts::kill(Part& part) {
  if (part.state == PartState::kHeld) return ended(part);
  if (part.attempt) part.attempt->signal(SIGKILL, {});
}

// Not from inside of what it destroys.
void Parts::drop(const std::string& epoch) {
  loop_.post([this, epoch, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    const auto found = parts_.find(epoch);
    if (found == parts_.end()) return;
    std::error_code error;
    fs::remove_all(found->second->folder, error);
    parts_.erase(found);
    node_.changed();
  });
}

}  // namespace piper::launcher
