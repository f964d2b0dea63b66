#include "tests/shim/blocks.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/shim/fibre.h"

namespace piper::shim {

const Place* running = nullptr;

namespace {

constexpr int kWarp = 32;

std::string text_of(const std::source_location& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}
bool same(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

enum class State { kFresh, kReady, kAtBarrier, kAtExchange, kDone };

struct Worker;
struct Thread {
  Place place;
  State state = State::kFresh;
  std::source_location where;  // of what it waits at
  Worker* worker = nullptr;    // on whose stack it is
  unsigned mask = 0;           // of the exchange that it waits at
  uint64_t given = 0;
  Exchanged received = {};

  std::string text() const {
    std::string at = "thread " + std::to_string(place.thread.x) + "," + std::to_string(place.thread.y) + "," +
                     std::to_string(place.thread.z) + " of block " + std::to_string(place.block.x) + "," +
                     std::to_string(place.block.y);
    if (state == State::kDone) return at + " has ended";
    return at + " waits in " + (state == State::kAtBarrier ? "a barrier" : "an exchange of its warp") + " at " +
           text_of(where);
  }
};
// Runs threads, one after the other while none of them waits.
struct Worker {
  explicit Worker(std::function<void(Worker&)> body) : fibre([this, body = std::move(body)] { body(*this); }) {}
  Fibre fibre;
};

// The launch that runs. There is one at a time, whatever streams do.
class Runner {
 public:
  static Runner& instance() {
    static Runner runner;
    return runner;
  }

  void run(const Extents& extents, const std::function<void()>& thread) {
    const std::lock_guard lock(mutex_);
    body_ = &thread;
    failure_.clear();
    // Its own allocation, so that AddressSanitizer sees an access past it.
    shared_ = std::unique_ptr<std::byte[]>(extents.shared > 0 ? new std::byte[extents.shared] : nullptr);
    threads_.assign(extents.block.count(), {});
    const uint64_t blocks = extents.grid.count();
    const bool backwards = launches_++ % 2 == 1;
    for (uint64_t i = 0; i < blocks && failure_.empty(); ++i) {
      if (extents.shared > 0) std::memset(shared_.get(), 0xff, extents.shared);
      run_block(extents, backwards ? blocks - 1 - i : i);
    }
    running = nullptr;
    if (failure_.empty()) return;
    workers_.clear();  // what is on their stacks is given up
    idle_.clear();
    if (first_failure_.empty()) first_failure_ = std::string(extents.kernel) + ": " + failure_;
  }

  uint64_t launches() {
    const std::lock_guard lock(mutex_);
    return launches_;
  }

  std::string take_failure() {
    const std::lock_guard lock(mutex_);
    return std::exchange(first_failure_, {});
  }

  // ---- called on a worker's stack
  Thread& current() { return *current_; }
  std::byte* shared() const { return shared_.get(); }
  void wait(State state, const std::source_location& where) {
    Thread& thread = *current_;
    thread.state = state;
    thread.where = where;
    thread.worker->fibre.leave();
  }

 private:
  void run_block(const Extents& extents, uint64_t index) {
    const dim3 &grid = extents.grid, &block = extents.block;
    const uint3 block_place = {static_cast<unsigned>(index % grid.x), static_cast<unsigned>(index / grid.x % grid.y),
                               static_cast<unsigned>(index / grid.x / grid.y)};
    const unsigned count = static_cast<unsigned>(threads_.size());
    for (unsigned i = 0; i < count; ++i) {
      Thread& thread = threads_[i];
      thread.place = {{i % block.x, i / block.x % block.y, i / block.x / block.y}, block_place, block, grid};
      thread.state = State::kFresh;
    }
    forwards_ = (index + launches_) % 2 == 0;
    const unsigned warps = (count + kWarp - 1) / kWarp;
    do {
      for (unsigned i = 0; i < warps && failure_.empty(); ++i) run_warp(forwards_ ? i : warps - 1 - i);
    } while (failure_.empty() && go_on());
  }

  // As far as it goes without the block's other warps: nothing but a barrier holds it back.
  void run_warp(unsigned warp) {
    first_ = warp * kWarp;
    lanes_ = std::min<unsigned>(kWarp, static_cast<unsigned>(threads_.size()) - first_);
    next_ = 0;
    do {
      for (unsigned i = 0; i < lanes_ && failure_.empty(); ++i) {
        Thread& thread = in_order(i);
        if (thread.state == State::kFresh) {
          idle_worker().fibre.enter();
        } else if (thread.state == State::kReady) {
          current_ = &thread;
          running = &thread.place;
          thread.worker->fibre.enter();
        }
      }
    } while (failure_.empty() && meet_in_warp(first_));
  }

  // For the warp that runs.
  Thread& in_order(unsigned lane) { return threads_[first_ + (forwards_ ? lane : lanes_ - 1 - lane)]; }

  Worker& idle_worker() {
    if (idle_.empty()) {
      workers_.push_back(std::make_unique<Worker>([this](Worker& worker) { work(worker); }));
      return *workers_.back();
    }
    Worker& worker = *idle_.back();
    idle_.pop_back();
    return worker;
  }

  void work(Worker& worker) {
    for (;;) {
      while (next_ < lanes_ && in_order(next_).state != State::kFresh) ++next_;
      if (next_ == lanes_ || !failure_.empty()) {
        idle_.push_back(&worker);
        worker.fibre.leave();
        continue;
      }
      Thread& thread = in_order(next_++);
      thread.worker = &worker;
      current_ = &thread;
      running = &thread.place;
      try {
        (*body_)();
      } catch (const std::exception& failure) {
        if (failure_.empty()) failure_ = failure.what();
      }
      // The thread may have waited: another one is current by now.
      thread.state = State::kDone;
    }
  }

  // Opens the barrier that all threads wait at. False where all are done.
  bool go_on() {
    bool all_done = true;
    const Thread *at_barrier = nullptr, *elsewhere = nullptr;
    for (const Thread& thread : threads_) {
      all_done = all_done && thread.state == State::kDone;
      if (thread.state == State::kAtBarrier && (at_barrier == nullptr || same(at_barrier->where, thread.where)))
        at_barrier = &thread;
      else elsewhere = &thread;
    }
    if (all_done) return false;
    if (elsewhere != nullptr) {
      const Thread* other = at_barrier;
      for (const Thread& thread : threads_)
        if (other == nullptr && &thread != elsewhere && thread.state != State::kDone) other = &thread;
      failure_ = "threads of a block do not meet: " + (other != nullptr ? other->text() + "; " : std::string()) +
                 elsewhere->text();
      return false;
    }
    for (Thread& thread : threads_) thread.state = State::kReady;
    return true;
  }

  bool meet_in_warp(size_t first) {
    bool any = false;
    const size_t end = std::min(first + kWarp, threads_.size());
    for (size_t i = first; i < end; ++i) {
      const Thread& leader = threads_[i];
      if (leader.state != State::kAtExchange) continue;
      bool complete = true;
      for (size_t lane = 0; lane < kWarp; ++lane)
        if ((leader.mask >> lane & 1) != 0)
          complete = complete && first + lane < end && threads_[first + lane].state == State::kAtExchange &&
                     threads_[first + lane].mask == leader.mask && same(threads_[first + lane].where, leader.where);
      if (!complete) continue;
      Exchanged all = {};
      for (size_t lane = 0; first + lane < end; ++lane) all.bits[lane] = threads_[first + lane].given;
      const unsigned mask = leader.mask;
      for (size_t lane = 0; lane < kWarp; ++lane)
        if ((mask >> lane & 1) != 0) {
          threads_[first + lane].received = all;
          threads_[first + lane].state = State::kReady;
        }
      any = true;
    }
    return any;
  }

  std::mutex mutex_;
  const std::function<void()>* body_ = nullptr;
  std::vector<Thread> threads_;
  std::list<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
  Thread* current_ = nullptr;
  std::unique_ptr<std::byte[]> shared_;
  std::string failure_, first_failure_;
  uint64_t launches_ = 0;
  unsigned first_ = 0, lanes_ = 0;  // of the warp that runs
  unsigned next_ = 0;               // in its order: the first lane that may not have begun
  bool forwards_ = true;
};

// A launch on a stream. Kept: a graph may run it again.
struct Launch {
  Extents extents;
  std::function<void()> thread;
};

}  // namespace

void launch(const Extents& extents, cudaStream_t stream, std::function<void()> thread) {
  if (extents.grid.count() == 0 || extents.grid.x > 0x7fffffff || extents.grid.y > 65535 || extents.grid.z > 65535 ||
      extents.block.count() == 0 || extents.block.count() > 1024 || extents.shared > 48 * 1024)
    throw std::runtime_error(std::string("launch of ") + extents.kernel + ": invalid configuration argument");
  if (stream == nullptr) return Runner::instance().run(extents, thread);
  static std::mutex mutex;
  static std::list<Launch> launches;
  Launch* made = nullptr;
  {
    const std::lock_guard lock(mutex);
    made = &launches.emplace_back(extents, std::move(thread));
  }
  const auto run = [](void* data) {
    const Launch& launch = *static_cast<Launch*>(data);
    Runner::instance().run(launch.extents, launch.thread);
  };
  if (cudaLaunchHostFunc(stream, run, made) != cudaSuccess)
    throw std::runtime_error(std::string("launch of ") + extents.kernel + " failed");
}

std::string take_failure() { return Runner::instance().take_failure(); }
uint64_t launches() { return Runner::instance().launches(); }

int lane() {
  const Place& p = place();
  return static_cast<int>((p.thread.x + p.block_extent.x * (p.thread.y + p.block_extent.y * p.thread.z)) % kWarp);
}
std::byte* dynamic_shared() { return Runner::instance().shared(); }

void wait_for_block(const std::source_location& where) { Runner::instance().wait(State::kAtBarrier, where); }

const Exchanged& exchange(unsigned mask, uint64_t bits, const std::source_location& where) {
  Thread& thread = Runner::instance().current();
  if ((mask >> lane() & 1) == 0) fail("the mask of an exchange leaves out its own lane ", lane(), "", where);
  thread.given = bits;
  thread.mask = mask;
  Runner::instance().wait(State::kAtExchange, where);
  return thread.received;
}

void fail_with(const std::string& text, const std::source_location& where) {
  throw Failure(text + " (" + text_of(where) + ")");
}

}  // namespace piper::shim
