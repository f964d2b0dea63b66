// A device side whose kernels run on a stream of cudart, or of its stand-in.
#pragma once

#include <memory>
#include <string>

#include "runtime/hal/cuda/cuda_handles.h"
#include "tests/shim/device_side.h"

namespace piper::kernels::testing {

class StreamSide : public DeviceSide {
 public:
  hal::Queue& queue() override { return cuda_queue(); }
  std::string finish() override {
    const cudaError_t error = cudaStreamSynchronize(cuda_queue().stream());
    return error == cudaSuccess ? failure_of_kernels() : cudaGetErrorString(error);
  }

 private:
  // What the stream itself does not tell.
  virtual std::string failure_of_kernels() { return ""; }
  // Made when it is first asked for: streams belong to the thread's device.
  hal::CudaQueue& cuda_queue() {
    if (queue_ == nullptr) queue_ = hal::CudaQueue::make(plan::Priority::kNormal).value();
    return *queue_;
  }
  std::unique_ptr<hal::CudaQueue> queue_;
};

}  // namespace piper::kernels::testing
