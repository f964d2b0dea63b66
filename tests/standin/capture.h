// Captures of streams into graphs, with CUDA's rules of what may not be done meanwhile.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tests/standin/standin.h"

namespace piper::standin {

// An operation after others.
struct Node {
  std::shared_ptr<const Operation> operation;
  std::vector<size_t> predecessors;  // nodes before it in the list
  size_t chain = 0;                  // nodes of one stream, of which each has an edge to the next
};

// cudaErrorStreamCaptureUnsupported where the calling thread may not allocate or wait for the device, since that would
// be in no graph; the captures that forbid it are invalid from then on.
cudaError_t unsafe_call();

// From cudaStreamBeginCapture() to cudaStreamEndCapture().
class Capture : public std::enable_shared_from_this<Capture> {
 public:
  static cudaError_t begin(cudaStream_t stream, cudaStreamCaptureMode mode);
  // `nodes`: what was captured. Any error but those of a wrong call ends the capture, too.
  static cudaError_t end(cudaStream_t stream, std::vector<Node>& nodes);
  // `error`, having made all captures invalid; cudaSuccess where there is none.
  static cudaError_t end_all(cudaError_t error);
  // `stream` waits for nodes of a capture: it becomes part of it.
  static cudaError_t wait(cudaStream_t stream, const std::shared_ptr<Capture>& capture,
                          const std::vector<size_t>& nodes);

  cudaError_t add(cudaStream_t stream, Operation operation);
  // What a record of an event stands for.
  cudaError_t point(cudaStream_t stream, std::vector<size_t>& nodes);
  cudaError_t invalidate(cudaError_t error);
  // The stream is destroyed.
  void leave(cudaStream_t stream);
  cudaStreamCaptureStatus status();

 private:
  friend cudaError_t unsafe_call();
  struct Branch {
    std::vector<size_t> front;    // what the stream's next node follows
    std::optional<size_t> chain;  // once it has a node
  };
  Capture(cudaStream_t origin, cudaStreamCaptureMode mode) : origin_(origin), mode_(mode) {}
  bool all_joined() const;
  bool prohibits(std::thread::id thread) const;

  const cudaStream_t origin_;
  const cudaStreamCaptureMode mode_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::mutex mutex_;
  bool ended_ = false, invalid_ = false;
  std::map<cudaStream_t, Branch> branches_;
  std::vector<Node> nodes_;
  size_t chains_ = 0;
};

}  // namespace piper::standin
