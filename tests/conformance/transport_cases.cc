#include "tests/conformance/transport_cases.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "runtime/hal/link_delay.h"
#include "runtime/hal/message_waits.h"
#include "runtime/hal/transport_channel.h"
#include "tests/conformance/collective_cases.h"

namespace piper::conformance {

namespace {

using hal::Direction;
using hal::Transfer;

const hal::WaitControl kWait{nullptr, std::chrono::seconds(60)};

std::byte* bytes_of(std::vector<uint8_t>& data) { return reinterpret_cast<std::byte*>(data.data()); }

std::vector<uint8_t> pattern(size_t bytes, int sender, int message) {
  std::vector<uint8_t> data(bytes);
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<uint8_t>(i * 7 + i / 251 + static_cast<size_t>(sender * 31 + message * 97));
  return data;
}

// Messages of one channel arrive in the order they were sent, whatever their sizes.
std::string point_to_point(hal::Transport& c) {
  const size_t sizes[] = {1, 0, 3, 64, 4097, (size_t{1} << 20) + 3, 5};
  const int32_t next = (c.rank() + 1) % c.world_size(), before = (c.rank() + c.world_size() - 1) % c.world_size();
  if (c.world_size() == 1) return "";
  int message = 0;
  for (size_t size : sizes) {
    std::vector<uint8_t> out = pattern(size, c.rank(), message), in(size + 1, 0xee);
    auto exchange = c.prepare({{Direction::kSend, next, 5, bytes_of(out), static_cast<int64_t>(size)},
                               {Direction::kReceive, before, 5, bytes_of(in), static_cast<int64_t>(size)}});
    for (int round = 0; round < 3; ++round) {
      if (Status s = exchange->run(kWait); !s.ok()) return s.error().message;
      in.resize(size);
      if (in != pattern(size, before, message)) return "message " + std::to_string(message) + " differs";
      std::fill(in.begin(), in.end(), uint8_t{0});
    }
    ++message;
  }
  return "";
}

// Channels are independent: what is sent first on one may be received last.
std::string channels_are_independent(hal::Transport& c) {
  if (c.world_size() == 1 || c.rank() > 1) return "";
  std::vector<uint8_t> a = pattern(100, c.rank(), 1), b = pattern(200, c.rank(), 2);
  Status first, second;
  if (c.rank() == 0) {
    std::thread on_channel_1([&] { first = c.prepare({{Direction::kSend, 1, 1, bytes_of(a), 100}})->run(kWait); });
    second = c.prepare({{Direction::kSend, 1, 2, bytes_of(b), 200}})->run(kWait);
    on_channel_1.join();
  } else {
    std::vector<uint8_t> in_a(100), in_b(200);
    second = c.prepare({{Direction::kReceive, 0, 2, bytes_of(in_b), 200}})->run(kWait);
    first = c.prepare({{Direction::kReceive, 0, 1, bytes_of(in_a), 100}})->run(kWait);
    if (in_a != pattern(100, 0, 1) || in_b != pattern(200, 0, 2)) return "messages differ";
  }
  return first.ok() && second.ok() ? "" : "a transfer failed";
}

// A send does not wait for a receive that was posted before it and has nothing to do with it: rank 0
// answers rank 1's receive only when it has heard, by way of rank 2, of the send that comes after it.
std::string sends_pass_receives(hal::Transport& c) {
  if (c.world_size() < 3 || c.rank() > 2) return "";
  enum Channel : int32_t { kHello = 20, kLate, kPassing, kHeard };
  std::vector<uint8_t> hello = pattern(3, 1, 0), late = pattern(64, 0, 1), passing = pattern(70'000, 1, 2),
                       heard = pattern(5, 2, 3);
  const auto run = [&c](std::vector<Transfer> transfers) {
    const Status status = c.prepare(std::move(transfers))->run(kWait);
    return status.ok() ? std::string() : status.error().message;
  };
  const auto receive = [&](int32_t peer, int32_t channel, const std::vector<uint8_t>& expected) {
    std::vector<uint8_t> in(expected.size());
    const std::string failed =
        run({{Direction::kReceive, peer, channel, bytes_of(in), static_cast<int64_t>(in.size())}});
    return !failed.empty() ? failed : in == expected ? "" : "a message differs";
  };
  const auto send = [&](int32_t peer, int32_t channel, std::vector<uint8_t>& data) {
    return run({{Direction::kSend, peer, channel, bytes_of(data), static_cast<int64_t>(data.size())}});
  };
  if (c.rank() == 0) {
    const std::string failed = receive(2, kHeard, heard);
    return failed.empty() ? send(1, kLate, late) : failed;
  }
  if (c.rank() == 2) {
    std::string failed = receive(1, kHello, hello);  // rank 1's receive is waiting
    if (failed.empty()) failed = send(1, kHello, hello);
    if (failed.empty()) failed = receive(1, kPassing, passing);
    return failed.empty() ? send(0, kHeard, heard) : failed;
  }
  std::vector<uint8_t> in(late.size());
  std::string on_lane;
  std::thread lane([&] {
    on_lane = run({{Direction::kReceive, 0, kLate, bytes_of(in), static_cast<int64_t>(in.size())},
                   {Direction::kSend, 2, kHello, bytes_of(hello), 3}});
  });
  std::string failed = receive(2, kHello, hello);
  if (failed.empty()) failed = send(2, kPassing, passing);
  lane.join();
  if (!failed.empty() || !on_lane.empty()) return failed + on_lane;
  return in == late ? "" : "the late message differs";
}

// Lets another thread wait for what an exchange reports that it waits for.
class Told : public hal::MessageWaits {
 public:
  void begin_exchange() override {}
  void waits_for(const Transfer& transfer) override {
    const std::lock_guard lock(mutex_);
    told_.insert({transfer.direction, transfer.peer});
    changed_.notify_all();
  }
  void end_exchange() override {}
  bool comes(Direction direction, int32_t peer) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kWait.timeout, [&] { return told_.count({direction, peer}) > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::pair<Direction, int32_t>> told_;
};

// An exchange of several messages reports whose it waits for, one after the other: ranks 1 and 2 send when rank 0,
// which waits for both, has reported that it waits for theirs.
std::string waits_are_told(hal::Transport& c) {
  if (c.world_size() < 3 || c.rank() > 2) return "";
  enum Channel : int32_t { kAwaited = 40, kGo };
  std::vector<uint8_t> data(64), more(64), go(1);
  const auto run = [&c](std::vector<Transfer> transfers, const hal::WaitControl& wait) {
    const Status status = c.prepare(std::move(transfers))->run(wait);
    return status.ok() ? std::string() : status.error().message;
  };
  if (c.rank() != 0) {
    const std::string failed = run({{Direction::kReceive, 0, kGo, bytes_of(go), 1}}, kWait);
    return failed.empty() ? run({{Direction::kSend, 0, kAwaited, bytes_of(data), 64}}, kWait) : failed;
  }
  Told told;
  std::string untold;
  std::thread lets_go([&] {
    for (const int32_t peer : {1, 2}) {
      if (!told.comes(Direction::kReceive, peer)) untold += "nobody was told of the wait for the message of a rank; ";
      untold += run({{Direction::kSend, peer, kGo, bytes_of(go), 1}}, kWait);
    }
  });
  hal::WaitControl wait = kWait;
  wait.timeout *= 3;
  wait.messages = &told;
  const std::string failed = run(
      {{Direction::kReceive, 1, kAwaited, bytes_of(data), 64}, {Direction::kReceive, 2, kAwaited, bytes_of(more), 64}},
      wait);
  lets_go.join();
  return failed + untold;
}

// A message takes its time, by the clock of both ends; a run without messages takes none.
std::string delays_are_kept(hal::Transport& c) {
  if (c.world_size() == 1 || c.rank() > 1) return "";
  const hal::LinkDelay delay{std::chrono::microseconds(2000), 10'000'000};
  auto slow = hal::delay_links(c, delay);
  std::vector<uint8_t> data(50'000), clock(sizeof(int64_t));
  const auto now_us = [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  for (int round = 0; round < 3; ++round) {
    const int64_t before = now_us();
    std::memcpy(clock.data(), &before, sizeof before);
    const Direction direction = c.rank() == 0 ? Direction::kSend : Direction::kReceive;
    const int32_t peer = 1 - c.rank();
    Status status = slow->prepare({{direction, peer, 30, bytes_of(data), 50'000}})->run(kWait);
    const int64_t after = now_us();
    if (status.ok()) status = c.prepare({{direction, peer, 31, bytes_of(clock), 8}})->run(kWait);
    if (!status.ok()) return status.error().message;
    int64_t sent = 0;
    std::memcpy(&sent, clock.data(), sizeof sent);
    if (c.rank() == 1 && after - sent < 2000 + 5000)
      return "a message took " + std::to_string(after - sent) + " us of at least 7000";
  }
  return "";
}

std::string control_channel(hal::Transport& c) {
  hal::TransportChannel control(c);
  const std::string mine(static_cast<size_t>(c.rank()) * 1000, static_cast<char>('a' + c.rank()));
  auto all = control.allgather(mine, kWait);
  if (!all.ok()) return all.error().message;
  for (int32_t r = 0; r < c.world_size(); ++r)
    if ((*all)[static_cast<size_t>(r)] != std::string(static_cast<size_t>(r) * 1000, static_cast<char>('a' + r)))
      return "text of another rank";
  Status barrier = control.barrier(kWait);
  return barrier.ok() ? "" : barrier.error().message;
}

// A receive that nobody answers ends when the Stop is raised, and when its time is over.
std::string waiting_ends(hal::Transport& c) {
  if (c.world_size() == 1) return "";
  const int32_t peer = (c.rank() + 1) % c.world_size();
  const auto memory = std::make_shared<std::vector<uint8_t>>(8);
  std::vector<uint8_t>& never = *memory;
  c.keep(memory);
  hal::Stop stop;
  std::thread raiser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    stop.raise(Status::failure("R0302", "elsewhere"));
  });
  Status woken =
      c.prepare({{Direction::kReceive, peer, 77, bytes_of(never), 8}})->run({&stop, std::chrono::seconds(60)});
  raiser.join();
  if (!hal::is_stopped(woken)) return "the Stop did not end the wait";
  Status late =
      c.prepare({{Direction::kReceive, peer, 78, bytes_of(never), 8}})->run({nullptr, std::chrono::milliseconds(60)});
  if (late.ok() || late.error().code != "R0302") return "the wait has no end";
  return late.error().message.find("rank " + std::to_string(peer)) != std::string::npos
             ? ""
             : "unnamed peer: " + late.error().message;
}

}  // namespace

std::vector<Case> common_cases() {
  std::vector<Case> cases = {
      {"point_to_point", point_to_point},           {"channels_are_independent", channels_are_independent},
      {"sends_pass_receives", sends_pass_receives}, {"waits_are_told", waits_are_told},
      {"control_channel", control_channel},         {"waiting_ends", waiting_ends}};
  for (const CollectiveCase& collective : collective_cases())
    cases.push_back({collective.name, [collective](hal::Transport& c) { return run_on_transport(collective, c); }});
  return cases;
}

Case delays() { return {"delays_are_kept", delays_are_kept}; }

std::unique_ptr<hal::Transport> delayed(hal::Transport& transport) {
  return hal::delay_links(transport, {std::chrono::microseconds(20), 100'000'000'000});
}

std::string sizes_that_differ(hal::Transport& c) {
  static std::vector<uint8_t> data(64);
  if (c.rank() == 0)
    (void)c.prepare({{Direction::kSend, 1, 9, bytes_of(data), 48}})
        ->run(kWait);  // which end fails is the backend's choice
  if (c.rank() != 1) return "";
  Status status = c.prepare({{Direction::kReceive, 0, 9, bytes_of(data), 64}})->run(kWait);
  return status.ok() ? "a message of 48 bytes passed for one of 64" : "";
}

}  // namespace piper::conformance
