// What tests ask of the stand-in for CUDA beside CUDA's own functions.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/standin/race_detector.h"

namespace piper::standin {

// How many GPUs there are from now on; 1 at first.
void set_devices(int count);
// Where a stream finds bytes of device or page-locked memory; nullptr where it must not look.
std::byte* alias(const void* place, size_t bytes);

// While it lives, cudaStreamWaitEvent() of this thread does nothing: a mistake for tests to plant.
class IgnoredWaits {
 public:
  IgnoredWaits();
  ~IgnoredWaits();
};

// Work of a stream: a copy, a kernel. What it touches is all that it may touch.
struct Operation {
  std::string name;  // for messages
  std::vector<Range> reads, writes;
  std::function<void()> run;  // on a thread of the stand-in; may wait for other operations
};
// Its place in the stream, or a node where the stream is capturing. cudaErrorIllegalAddress: memory that was not
// allocated, or is freed (CUDA would tell it later).
cudaError_t enqueue(cudaStream_t stream, Operation operation);

// While it lives, host functions that this thread launches have the name of an operation and touch what it touches: for
// kernels that the shim runs, whose launches say neither. The innermost one counts; `operation` outlives it.
class LaunchesOf {
 public:
  explicit LaunchesOf(const Operation& operation);
  ~LaunchesOf();

 private:
  const Operation* outer_;
};

}  // namespace piper::standin
