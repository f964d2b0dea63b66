// Ranks in processes of their own agree after which step they stop, however far apart they are and whoever is asked.
#include <catch2/catch.hpp>

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/exec/session/stop_agreement.h"
#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/transport_channel.h"
#include "runtime/program/exit_status.h"
#include "runtime/program/outcome.h"
#include "runtime/program/signals.h"

namespace {

// Done once, right before an alarm is set.
std::function<void()> before_alarm;

}  // namespace

// In place of the C library's, so that a test can be another thread in the middle of a signal handler.
extern "C" unsigned alarm(unsigned seconds) noexcept {
  if (seconds > 0 && before_alarm) std::exchange(before_alarm, nullptr)();
  itimerval next{}, before{};
  next.it_value.tv_sec = seconds;
  setitimer(ITIMER_REAL, &next, &before);
  return static_cast<unsigned>(before.it_value.tv_sec + (before.it_value.tv_usec > 0 ? 1 : 0));
}

namespace piper::exec {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int64_t kFirst = 6, kLast = 100000;

struct Outcome {
  int64_t stopped = 0;      // 0: it did all steps
  int64_t replayed = 0;     // after which it went back to look for a NaN; 0: it did not
  int64_t left = 0;         // after which it ended without saving; 0: it did not
  std::set<int64_t> saved;  // after these steps
  bool failed = false;
};

// What a rank does, with steps of random length that depend on no other rank's: one may be far ahead.
Outcome run_rank(StopAgreement& stopping, hal::Stop& stop, unsigned seed, int64_t last, double write_s = 0) {
  std::mt19937 random(seed);
  Outcome outcome;
  for (int64_t step = kFirst - 1; step < last; ++step) {
    if (step >= kFirst) std::this_thread::sleep_for(microseconds(random() % (seed % 3 == 0 ? 2000 : 200)));
    const auto action = stopping.after(step, write_s);
    if (!action.ok()) {
      outcome.failed = true;
      if (!hal::is_stopped(action.status())) stop.raise(Status(action.error()));
      break;
    }
    if (*action == StopAction::kReplay) {
      outcome.replayed = step;
      break;
    }
    if (*action == StopAction::kLeave) {
      outcome.left = step;
      break;
    }
    if (*action != StopAction::kGoOn) outcome.saved.insert(step);
    if (*action == StopAction::kStop) {
      outcome.stopped = step;
      break;
    }
  }
  return outcome;
}

// A process for each rank, or one process for all of them.
class World {
 public:
  World(int32_t ranks, bool one_process) : ranks_(ranks), world_(ranks) {
    const int32_t processes = one_process ? 1 : ranks;
    for (int32_t p = 0; p < processes; ++p) {
      requests.push_back(std::make_unique<StopRequests>());
      if (!one_process) {
        transports_.push_back(world_.transport(p));
        channels_.push_back(std::make_unique<hal::TransportChannel>(*transports_.back(), hal::kStopChannel));
      }
      agreements_.push_back(std::make_unique<StopAgreement>(one_process ? nullptr : channels_.back().get(), stop,
                                                            *requests.back(), milliseconds(2)));
    }
  }
  // `meanwhile` is called when all have begun.
  template <class Meanwhile>
  std::vector<Outcome> run(unsigned seed, int64_t last, const Meanwhile& meanwhile) {
    std::vector<Outcome> outcomes(static_cast<size_t>(ranks_));
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < outcomes.size(); ++rank)
      threads.emplace_back([&, rank] {
        StopAgreement& mine = *agreements_[rank % agreements_.size()];
        outcomes[rank] = run_rank(mine, stop, seed + static_cast<unsigned>(rank), last, write_s);
        if (agreements_.size() > 1) ends_well.at(rank) = mine.end().ok();
      });
    meanwhile();
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

  StopAgreement& agreement(int32_t process) { return *agreements_.at(static_cast<size_t>(process)); }

  hal::Stop stop;
  double write_s = 0;
  std::vector<std::unique_ptr<StopRequests>> requests;
  std::vector<char> ends_well = std::vector<char>(16, 1);

 private:
  int32_t ranks_;
  hal::LocalWorld world_;
  std::vector<std::unique_ptr<hal::Transport>> transports_;
  std::vector<std::unique_ptr<hal::ControlChannel>> channels_;
  std::vector<std::unique_ptr<StopAgreement>> agreements_;
};

TEST_CASE("all ranks stop behind the same step, whoever is asked and when") {
  for (unsigned trial = 0; trial < 60; ++trial) {
    const bool one_process = trial % 3 == 0;
    std::mt19937 random(trial);
    World world(static_cast<int32_t>(1 + random() % 5), one_process);
    const size_t asked = random() % world.requests.size();
    const bool all = random() % 4 == 0, early = random() % 4 == 0;
    const auto ask = [&] {
      for (size_t p = 0; p < world.requests.size(); ++p)
        if (all || p == asked) world.requests[p]->stop = SIGUSR1;
    };
    if (early) ask();
    const auto outcomes = world.run(trial * 100, kLast, [&] {
      std::this_thread::sleep_for(microseconds(random() % 20000));
      ask();
    });
    INFO("trial " << trial);
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.stopped >= kFirst);
      CHECK(outcome.stopped == outcomes.front().stopped);
      CHECK(outcome.saved == std::set<int64_t>{outcome.stopped});
    }
    CHECK(world.ends_well == std::vector<char>(16, 1));
  }
}

TEST_CASE("all ranks go back behind the same step where one has lost the loss, whatever else is asked for") {
  for (unsigned trial = 0; trial < 30; ++trial) {
    const bool one_process = trial % 3 == 0;
    std::mt19937 random(trial);
    World world(static_cast<int32_t>(1 + random() % 4), one_process);
    const auto outcomes = world.run(trial * 100, kLast, [&] {
      std::this_thread::sleep_for(microseconds(random() % 10000));
      world.requests[random() % world.requests.size()]->replay = true;
    });
    INFO("trial " << trial);
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.replayed >= kFirst);
      CHECK(outcome.replayed == outcomes.front().replayed);
      CHECK(outcome.saved.empty());
    }
    CHECK(world.ends_well == std::vector<char>(16, 1));
  }
}

TEST_CASE("a lost loss and a signal in one step end all ranks alike, whichever a rank has seen first") {
  for (const bool stops_first : {true, false}) {
    hal::Stop stop;
    StopRequests requests;
    StopAgreement stopping(nullptr, stop, requests);
    const auto ask = [&](bool stops) {
      if (stops) requests.stop = SIGUSR1;
      else requests.replay = true;
    };
    for (int rank = 0; rank < 2; ++rank) CHECK(*stopping.after(kFirst - 1, 0) == StopAction::kGoOn);
    ask(stops_first);
    const StopAction first = *stopping.after(kFirst, 0);
    ask(!stops_first);
    CHECK(*stopping.after(kFirst, 0) == first);
    CHECK(first == (stops_first ? StopAction::kStop : StopAction::kReplay));
  }
  for (unsigned trial = 0; trial < 30; ++trial) {
    std::mt19937 random(trial);
    World world(static_cast<int32_t>(2 + random() % 3), trial % 3 == 0);
    const auto outcomes = world.run(trial * 100, kLast, [&] {
      const auto process = [&]() -> StopRequests& { return *world.requests[random() % world.requests.size()]; };
      const bool stops_first = random() % 2 == 0;
      for (const bool stops : {stops_first, !stops_first}) {
        std::this_thread::sleep_for(microseconds(random() % 3000));
        if (stops) process().stop = SIGUSR1;
        else process().replay = true;
      }
    });
    INFO("trial " << trial);
    for (const Outcome& outcome : outcomes) {
      CHECK(std::max(outcome.stopped, outcome.replayed) >= kFirst);
      CHECK(outcome.stopped == outcomes.front().stopped);
      CHECK(outcome.replayed == outcomes.front().replayed);
      CHECK(outcome.saved == outcomes.front().saved);
    }
    CHECK(world.ends_well == std::vector<char>(16, 1));
  }
}

TEST_CASE("processes hear of each other's step times") {
  World world(3, false);
  (void)world.run(1, kLast, [&] {
    for (int32_t rank = 0; rank < 3; ++rank) world.agreement(rank).tell_step_time(rank, 10.0 + rank);
    std::this_thread::sleep_for(milliseconds(100));
    CHECK(world.agreement(0).step_times_ms() == std::map<int32_t, double>{{0, 10.0}, {1, 11.0}, {2, 12.0}});
    world.requests[0]->stop = SIGUSR1;
  });
}

TEST_CASE("checkpoints on request are of the same steps on all ranks, and training goes on") {
  for (const bool one_process : {false, true}) {
    World world(3, one_process);
    const auto outcomes = world.run(1, kLast, [&] {
      for (int i = 0; i < 5; ++i) {
        ++world.requests[static_cast<size_t>(i) % world.requests.size()]->saves;
        std::this_thread::sleep_for(milliseconds(15));
      }
      world.requests.back()->stop = SIGTERM;
    });
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.stopped > kFirst);
      CHECK(outcome.saved == outcomes.front().saved);
      CHECK(outcome.saved.size() >= 3);
      CHECK(outcome.saved.size() <= 6);
    }
  }
}

TEST_CASE("runs that nobody stops end, also where a request comes with the last step") {
  for (unsigned trial = 0; trial < 20; ++trial) {
    World world(4, false);
    const auto outcomes = world.run(trial, kFirst + 10, [&] {
      if (trial == 0) return;
      std::this_thread::sleep_for(microseconds(trial * 300));
      world.requests[trial % 4]->stop = SIGUSR1;
    });
    // after() is not called after the last step.
    for (const Outcome& outcome : outcomes) {
      const auto end = [](const Outcome& of) { return of.stopped == 0 ? kFirst + 10 : of.stopped; };
      CHECK(end(outcome) == end(outcomes.front()));
    }
  }
}

TEST_CASE("SIGTERM does not wait for a checkpoint that takes longer than the grace period") {
  for (const bool one_process : {false, true})
    for (const bool fits : {false, true}) {
      World world(3, one_process);
      world.write_s = fits ? 0.9 : 1.1;
      for (const auto& requests : world.requests) requests->grace_s = 1;
      const auto outcomes = world.run(7, kLast, [&] {
        std::this_thread::sleep_for(milliseconds(5));
        world.requests.front()->stop = SIGTERM;
      });
      for (const Outcome& outcome : outcomes) {
        CHECK(outcome.failed == !fits);
        CHECK((outcome.stopped > 0) == fits);
      }
      CHECK(world.stop.signal_number() == (fits ? 0 : SIGTERM));
    }
}

TEST_CASE("a checkpoint that is being written outlives SIGTERM where there is no time for another one") {
  for (const bool one_process : {false, true}) {
    World world(3, one_process);
    world.write_s = 1.1;
    for (const auto& requests : world.requests) requests->grace_s = 1;
    world.requests.back()->writing = 1;
    const auto outcomes = world.run(7, kLast, [&] {
      std::this_thread::sleep_for(milliseconds(5));
      world.requests.front()->stop = SIGTERM;
    });
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.left >= kFirst);
      CHECK(outcome.left == outcomes.front().left);
      CHECK(outcome.saved.empty());
    }
    CHECK(world.agreement(0).signal_number() == SIGTERM);
    CHECK(!world.stop.raised());
  }
}

TEST_CASE("a process that proves the bundle is waited for longer than for a message") {
  hal::LocalWorld world(2);
  std::array<bool, 2> ready{};
  std::vector<std::thread> ranks;
  for (int32_t rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      const auto transport = world.transport(rank);
      hal::TransportChannel control(*transport);
      if (rank == 0) std::this_thread::sleep_for(milliseconds(300));
      const auto status = program::all_ready({}, control, {nullptr, milliseconds(50)});
      ready[static_cast<size_t>(rank)] = status.ok() && *status == 0;
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK(ready == std::array<bool, 2>{true, true});
}

TEST_CASE("a failure elsewhere frees ranks that are held back") {
  World world(3, false);
  world.requests.front()->stop = SIGUSR1;
  const auto outcomes = world.run(3, kLast, [&] { world.stop.raise(Status::failure("R0303", "gone")); });
  for (const Outcome& outcome : outcomes) CHECK((outcome.failed || outcome.stopped > 0));
}

// In a process of its own, since handlers and alarms are those of a process: what it exits with.
template <class Body>
int in_a_child(const Body& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);
    _exit(body());
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST_CASE("what signals ask for") {
  const auto after = [](bool checkpoints, bool stepping, std::initializer_list<int> signals) {
    return in_a_child([&] {
      hal::Stop stop;
      StopRequests requests;
      requests.checkpoints = checkpoints;
      requests.stepping = stepping;
      const program::SignalHandlers handlers(stop, requests);
      for (const int number : signals) raise(number);
      if (stop.raised()) return 100 + stop.signal_number();
      return requests.stop != 0 ? 50 + requests.stop.load() : static_cast<int>(requests.saves.load());
    });
  };
  CHECK(after(true, true, {SIGUSR1}) == 50 + SIGUSR1);
  CHECK(after(true, false, {SIGUSR1}) == 50 + SIGUSR1);
  CHECK(after(false, true, {SIGUSR1}) == 100 + SIGUSR1);
  CHECK(after(true, true, {SIGUSR2, SIGUSR2}) == 2);
  CHECK(after(false, true, {SIGUSR2}) == 0);
  CHECK(after(true, true, {SIGTERM}) == 50 + SIGTERM);
  CHECK(after(true, true, {SIGUSR1, SIGTERM}) == 50 + SIGUSR1);
  CHECK(after(true, false, {SIGTERM}) == 100 + SIGTERM);
  CHECK(after(false, true, {SIGTERM}) == 100 + SIGTERM);
  CHECK(after(true, true, {SIGINT}) == 100 + SIGINT);
  CHECK(after(true, true, {SIGTERM, SIGTERM}) == 128 + SIGTERM);
  CHECK(after(true, true, {SIGTERM, SIGINT}) == 128 + SIGINT);
  CHECK(after(true, true, {SIGALRM}) == 100 + SIGTERM);
  CHECK(program::exit_of("R0302", program::kFailed) == 76);
  CHECK(program::exit_of("R0801", program::kFailed) == 82);
  CHECK(program::exit_of("R0811", program::kFailed) == 82);
}

TEST_CASE("behind SIGTERM the time to agree is short, and that to save the rest of the grace period") {
  const auto left = [](bool agreed_before, bool agreed_after, bool by_threads = true) {
    return in_a_child([&] {
      hal::Stop stop;
      StopRequests requests;
      requests.checkpoints = requests.stepping = true;
      requests.grace_s = 40;
      requests.by_threads = by_threads;
      const program::SignalHandlers handlers(stop, requests);
      alarm(0);
      if (agreed_before) requests.agree();
      raise(SIGTERM);
      if (agreed_after) requests.agree();
      return static_cast<int>(alarm(0));
    });
  };
  CHECK(left(false, false) <= static_cast<int>(kAgreeSeconds));
  CHECK(left(true, false) >= 39);
  CHECK(left(false, true) >= 39);
  // A process that has all ranks agrees at the end of its step, which may be a long one.
  CHECK(left(false, false, false) >= 39);
  CHECK(left(false, true, false) >= 39);
}

TEST_CASE("an agreement in the middle of SIGTERM's handler leaves the whole grace period") {
  CHECK(in_a_child([] {
          hal::Stop stop;
          StopRequests requests;
          requests.checkpoints = requests.stepping = requests.by_threads = true;
          requests.grace_s = 40;
          const program::SignalHandlers handlers(stop, requests);
          alarm(0);
          before_alarm = [&requests] { requests.agree(); };
          raise(SIGTERM);
          return static_cast<int>(alarm(0));
        }) >= 39);
}

}  // namespace
}  // namespace piper::exec
