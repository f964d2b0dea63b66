#include "runtime/hal/cuda/cuda_handles.h"

#include "runtime/hal/cuda/cuda_check.h"
#include "runtime/hal/cuda/cuda_stream.h"

namespace piper::hal {

Status cuda_status(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return {};
  return Status::failure("R0407", std::string(call) + ": " + cudaGetErrorString(error));
}

Result<std::unique_ptr<CudaQueue>> CudaQueue::make(plan::Priority priority) {
  int least = 0, greatest = 0;
  PIPER_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  auto queue = std::make_unique<CudaQueue>();
  // Communication before computation; `low` is where everything without a wish is, too: CUDA has no lower one.
  const int value = priority == plan::Priority::kHigh ? greatest : least;
  PIPER_CUDA(cudaStreamCreateWithPriority(&queue->stream_, cudaStreamNonBlocking, value));
  return queue;
}

CudaQueue::~CudaQueue() {
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}

cudaStream_t stream_of(Queue& queue) { return static_cast<CudaQueue&>(queue).stream(); }

Result<std::unique_ptr<CudaEvent>> CudaEvent::make(const std::string& name, bool timed) {
  auto event = std::make_unique<CudaEvent>();
  event->name_ = name;
  PIPER_CUDA(cudaEventCreateWithFlags(&event->handle_, timed ? cudaEventDefault : cudaEventDisableTiming));
  return event;
}

CudaEvent::~CudaEvent() {
  if (handle_ != nullptr) (void)cudaEventDestroy(handle_);
}

}  // namespace piper::hal
