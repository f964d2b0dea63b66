#include "runtime/hal/cuda/event_commands.h"

#include "runtime/hal/cuda/cuda_check.h"

namespace piper::hal {

Status CudaRecordEvent::issue(Queue& queue, const Submission&) {
  PIPER_CUDA(cudaEventRecord(event_.handle(), static_cast<CudaQueue&>(queue).stream()));
  return {};
}

Status CudaWaitEvent::issue(Queue& queue, const Submission&) {
  PIPER_CUDA(cudaStreamWaitEvent(static_cast<CudaQueue&>(queue).stream(), event_.handle(), 0));
  return {};
}

}  // namespace piper::hal
