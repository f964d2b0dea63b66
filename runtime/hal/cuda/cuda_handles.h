// CUDA's handles with owners, and the queue that kernels and collectives enqueue to.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "runtime/hal/device.h"
#include "schemas/base/status.h"

namespace piper::hal {

class CudaQueue : public Queue {
 public:
  // R0407. The stream does not wait for the default stream.
  static Result<std::unique_ptr<CudaQueue>> make(plan::Priority priority);
  ~CudaQueue() override;
  cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaEvent : public Event {
 public:
  // R0407. `timed`: for elapsed times, which makes recording slower.
  static Result<std::unique_ptr<CudaEvent>> make(const std::string& name, bool timed = false);
  ~CudaEvent() override;
  cudaEvent_t handle() const { return handle_; }
  const std::string& name() const { return name_; }

 private:
  cudaEvent_t handle_ = nullptr;
  std::string name_;
};

}  // namespace piper::hal
