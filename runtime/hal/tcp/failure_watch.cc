#include "runtime/hal/tcp/failure_watch.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/hal/tcp/store_connection.h"

namespace piper::hal {

namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<uint8_t>;

// How often this process, and how often the store, is asked.
constexpr std::chrono::milliseconds kTurn{20}, kLook{500};

}  // namespace

struct FailureWatch::State {
  State(TcpStoreChannel::Options given, Stop& watched)
      : run(std::move(given)), stop(&watched), prefix(key_prefix(run.at)), failed(prefix + "failed") {}

  const TcpStoreChannel::Options run;
  Stop* const stop;  // not once `ends`
  const std::string prefix, failed;
  c10::intrusive_ptr<c10d::TCPStore> store;
  std::thread thread;

  std::mutex mutex;
  std::condition_variable changed;
  bool ends = false, over = false;  // over: the thread has nothing more to do
  bool leaves = false;
  std::optional<Verdict> verdict;

  // Until `done` or the time is up. False: nobody needs the watch any more.
  template <class Done>
  bool wait(std::chrono::milliseconds time, const Done& done) {
    std::unique_lock lock(mutex);
    for (const auto end = Clock::now() + time; Clock::now() < end;) {
      if (ends || leaves) return false;
      lock.unlock();
      const bool is_done = done();
      lock.lock();
      if (is_done) return true;
      changed.wait_for(lock, kTurn);
    }
    return !ends && !leaves;
  }
  void settle(Verdict settled) {
    std::lock_guard lock(mutex);
    verdict = std::move(settled);
    changed.notify_all();
  }
  Status own_failure() {
    std::lock_guard lock(mutex);
    return ends ? Status() : stop->failure();
  }
  bool raised() {
    std::lock_guard lock(mutex);
    return !ends && stop->raised();
  }
  void raise(Status failure) {
    std::lock_guard lock(mutex);
    if (!ends) stop->raise(std::move(failure));
  }

  // For another process; nothing where none has failed.
  std::optional<std::string> of_another() {
    if (!store->check({failed})) return std::nullopt;
    const Bytes told = store->get(failed);
    const std::string text(told.begin(), told.end());
    return text.substr(text.find('\n') + 1);
  }

  void watch() {
    while (wait(kLook, [this] { return raised(); })) {
      if (raised()) return tell();
      if (const auto other = of_another()) {
        raise(Status::reported(*other));
        return settle({false, *other});
      }
    }
  }

  void tell() {
    const Status own = own_failure();
    const std::string code = own.ok() ? "" : own.error().code;
    std::optional<std::string> other;
    if (code == "R0302" || code == "R0303") wait(kGrace, [&] { return (other = of_another()).has_value(); });
    const std::string mine = std::to_string(run.rank) + "\n" + code;
    const Bytes first = store->compareSet(failed, Bytes(), {mine.begin(), mine.end()});
    const std::string told(first.begin(), first.end());
    settle({told == mine, told.substr(told.find('\n') + 1)});
  }

  // Nobody can be asked who was the first: one that is surely there speaks.
  void lose_store() {
    wait(kGrace, [&] { return raised(); });
    const std::string who = run.at.served_by_launcher ? "the launcher" : "rank 0";
    raise(Status::failure("R0303",
                          "the TCP store of " + who + " at " + place_of(run.at) + " is gone: " + who + " has ended"));
    const Status own = own_failure();
    settle({run.rank == (run.at.served_by_launcher ? 0 : 1), own.ok() ? "" : own.error().code});
  }

  void say_goodbye() {
    const auto gone = [&](int32_t rank) { return prefix + "gone/" + std::to_string(rank); };
    if (run.rank != 0 || run.at.served_by_launcher) return store->set(gone(run.rank), Bytes(1));
    std::vector<std::string> all;
    for (int32_t rank = 1; rank < run.world_size; ++rank) all.push_back(gone(rank));
    for (const auto end = Clock::now() + kFarewell; !all.empty() && !store->check(all) && Clock::now() < end;)
      std::this_thread::sleep_for(kTurn);
  }

  void work() {
    try {
      watch();
    } catch (const std::exception&) {
      lose_store();
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ends || leaves; });
    if (leaves) {
      lock.unlock();
      try {
        say_goodbye();
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): who would be notified has ended
      }
      lock.lock();
    }
    over = true;
    changed.notify_all();
  }
};

FailureWatch::FailureWatch(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<FailureWatch>> FailureWatch::begin(const TcpStoreChannel::Options& run, Stop& stop) {
  auto state = std::make_shared<State>(run, stop);
  try {
    state->store = connect_to_store(run.at, run.rank, -1, 2 * kFarewell);
  } catch (const c10::Error& error) {
    return Status::failure(
        "R0303", "the TCP store at " + place_of(run.at) + " failed: " + first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return Status::failure("R0303", "the TCP store at " + place_of(run.at) + " failed: " + first_line(error.what()));
  }
  state->thread = std::thread([state] { state->work(); });
  return std::unique_ptr<FailureWatch>(new FailureWatch(std::move(state)));
}

FailureWatch::~FailureWatch() {
  std::unique_lock lock(state_->mutex);
  state_->ends = true;
  state_->changed.notify_all();
  const bool over = state_->changed.wait_for(lock, kGrace, [&] { return state_->over; });
  lock.unlock();
  if (over) state_->thread.join();
  else state_->thread.detach();
}

FailureWatch::Verdict FailureWatch::verdict() {
  std::unique_lock lock(state_->mutex);
  const bool settled = state_->changed.wait_for(lock, 2 * kGrace + kLook, [&] { return state_->verdict.has_value(); });
  if (settled) return *state_->verdict;
  const Status own = state_->stop->failure();
  return {true, own.ok() ? "" : own.error().code};
}

void FailureWatch::leave() {
  std::unique_lock lock(state_->mutex);
  state_->leaves = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kFarewell + kGrace, [&] { return state_->over; });
}

}  // namespace piper::hal
