// What is enqueued to streams, kept as a graph that one call launches.
#pragma once

#include <memory>

#include "runtime/hal/cuda/cuda_handles.h"
#include "schemas/base/status.h"

namespace piper::hal {

class CudaGraph {
 public:
  // `graph` becomes an executable one; R0407. The nodes have the priorities of the streams that they were enqueued to.
  static Result<std::unique_ptr<CudaGraph>> make(cudaGraph_t graph);
  ~CudaGraph();
  // All of it after what was enqueued to `stream`, before what will be. R0407.
  Status launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t handle_ = nullptr;
};

// The capture of a graph from a stream and those that wait for its events, by one thread. Ends with its life.
class CudaCapture {
 public:
  explicit CudaCapture(cudaStream_t stream) : stream_(stream) {}
  ~CudaCapture();
  // R0407. Until end(), this thread may neither allocate nor wait for the device.
  Status begin();
  // R0407: also where a stream was not joined, or a call in between made the capture invalid.
  Result<std::unique_ptr<CudaGraph>> end();

 private:
  cudaStream_t stream_;
  bool capturing_ = false;
};

}  // namespace piper::hal
