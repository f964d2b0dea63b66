#include "launcher/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "launcher/orphans.h"
#include "launcher/restarts.h"
#include "schemas/launch/variables.h"

namespace piper::launcher {

Result<Outcome> Supervisor::run(const std::vector<std::string>& arguments, int32_t attempt) {
  ranks_.clear();
  outcome_ = {};
  kill_at_.reset();
  adopt_orphans();
  PIPER_RETURN_IF_ERROR(watch());
  if (!plan_.lease.empty() && !lease_) {
    PIPER_ASSIGN(Lease lease, Lease::open(plan_.lease));
    lease_.emplace(std::move(lease));
  }
  if (Status started = start(arguments, attempt); !started.ok()) {
    ranks_.clear();
    return started;
  }
  while (alive() > 0) wait_for_something();
  // mpirun kills its ranks and does not wait for their end.
  if (!end_children(kOrphans)) std::fputs("piper-launch: a process of the run cannot be killed\n", stderr);
  for (ChildProcess& process : ranks_) {
    process.out().finish();
    process.err().finish();
  }
  if (outcome_.failed_rank >= 0) {
    const auto& tail = ranks_[static_cast<size_t>(outcome_.failed_rank - plan_.first_rank)].err().tail();
    outcome_.tail.assign(tail.begin(), tail.end());
  }
  ranks_.clear();
  return std::move(outcome_);
}

// Where there is a bundle, whose ranks have rings.
Status Supervisor::watch() {
  hangs_.reset();
  if (plan_.bundle.empty()) return {};
  if (!rings_) {
    PIPER_ASSIGN(RingFolder folder, RingFolder::make());
    rings_.emplace(std::move(folder));
  }
  rings_->clear();
  if (plan_.hangs.after.count() > 0)
    hangs_.emplace(plan_.hangs, plan_.bundle, rings_->path(), plan_.over_mpi ? 1 : plan_.ranks_here);
  return {};
}

Status Supervisor::start(const std::vector<std::string>& arguments, int32_t attempt) {
  std::optional<StoreSocket> socket;
  if (plan_.master_port == 0) {
    PIPER_ASSIGN(StoreSocket opened, StoreSocket::open(StoreSocket::Reach::kLoopback));
    socket.emplace(std::move(opened));
  }
  const int descriptor = socket ? socket->descriptor() : plan_.store_socket;
  const uint16_t port = socket ? socket->port() : plan_.master_port;
  if (!socket && descriptor >= 0) fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // rank 0 alone gets it
  ChildStart start;
  start.arguments = arguments;
  start.blocked = signals_.before();
  ranks_.reserve(static_cast<size_t>(plan_.ranks_here));
  for (int32_t local = 0; local < plan_.ranks_here; ++local)
    PIPER_RETURN_IF_ERROR(start_rank(start, plan_.first_rank + local, descriptor, port, attempt));
  outcome_.statuses.resize(ranks_.size());
  return {};
}

Status Supervisor::start_rank(ChildStart start, int32_t rank, int socket, uint16_t port, int32_t attempt) {
  start.name = "rank " + std::to_string(rank);
  std::vector<std::string> variables = variables_of(plan_, rank, attempt, port, rings_ ? rings_->path() : "");
  if (rank == 0 && socket >= 0) {
    start.inherited = {socket};
    variables.push_back(std::string(launch::kStoreSocket) + "=" + std::to_string(socket));
  }
  start.variables = own_environment_with(std::move(variables));
  const std::string tag = plan_.tag_output ? "[rank " + std::to_string(rank) + "] " : "";
  start.out = [tag](const std::string& line) { write_all(STDOUT_FILENO, tag + line); };
  start.err = [tag](const std::string& line) { write_all(STDERR_FILENO, tag + line); };
  PIPER_ASSIGN(ChildProcess process, ChildProcess::start(start));
  ranks_.push_back(std::move(process));
  return {};
}

void Supervisor::wait_for_something() {
  std::vector<pollfd> descriptors{{signals_.descriptor(), POLLIN, 0}};
  for (ChildProcess& process : ranks_)
    for (const int descriptor : {process.descriptor(), process.out().source(), process.err().source()})
      descriptors.push_back({descriptor, POLLIN, 0});
  int timeout_ms = -1;
  if (kill_at_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*kill_at_ - Clock::now()).count();
    timeout_ms = static_cast<int>(std::clamp<int64_t>(left + 1, 0, 1'000'000));
  }
  if (hangs_) {
    const auto look = static_cast<int>(HangWatch::kEvery.count());
    timeout_ms = timeout_ms < 0 ? look : std::min(timeout_ms, look);
  }
  if (lease_) {
    const auto look = static_cast<int>(kLookAtLease.count());
    timeout_ms = timeout_ms < 0 ? look : std::min(timeout_ms, look);
  }
  (void)poll(descriptors.data(), descriptors.size(), timeout_ms);
  take_signals();
  for (ChildProcess& process : ranks_) {
    process.out().pass_on();
    process.err().pass_on();
  }
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].descriptor() >= 0 && descriptors[1 + 3 * i].revents != 0) take_end(i);
  look_for_hang();
  look_at_lease();
  if (kill_at_ && Clock::now() >= *kill_at_) {
    signal_all(SIGKILL);
    kill_at_.reset();
  }
}

// Nothing that a rank could still save is worth waiting for ranks that do not go on.
void Supervisor::look_for_hang() {
  if (!hangs_ || kill_at_ || alive() == 0) return;
  for (const std::string& line : hangs_->stragglers(Clock::now()))
    std::fprintf(stderr, "piper-launch: %s\n", line.c_str());
  if (!hangs_->hangs(Clock::now())) return;
  outcome_.hang = hangs_->report();
  outcome_.exit_status = kHang;
  outcome_.failed_rank = plan_.first_rank;
  std::fprintf(stderr, "piper-launch: error[L0121]: %s\n", outcome_.hang.error().message.c_str());
  // mpirun ends by itself once its ranks have; it would leave a stopped one to itself.
  if (plan_.over_mpi) hangs_->kill_ranks();
  hangs_.reset();
  kill_behind(plan_.over_mpi ? kAfterFailure : std::chrono::milliseconds(0));
}

// Elsewhere the run may begin anew from now on.
void Supervisor::look_at_lease() {
  if (!lease_ || !lease_->is_over()) return;
  std::fprintf(stderr, "piper-launch: piperd has not let the ranks live any longer: they are ended\n");
  lease_.reset();
  signal_all(SIGKILL);
}

void Supervisor::take_signals() {
  while (const int number = signals_.take()) {
    if (number == SIGQUIT) {
      if (hangs_) std::fputs(hangs_->positions().c_str(), stderr);
      continue;
    }
    const bool ends = number == SIGTERM || number == SIGINT || number == SIGHUP;
    // A second one ends the ranks at once.
    if (ends) kill_behind(outcome_.asked_to_stop ? kAfterFailure : grace());
    outcome_.asked_to_stop = outcome_.asked_to_stop || ends;
    outcome_.asked_to_save = outcome_.asked_to_save || number == SIGUSR1;
    signal_all(number == SIGHUP ? SIGTERM : number);
  }
}

void Supervisor::take_end(size_t local) {
  ChildProcess& process = ranks_[local];
  const int status = outcome_.statuses[local] = process.take_end();
  process.out().pass_on();
  process.err().pass_on();
  if (status == 0 || outcome_.failed_rank >= 0) return;
  outcome_.failed_rank = plan_.first_rank + static_cast<int32_t>(local);
  outcome_.exit_status = status;
  // Ranks that were asked to stop are about to: a second signal would keep them from saving what they did.
  if (outcome_.asked_to_stop || status == kStoppedOnRequest) return kill_behind(grace());
  kill_behind(kAfterFailure);
  signal_all(SIGTERM);
}

// mpirun ends ranks itself, up to a second after the grace (variables_of), and removes after them what it has made.
std::chrono::milliseconds Supervisor::grace() const {
  return plan_.grace + (plan_.over_mpi ? std::chrono::seconds(10) : std::chrono::seconds(0));
}

void Supervisor::kill_behind(std::chrono::milliseconds time) {
  const Clock::time_point at = Clock::now() + time;
  kill_at_ = kill_at_ ? std::min(*kill_at_, at) : at;
}

void Supervisor::signal_all(int number) {
  for (const ChildProcess& process : ranks_)
    if (process.descriptor() >= 0) process.signal_group(number);
}

size_t Supervisor::alive() const {
  return static_cast<size_t>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const ChildProcess& p) { return p.descriptor() >= 0; }));
}

}  // namespace piper::launcher
