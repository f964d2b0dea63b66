// Holds a stream back until the host has enqueued what is to be timed: else a kernel that is shorter than its launch
// would be given the time of the launch.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/hal/cuda/cuda_stream.h"
#include "schemas/base/status.h"

namespace piper::hal {

class StartGate {
 public:
  // What is enqueued to `stream` from now on waits for open(), or for a tenth of a second: a command may wait for the
  // device itself. R0407.
  Status close(cudaStream_t stream);
  void open();
  ~StartGate() { open(); }

 private:
  std::shared_ptr<std::atomic<bool>> opened_;  // of the last close(); the stream holds it, too
};

}  // namespace piper::hal
