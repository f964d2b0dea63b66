#include "runtime/hal/cuda/start_gate.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <thread>

#include "runtime/hal/cuda/cuda_check.h"

namespace piper::hal {

namespace {

using Opened = std::shared_ptr<std::atomic<bool>>;

// On a thread of CUDA's, which may not call it.
void wait_until_open(void* data) {
  const std::unique_ptr<Opened> opened(static_cast<Opened*>(data));
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (!(*opened)->load(std::memory_order_acquire) && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
}

}  // namespace

Status StartGate::close(cudaStream_t stream) {
  open();
  opened_ = std::make_shared<std::atomic<bool>>(false);
  auto held = std::make_unique<Opened>(opened_);
  PIPER_CUDA(cudaLaunchHostFunc(stream, &wait_until_open, held.get()));
  (void)held.release();  // it is the stream's
  return {};
}

void StartGate::open() {
  if (opened_ != nullptr) opened_->store(true, std::memory_order_release);
}

}  // namespace piper::hal
