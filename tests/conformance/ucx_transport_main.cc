// The UCX transport between processes of this node: ucx_transport_test CASE RANKS. Each process prints what it finds
// wrong; the exit status is 1 then.
#include <signal.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "runtime/hal/tcp/tcp_store_channel.h"
#include "runtime/hal/transport_channel.h"
#include "runtime/hal/ucx/ucx_transport.h"
#include "tests/conformance/run_cases.h"

namespace piper::conformance {
namespace {

using namespace std::chrono_literals;
using hal::Direction;
using hal::Transport;

constexpr int kNotHere = 77;
const hal::WaitControl kWait{nullptr, 60s}, kShort{nullptr, 200ms};

std::string message_of(const Status& status) {
  return status.ok() ? "" : status.error().code + ": " + status.error().message;
}

std::string expect(const Status& status, const std::string& code, const std::string& text) {
  if (status.ok()) return "no failure where " + code + " is expected";
  return status.error().code == code && status.error().message.find(text) != std::string::npos ? ""
                                                                                               : message_of(status);
}

std::byte* memory(size_t bytes) {
  static std::array<std::byte, size_t{16} << 20> all;
  static size_t used = 0;
  return all.data() + (used += bytes) - bytes;
}

Status exchange(Transport& c, std::vector<hal::Transfer> transfers, const hal::WaitControl& wait = kWait) {
  return c.prepare(std::move(transfers))->run(wait);
}

// Ranks as on nodes of their own, over TCP: nothing is shared, and no process is watched. Whether that can be had here.
bool apart = false;
bool live_apart() {
  setenv("UCX_TLS", "self,tcp", 1);
  setenv("UCX_NET_DEVICES", "lo", 1);
  return apart = unshare(CLONE_NEWIPC) == 0;
}

struct TestCase {
  std::function<std::string(Transport&)> body;
  bool last_dies = false;  // the last rank, by a signal
  bool apart = false;
};

// The others hear of it, in a receive, in a send that is not taken and in what they begin later.
std::string rank_dies(Transport& c) {
  const int32_t last = c.world_size() - 1;
  if (Status met = hal::TransportChannel(c).barrier(kWait); !met.ok()) return message_of(met);
  if (c.rank() == last) {
    std::this_thread::sleep_for(100ms);
    kill(getpid(), SIGKILL);
  }
  const std::string text = "rank " + std::to_string(last) + (apart ? " cannot be reached: " : " has ended");
  std::string in_send;
  std::byte *const sent = memory(4 << 20), *const received = memory(8);
  std::thread lane([&] { in_send = expect(exchange(c, {{Direction::kSend, last, 6, sent, 4 << 20}}), "R0303", text); });
  std::string wrong = expect(exchange(c, {{Direction::kReceive, last, 5, received, 8}}), "R0303", text);
  lane.join();
  if (wrong.empty()) wrong = in_send;
  if (wrong.empty()) wrong = expect(exchange(c, {{Direction::kReceive, last, 7, memory(8), 8}}), "R0303", text);
  if (!wrong.empty() || c.world_size() < 3) return wrong;
  // Those that are left reach each other.
  const int32_t next = (c.rank() + 1) % last, before = (c.rank() + last - 1) % last;
  const Status met =
      exchange(c, {{Direction::kSend, next, 8, memory(64), 64}, {Direction::kReceive, before, 8, memory(64), 64}});
  std::this_thread::sleep_for(500ms);  // what was sent is on its way, and goes with its sender
  return message_of(met);
}

std::string sizes(Transport& c) {
  if (c.rank() == 1) {
    for (const int64_t bytes : {48, 80})
      if (auto wrong = message_of(exchange(c, {{Direction::kSend, 0, 9, memory(80), bytes}})); !wrong.empty())
        return wrong;
    return "";
  }
  const auto receive = [&] { return exchange(c, {{Direction::kReceive, 1, 9, memory(64), 64}}); };
  std::string wrong = expect(receive(), "R0301", "rank 1 sent 48 bytes on channel 9 where this rank expects 64");
  if (wrong.empty())
    wrong = expect(receive(), "R0301", "rank 1 sent more bytes on channel 9 where this rank expects 64");
  return wrong;
}

// One message of an exchange failed, and the other one never comes; later ones do.
std::string failed_part(Transport& c) {
  if (c.rank() == 1) {
    if (auto wrong = message_of(exchange(c, {{Direction::kSend, 0, 9, memory(48), 48}})); !wrong.empty()) return wrong;
  } else if (auto wrong = expect(
                 exchange(c, {{Direction::kReceive, 1, 9, memory(64), 64}, {Direction::kReceive, 1, 10, memory(8), 8}}),
                 "R0301", "rank 1 sent 48 bytes");
             !wrong.empty()) {
    return wrong;
  }
  return message_of(hal::TransportChannel(c).barrier(kWait));
}

// What was waited for without result comes later, and does not go where it was expected any more.
std::string late_message(Transport& c) {
  std::array<char, 8> word;
  word.fill('-');
  if (c.rank() == 0)
    if (auto wrong = expect(hal::TransportChannel(c).receive(1, word.data(), word.size(), kShort), "R0302", "rank 1");
        !wrong.empty())
      return wrong;
  const int32_t peer = 1 - c.rank();
  const auto meet = [&] {
    return message_of(
        exchange(c, {{Direction::kSend, peer, 98, memory(8), 8}, {Direction::kReceive, peer, 98, memory(8), 8}}));
  };
  if (auto wrong = meet(); !wrong.empty()) return wrong;
  if (c.rank() == 1)
    if (auto wrong = message_of(hal::TransportChannel(c).send(0, "too late", 8, kWait)); !wrong.empty()) return wrong;
  if (auto wrong = meet(); !wrong.empty()) return wrong;
  return std::string(word.data(), word.size()) == "--------" ? "" : "a late message wrote where its receiver was";
}

const std::map<std::string, TestCase>& cases() {
  static const std::map<std::string, TestCase> all = {
      {"conforms", {[](Transport& c) { return conforms(c) ? "" : "does not conform"; }}},
      {"rank_dies", {rank_dies, true}},
      {"apart", {[](Transport& c) { return conforms(c) ? "" : "does not conform"; }, false, true}},
      {"rank_dies_apart", {rank_dies, true, true}},
      {"sizes", {sizes}},
      {"failed_part", {failed_part}},
      {"late_message", {late_message}}};
  return all;
}

// One rank; what is wrong.
std::string run_rank(const TestCase& test, int32_t rank, int32_t ranks, hal::BoundPort& port) {
  const uint16_t number = port.port();
  hal::TcpStoreChannel::Options options{{"127.0.0.1", number, "processes"}, rank, ranks, "0123456789abcdef"};
  if (rank != 0) close(port.release());
  auto store = rank == 0 ? hal::TcpStoreChannel::serve(options, std::move(port), kWait)
                         : hal::TcpStoreChannel::join(options, kWait);
  if (!store.ok()) return message_of(store.status());
  auto transport = hal::UcxTransport::join(**store, hal::UcxTransport::Reach::kOneNode, kWait);
  if (!transport.ok()) return message_of(transport.status());
  std::string wrong = test.body(**transport);
  if (test.last_dies) return wrong;  // who is left cannot meet
  if (wrong.empty()) wrong = message_of((*store)->barrier(kWait));
  (*transport).reset();
  if (wrong.empty()) wrong = message_of((*store)->leave(kWait));
  return wrong;
}

int run(const TestCase& test, int32_t ranks) {
  auto port = hal::BoundPort::bind(0, hal::BoundPort::Reach::kLoopback);
  PIPER_CHECK(port.ok(), "no port is free");
  std::vector<pid_t> pids;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const pid_t parent = getpid(), pid = fork();
    if (pid != 0) {
      pids.push_back(pid);
      continue;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    if (test.apart && !live_apart()) _exit(kNotHere);
    const std::string wrong = run_rank(test, rank, ranks, *port);
    if (!wrong.empty()) std::fprintf(stderr, "rank %d: %s\n", rank, wrong.c_str());
    std::fflush(nullptr);
    _exit(wrong.empty() ? 0 : 1);
  }
  close(port->release());
  bool well = true;
  for (size_t rank = 0; rank < pids.size(); ++rank) {
    int status = 0;
    const bool ended = waitpid(pids[rank], &status, 0) == pids[rank];
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNotHere) {
      std::printf("[SKIP] only root can have ranks without shared memory\n");
      return 0;
    }
    const bool to_die = test.last_dies && rank + 1 == pids.size();
    well = well && ended && (to_die ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  return well ? 0 : 1;
}

}  // namespace
}  // namespace piper::conformance

int main(int argc, char** argv) {
  using piper::conformance::cases;
  const auto found = argc == 3 ? cases().find(argv[1]) : cases().end();
  if (found == cases().end()) {
    std::fprintf(stderr, "usage: ucx_transport_test CASE RANKS\n");
    return 2;
  }
  alarm(280);  // children end with this process
  return piper::conformance::run(found->second, std::atoi(argv[2]));
}
