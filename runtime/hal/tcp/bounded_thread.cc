#include "runtime/hal/tcp/bounded_thread.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace piper::hal {

struct BoundedThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  Job job;
  bool busy = false, quit = false;
  std::optional<Status> result;
  GivenUp given_up{false};
  std::thread thread;

  void walk() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return quit || job; });
      if (!job) return;
      Job next = std::move(job);
      job = nullptr;
      lock.unlock();
      Status status = next(given_up);
      next = nullptr;  // what it owns goes before the caller is notified
      lock.lock();
      result = std::move(status);
      busy = false;
      changed.notify_all();
    }
  }
};

BoundedThread::BoundedThread() : shared_(std::make_shared<Shared>()) {
  shared_->thread = std::thread([shared = shared_] { shared->walk(); });
}

BoundedThread::~BoundedThread() {
  bool busy = false;
  {
    std::lock_guard lock(shared_->mutex);
    shared_->quit = true;
    busy = shared_->busy;
    shared_->changed.notify_all();
  }
  if (busy) shared_->thread.detach();
  else shared_->thread.join();
}

bool BoundedThread::left_behind() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->busy;
}

std::optional<Status> BoundedThread::run(Job job, const WaitControl& wait) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kTurn{10}, kLeave{40};
  std::unique_lock lock(shared_->mutex);
  PIPER_CHECK(!shared_->busy, "a second job while one runs");
  shared_->result.reset();
  shared_->given_up = false;
  shared_->busy = true;
  shared_->job = std::move(job);
  shared_->changed.notify_all();
  const auto end = Clock::now() + wait.timeout + kGrace;
  const auto done = [&] { return !shared_->busy; };
  while (!shared_->changed.wait_for(lock, kTurn, done)) {
    const bool stop = wait.stop != nullptr && wait.stop->raised();
    if (!stop && Clock::now() < end) continue;
    shared_->given_up = true;
    shared_->changed.wait_for(lock, kLeave, done);
    if (stop) return stopped();
    if (shared_->busy) return std::nullopt;
  }
  return std::move(shared_->result);
}

}  // namespace piper::hal
