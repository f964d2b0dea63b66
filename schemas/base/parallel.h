// A loop whose turns do not touch each other, spread over the machine's cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace piper {

// Threads that lend a hand and wait for more work in between, with the memory that they have taken by then.
class HelperThreads {
 public:
  explicit HelperThreads(size_t threads) : wanted_threads_(threads) {}
  ~HelperThreads() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    offered_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  HelperThreads(const HelperThreads&) = delete;
  HelperThreads& operator=(const HelperThreads&) = delete;

  // Calls `work` here and on up to `helpers` threads that are free before it ends here; returns when all of these calls
  // have. Work may share work of its own. It throws nothing.
  void share(const std::function<void()>& work, size_t helpers) {
    Offer offer{&work, helpers, 0};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      start_threads();
      offers_.push_back(&offer);
    }
    offered_.notify_all();
    work();
    std::unique_lock<std::mutex> lock(mutex_);
    std::erase(offers_, &offer);
    left_.wait(lock, [&] { return offer.working == 0; });
  }
  // Has a thread call `work` once it has nothing to share; never, where none has before this ends. It throws nothing.
  void call_when_free(std::function<void()> work) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      start_threads();
      waiting_.push_back(std::move(work));
    }
    offered_.notify_one();
  }

  // Those of this thread's loops; null where none are kept.
  static HelperThreads*& kept() {
    static thread_local HelperThreads* helpers = nullptr;
    return helpers;
  }

 private:
  struct Offer {
    const std::function<void()>* work;
    size_t wanted, working;
  };
  void start_threads() {
    try {
      while (threads_.size() < wanted_threads_) threads_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {
      wanted_threads_ = threads_.size();  // the system has no more: the others do it all
    }
  }
  void help() {
    kept() = this;
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      offered_.wait(lock, [&] { return ending_ || !offers_.empty() || !waiting_.empty(); });
      if (offers_.empty() && ending_) return;
      if (offers_.empty()) {
        const std::function<void()> work = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        work();
        lock.lock();
        continue;
      }
      Offer& offer = *offers_.back();  // the innermost
      if (--offer.wanted == 0) offers_.pop_back();
      ++offer.working;
      lock.unlock();
      (*offer.work)();
      lock.lock();
      // Who works still may have left nothing to do.
      std::erase(offers_, &offer);
      if (--offer.working == 0) left_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable offered_, left_;
  std::vector<Offer*> offers_;
  std::deque<std::function<void()>> waiting_;
  std::vector<std::thread> threads_;
  size_t wanted_threads_;
  bool ending_ = false;
};

// While it lives, this thread's loops and those within share one set of helpers instead of making theirs.
class KeptHelpers {
 public:
  explicit KeptHelpers(size_t threads) : helpers_(threads), before_(HelperThreads::kept()) {
    HelperThreads::kept() = &helpers_;
  }
  ~KeptHelpers() { HelperThreads::kept() = before_; }
  KeptHelpers(const KeptHelpers&) = delete;
  KeptHelpers& operator=(const KeptHelpers&) = delete;

 private:
  HelperThreads helpers_;
  HelperThreads* before_;
};

// As many threads as a loop uses at most.
inline size_t loop_threads() { return std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 16); }

// parallel_for() whatever the number of turns.
template <class Turn>
void share_turns(size_t count, const Turn& turn) {
  const size_t threads = std::min(count, loop_threads());
  if (threads < 2) {
    for (size_t i = 0; i < count; ++i) turn(i);
    return;
  }
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  size_t failed = count;
  std::mutex mutex;
  const std::function<void()> work = [&] {
    size_t i = 0;
    try {
      while ((i = next.fetch_add(1)) < count) turn(i);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (i < failed) {
        failed = i;
        failure = std::current_exception();
      }
      next = count;
    }
  };
  std::optional<HelperThreads> own;
  HelperThreads& helpers = HelperThreads::kept() != nullptr ? *HelperThreads::kept() : own.emplace(threads - 1);
  helpers.share(work, threads - 1);
  if (failure) std::rethrow_exception(failure);
}

// Calls turn(i) once for every i below `count`, on up to 16 threads, in no order; in the calling thread alone where
// there is little to do or one core or no more threads to be had. Of several exceptions that of the lowest i is thrown
// again here, after all threads have ended; turns beyond it may not have been called.
template <class Turn>
void parallel_for(size_t count, const Turn& turn) {
  if (count >= 4) return share_turns(count, turn);
  for (size_t i = 0; i < count; ++i) turn(i);
}

// Calls both, side by side where there is a thread for it.
template <class First, class Second>
void parallel_invoke(const First& first, const Second& second) {
  share_turns(2, [&](size_t i) { i == 0 ? first() : second(); });
}

}  // namespace piper
