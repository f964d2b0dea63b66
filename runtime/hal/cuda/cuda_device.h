// A GPU as a device, by CUDA's runtime library alone: queues are streams, uploads and downloads go through page-locked
// memory, one thread issues. All calls are made by the rank's thread.
#pragma once

#include <memory>
#include <vector>

#include "runtime/hal/device.h"

namespace piper::hal {

struct CudaDeviceOptions {
  int ordinal = 0;  // of the GPUs that this process sees
  // A recording becomes graphs when it is first submitted untimed: one, or several between the commands that cannot be
  // captured (Recording::uncaptured()). Timed submissions issue command by command.
  bool graphs = false;
};

// The GPUs that this process sees, at least one. R0106: none, or a driver that is missing or too old.
Result<int> cuda_devices();
// R0106: no such GPU, or a driver that is missing or too old. R0407: CUDA fails.
Result<std::unique_ptr<Device>> make_cuda_device(const CudaDeviceOptions& options,
                                                 const std::vector<QueueOptions>& queues);

}  // namespace piper::hal
