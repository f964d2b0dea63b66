// The threads of a CPU device's queues: a round calls one body on every queue's thread and returns when all have
// returned. Queue 0's thread is the one that calls. Used by cpu_device.cc.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace piper::hal {

class QueueThreads {
 public:
  // `enter` is called first on each further thread.
  QueueThreads(int count, const std::function<void()>& enter);
  ~QueueThreads();
  // `body` gets the queue's index; it must not throw.
  void run(const std::function<void(int queue)>& body);

 private:
  void work(int queue);

  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(int)>* body_ = nullptr;
  uint64_t round_ = 0;
  size_t running_ = 0;
  bool ending_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace piper::hal
