#include "runtime/hal/cuda/cuda_graph.h"

#include "runtime/hal/cuda/cuda_check.h"

namespace piper::hal {

Result<std::unique_ptr<CudaGraph>> CudaGraph::make(cudaGraph_t graph) {
  auto made = std::make_unique<CudaGraph>();
  PIPER_CUDA(cudaGraphInstantiate(&made->handle_, graph, cudaGraphInstantiateFlagUseNodePriority));
  return made;
}

CudaGraph::~CudaGraph() {
  if (handle_ != nullptr) (void)cudaGraphExecDestroy(handle_);
}

Status CudaGraph::launch(cudaStream_t stream) const {
  PIPER_CUDA(cudaGraphLaunch(handle_, stream));
  return {};
}

// Thread-local: other threads, which may submit for other ranks, are free to allocate and to wait.
Status CudaCapture::begin() {
  PIPER_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  capturing_ = true;
  return {};
}

Result<std::unique_ptr<CudaGraph>> CudaCapture::end() {
  capturing_ = false;
  cudaGraph_t graph = nullptr;
  PIPER_CUDA(cudaStreamEndCapture(stream_, &graph));
  auto made = CudaGraph::make(graph);
  (void)cudaGraphDestroy(graph);
  return made;
}

CudaCapture::~CudaCapture() {
  cudaGraph_t graph = nullptr;
  if (capturing_ && cudaStreamEndCapture(stream_, &graph) == cudaSuccess) (void)cudaGraphDestroy(graph);
}

}  // namespace piper::hal
