// The control channel over a TCP store, between processes on loopback: tcp_store_processes_test CASE. Each process
// prints what it finds wrong; the exit status is 1 then. With the case `worker` the program is one process of a launch,
// by torchrun or srun, and meets the others where the launcher's variables say.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <vector>

#include "runtime/bootstrap/rendezvous.h"
#include "runtime/hal/tcp/tcp_store_channel.h"

namespace piper::hal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Channel = std::unique_ptr<TcpStoreChannel>;

const WaitControl kWait{nullptr, 60s};

std::string message_of(const Status& status) {
  return status.ok() ? "" : status.error().code + ": " + status.error().message;
}

TcpStoreChannel::Options options(int32_t rank, int32_t ranks, uint16_t port) {
  TcpStoreChannel::Options result;
  result.at = {"127.0.0.1", port, "processes"};
  result.rank = rank;
  result.world_size = ranks;
  result.bundle_digest = "0123456789abcdef";
  return result;
}

// A child process that ends with 0 where nothing is wrong, and with its parent.
pid_t start(const std::string& name, const std::function<std::string()>& body) {
  std::fflush(nullptr);
  const pid_t parent = getpid(), pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const std::string wrong = body();
  if (!wrong.empty()) std::printf("%s: %s\n", name.c_str(), wrong.c_str());
  std::fflush(nullptr);
  _exit(wrong.empty() ? 0 : 1);
}

// Whether the process has ended with 0.
bool ended_well(pid_t pid) {
  int status = 0;
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Ranks 0 to ranks - 1, of which rank 0 serves the store at `port`.
std::vector<pid_t> start_ranks(int32_t ranks, BoundPort& port, const std::function<std::string(Channel&)>& body) {
  std::vector<pid_t> pids;
  for (int32_t rank = 0; rank < ranks; ++rank)
    pids.push_back(start("rank " + std::to_string(rank), [&, rank]() -> std::string {
      const uint16_t number = port.port();
      if (rank != 0) close(port.release());
      auto channel = rank == 0 ? TcpStoreChannel::serve(options(0, ranks, 0), std::move(port), kWait)
                               : TcpStoreChannel::join(options(rank, ranks, number), kWait);
      if (!channel.ok()) return message_of(Status(channel.error()));
      if (const Status met = (*channel)->barrier(kWait); !met.ok()) return message_of(met);
      return body(*channel);
    }));
  close(port.release());  // rank 0 has it
  return pids;
}

std::string hear_all(ControlChannel& channel) {
  for (int round = 0; round < 3; ++round) {
    const auto all = channel.allgather("rank " + std::to_string(channel.rank()), kWait);
    if (!all.ok()) return message_of(Status(all.error()));
    for (int32_t r = 0; r < channel.world_size(); ++r)
      if ((*all)[static_cast<size_t>(r)] != "rank " + std::to_string(r))
        return "the text of rank " + std::to_string(r) + " differs";
  }
  return message_of(channel.barrier(kWait));
}

std::string exchange_and_leave(Channel& channel) {
  if (std::string wrong = hear_all(*channel); !wrong.empty()) return wrong;
  std::string text((size_t{9} << 20) + 1, static_cast<char>('a' + channel->rank()));
  const int32_t ranks = channel->world_size();
  if (channel->rank() == 0) {
    for (int32_t to = 1; to < ranks; ++to)
      if (const Status sent = channel->send(to, text.data(), static_cast<int64_t>(text.size()), kWait); !sent.ok())
        return message_of(sent);
  } else {
    const Status came = channel->receive(0, text.data(), static_cast<int64_t>(text.size()), kWait);
    if (!came.ok()) return message_of(came);
    if (text.find_first_not_of('a') != std::string::npos) return "a long message differs";
  }
  return message_of(channel->leave(kWait));
}

// A barrier that cannot be passed any more ends within `most`, with one of these codes.
std::string fails(ControlChannel& channel, std::chrono::milliseconds timeout, std::chrono::milliseconds most,
                  const std::string& codes) {
  const auto begin = Clock::now();
  const Status status = channel.barrier({nullptr, timeout});
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  std::printf("rank %d after %lld ms: %s\n", channel.rank(), static_cast<long long>(took.count()),
              message_of(status).c_str());
  if (status.ok()) return "a barrier without all ranks was passed";
  if (codes.find(status.error().code) == std::string::npos) return "not " + codes;
  return took <= most ? "" : "it took too long";
}

BoundPort free_port() {
  auto port = BoundPort::bind(0, BoundPort::Reach::kLoopback);
  PIPER_CHECK(port.ok(), "no port is free");
  return std::move(*port);
}

bool all_ended_well(const std::vector<pid_t>& pids) {
  bool well = true;
  for (const pid_t pid : pids) well = ended_well(pid) && well;
  return well;
}

bool exchange() {
  BoundPort port = free_port();
  return all_ended_well(start_ranks(4, port, exchange_and_leave));
}

bool rank_dies() {
  BoundPort port = free_port();
  return all_ended_well(start_ranks(3, port, [](Channel& channel) -> std::string {
    if (channel->rank() == 2) _exit(0);
    std::string wrong = fails(*channel, 1s, 10s, "R0302 R0303");
    if (channel->rank() == 0) sleep(1);  // what the others find is the dead rank, not the missing store
    return wrong;
  }));
}

bool server_dies() {
  BoundPort port = free_port();
  int ready[2];
  PIPER_CHECK(pipe(ready) == 0, "no pipe");
  return all_ended_well(start_ranks(3, port, [&](Channel& channel) -> std::string {
    char byte = 0;
    if (channel->rank() == 0) {
      for (int other = 1; other < 3; ++other)
        if (read(ready[0], &byte, 1) != 1) return "a rank is not ready";
      _exit(0);
    }
    if (write(ready[1], &byte, 1) != 1) return "cannot tell that it is ready";
    return fails(*channel, 60s, 20s, "R0303");
  }));
}

bool server_freezes() {
  BoundPort port = free_port();
  int ready[2], frozen[2];
  PIPER_CHECK(pipe(ready) == 0 && pipe(frozen) == 0, "no pipe");
  const std::vector<pid_t> pids = start_ranks(3, port, [&](Channel& channel) -> std::string {
    char byte = 0;
    if (write(ready[1], &byte, 1) != 1) return "cannot tell that it is ready";
    if (channel->rank() == 0) {
      (void)channel->leave(kWait);  // with the store, until it is stopped
      return "";
    }
    if (read(frozen[0], &byte, 1) != 1) return "was not told that rank 0 is frozen";
    return fails(*channel, 1s, 10s, "R0302");
  });
  char bytes[3] = {};
  for (char& byte : bytes) PIPER_CHECK(read(ready[0], &byte, 1) == 1, "a rank is not ready");
  kill(pids[0], SIGSTOP);
  PIPER_CHECK(write(frozen[1], bytes, 2) == 2, "cannot tell that rank 0 is frozen");
  const bool well = all_ended_well({pids.begin() + 1, pids.end()});
  kill(pids[0], SIGKILL);
  waitpid(pids[0], nullptr, 0);
  return well;
}

bool stray() {
  BoundPort port = free_port();
  const uint16_t number = port.port();
  std::vector<pid_t> pids = start_ranks(3, port, [](Channel& channel) -> std::string {
    if (channel->rank() == 0) sleep(2);
    return exchange_and_leave(channel);
  });
  pids.push_back(start("stray", [number]() -> std::string {
    auto mine = options(1, 3, number);
    mine.at.run_id = "another";
    const auto channel = TcpStoreChannel::join(mine, kWait);
    if (channel.ok()) return "it was let in";
    return channel.error().code == "R0107" ? "" : message_of(Status(channel.error()));
  }));
  return all_ended_well(pids);
}

// One process of a launch whose variables `get` reads.
std::string meet_others(const bootstrap::GetVariable& get) {
  PIPER_CHECK(get("WORLD_SIZE") || get("SLURM_STEP_ID"), "no launcher's variables");
  const auto environment = bootstrap::read_rank_environment(get);
  if (!environment.ok()) return message_of(Status(environment.error()));
  const auto at = bootstrap::read_rendezvous(*environment, get);
  if (!at.ok()) return message_of(Status(at.error()));
  const auto local_rank = bootstrap::read_local_rank(*environment, get);
  if (!local_rank.ok()) return message_of(Status(local_rank.error()));
  auto channel = TcpStoreChannel::join({*at, environment->rank, environment->size, "0123456789abcdef"}, kWait);
  if (!channel.ok()) return message_of(Status(channel.error()));
  std::string wrong = exchange_and_leave(*channel);
  std::printf("rank %d of %d, %d on its node, at %s:%d of run '%s' attempt %d%s: %s\n", environment->rank,
              environment->size, *local_rank, at->host.c_str(), at->port, at->run_id.c_str(), at->attempt,
              at->served_by_launcher ? ", the launcher's store" : "", wrong.empty() ? "well" : wrong.c_str());
  return wrong;
}

bool environment() {
  constexpr int32_t kRanks = 3;
  const std::string port = std::to_string(free_port().port());
  std::vector<pid_t> pids;
  for (int32_t rank = 0; rank < kRanks; ++rank)
    pids.push_back(start("rank " + std::to_string(rank), [&] {
      const std::map<std::string, std::string> variables = {
          {"RANK", std::to_string(rank)},         {"WORLD_SIZE", std::to_string(kRanks)},
          {"LOCAL_RANK", std::to_string(rank)},   {"LOCAL_WORLD_SIZE", std::to_string(kRanks)},
          {"MASTER_ADDR", "a-name-of-this-node"}, {"MASTER_PORT", port},
          {"TORCHELASTIC_RUN_ID", "by hand"}};
      return meet_others([&](const char* name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
      });
    }));
  return all_ended_well(pids);
}

bool worker() {
  const std::string wrong = meet_others(bootstrap::process_variable);
  if (!wrong.empty()) std::printf("%s\n", wrong.c_str());
  return wrong.empty();
}

}  // namespace
}  // namespace piper::hal

int main(int argc, char** argv) {
  const std::map<std::string, bool (*)()> cases = {{"exchange", piper::hal::exchange},
                                                   {"environment", piper::hal::environment},
                                                   {"rank_dies", piper::hal::rank_dies},
                                                   {"server_dies", piper::hal::server_dies},
                                                   {"stray", piper::hal::stray},
                                                   {"worker", piper::hal::worker},
                                                   {"server_freezes", piper::hal::server_freezes}};
  const auto found = argc == 2 ? cases.find(argv[1]) : cases.end();
  if (found == cases.end()) {
    std::fprintf(stderr, "usage: tcp_store_processes_test CASE\n");
    return 2;
  }
  alarm(140);  // children end with this process
  return found->second() ? 0 : 1;
}
