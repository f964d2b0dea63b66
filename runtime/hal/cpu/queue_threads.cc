#include "runtime/hal/cpu/queue_threads.h"

namespace piper::hal {

QueueThreads::QueueThreads(int count, const std::function<void()>& enter) {
  for (int i = 1; i < count; ++i)
    workers_.emplace_back([this, i, enter] {
      if (enter) enter();
      work(i);
    });
}

QueueThreads::~QueueThreads() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void QueueThreads::run(const std::function<void(int)>& body) {
  if (!workers_.empty()) {
    {
      std::lock_guard lock(mutex_);
      body_ = &body;
      running_ = workers_.size();
      ++round_;
    }
    start_.notify_all();
  }
  body(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
}

void QueueThreads::work(int queue) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return ending_ || round_ != seen; });
    if (ending_) return;
    seen = round_;
    const std::function<void(int)>* body = body_;
    lock.unlock();
    (*body)(queue);
    lock.lock();
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace piper::hal
