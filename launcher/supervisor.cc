#include "launcher/supervisor.h"

#include <poll.h>

#include <algorithm>

#include "launcher/restarts.h"
#include "launcher/store_socket.h"

namespace piper::launcher {

Result<Outcome> Supervisor::run(const std::vector<std::string>& arguments, int32_t attempt) {
  ranks_.clear();
  outcome_ = {};
  kill_at_.reset();
  if (Status started = start(arguments, attempt); !started.ok()) {
    ranks_.clear();
    return started;
  }
  while (alive() > 0) wait_for_something();
  for (RankProcess& process : ranks_) {
    process.out().finish();
    process.err().finish();
    if (process.rank() == outcome_.failed_rank)
      outcome_.tail.assign(process.err().tail().begin(), process.err().tail().end());
  }
  ranks_.clear();
  return outcome_;
}

Status Supervisor::start(const std::vector<std::string>& arguments, int32_t attempt) {
  std::optional<StoreSocket> socket;
  if (plan_.master_port == 0) {
    PIPER_ASSIGN(StoreSocket opened, StoreSocket::open());
    socket.emplace(std::move(opened));
  }
  const uint16_t port = socket ? socket->port() : plan_.master_port;
  ranks_.reserve(static_cast<size_t>(plan_.ranks_here));
  for (int32_t local = 0; local < plan_.ranks_here; ++local) {
    RankStart start;
    start.rank = plan_.first_rank + local;
    start.arguments = arguments;
    start.variables = variables_of(plan_, start.rank, attempt, port);
    if (start.rank == 0 && socket) start.inherited = socket->descriptor();
    start.blocked = signals_.before();
    start.tag_output = plan_.tag_output;
    PIPER_ASSIGN(RankProcess process, RankProcess::start(start));
    ranks_.push_back(std::move(process));
  }
  return {};
}

void Supervisor::wait_for_something() {
  std::vector<pollfd> descriptors{{signals_.descriptor(), POLLIN, 0}};
  for (RankProcess& process : ranks_)
    for (const int descriptor : {process.descriptor(), process.out().source(), process.err().source()})
      descriptors.push_back({descriptor, POLLIN, 0});
  int timeout_ms = -1;
  if (kill_at_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*kill_at_ - Clock::now()).count();
    timeout_ms = static_cast<int>(std::clamp<int64_t>(left + 1, 0, 1'000'000));
  }
  (void)poll(descriptors.data(), descriptors.size(), timeout_ms);
  take_signals();
  for (RankProcess& process : ranks_) {
    process.out().pass_on();
    process.err().pass_on();
  }
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].descriptor() >= 0 && descriptors[1 + 3 * i].revents != 0) take_end(ranks_[i]);
  if (kill_at_ && Clock::now() >= *kill_at_) {
    signal_all(SIGKILL);
    kill_at_.reset();
  }
}

void Supervisor::take_signals() {
  while (const int number = signals_.take()) {
    const bool ends = number == SIGTERM || number == SIGINT || number == SIGHUP;
    // A second one ends the ranks at once.
    if (ends) kill_behind(outcome_.asked_to_stop ? kAfterFailure : plan_.grace);
    outcome_.asked_to_stop = outcome_.asked_to_stop || ends;
    signal_all(number == SIGHUP ? SIGTERM : number);
  }
}

void Supervisor::take_end(RankProcess& process) {
  const int status = process.take_end();
  process.out().pass_on();
  process.err().pass_on();
  if (status == 0 || outcome_.failed_rank >= 0) return;
  outcome_.failed_rank = process.rank();
  outcome_.exit_status = status;
  // Ranks that were asked to stop are about to: a second signal would keep them from saving what they did.
  if (outcome_.asked_to_stop || status == kStoppedOnRequest) return kill_behind(plan_.grace);
  kill_behind(kAfterFailure);
  signal_all(SIGTERM);
}

void Supervisor::kill_behind(std::chrono::milliseconds time) {
  const Clock::time_point at = Clock::now() + time;
  kill_at_ = kill_at_ ? std::min(*kill_at_, at) : at;
}

void Supervisor::signal_all(int number) {
  for (const RankProcess& process : ranks_)
    if (process.descriptor() >= 0) process.signal_group(number);
}

size_t Supervisor::alive() const {
  return static_cast<size_t>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const RankProcess& p) { return p.descriptor() >= 0; }));
}

}  // namespace piper::launcher
