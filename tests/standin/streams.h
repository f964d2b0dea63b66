// The stand-in's streams and events: a stream is a queue with a thread, an event the moment in which a stream came
// there.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/standin/race_detector.h"

namespace piper::standin {

class Capture;

class Completion {
 public:
  explicit Completion(VectorClock clock = {}) : clock_(std::move(clock)) {}
  void complete();
  void wait();
  bool is_done();
  // For one that is done.
  std::chrono::steady_clock::time_point when() const { return when_; }
  // What is done when it is done.
  const VectorClock& clock() const { return clock_; }

 private:
  VectorClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::chrono::steady_clock::time_point when_;
};

// For the calling thread, by cudaSetDevice().
int device_of_thread();

// All streams there are.
class Streams {
 public:
  static Streams& instance();
  void add(cudaStream_t stream);
  bool remove(cudaStream_t stream);
  // For a device, for the calling thread.
  void wait_for_all(int device);

 private:
  std::mutex mutex_;
  std::set<cudaStream_t> all_;
};

}  // namespace piper::standin

struct CUstream_st {
 public:
  explicit CUstream_st(int of_device);
  ~CUstream_st();
  void push(std::function<void()> work);
  bool idle();
  // Completed when the stream has come there.
  std::shared_ptr<piper::standin::Completion> mark();

  const int device;
  const piper::standin::Lane lane;
  std::shared_ptr<piper::standin::Capture> capture;  // that the stream is part of; of the thread that enqueues

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;
};

struct CUevent_st {
  std::mutex mutex;
  // The last record: a place in a stream, or nodes of a capture. Neither: none yet.
  std::shared_ptr<piper::standin::Completion> recorded;
  std::shared_ptr<piper::standin::Capture> capture;
  std::vector<size_t> nodes;
};
