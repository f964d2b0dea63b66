// Where the kernels under test have their memory: a GPU's (tests/gpu), or, under the shim, the host's.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "runtime/hal/command.h"
#include "runtime/kernels/cuda/cuda_library.h"

namespace piper::kernels::testing {

class DeviceSide {
 public:
  virtual ~DeviceSide() = default;
  // Zero-filled, aligned to 64 bytes, freed with the last owner.
  virtual std::shared_ptr<std::byte> allocate(size_t bytes) = 0;
  virtual void write(std::byte* to, const void* from, size_t bytes) = 0;
  virtual void read(void* to, const std::byte* from, size_t bytes) = 0;
  virtual hal::Queue& queue() = 0;
  // Every kernel of the device.
  virtual Result<std::unique_ptr<Library>> make_kernels(cuda::DeviceMemory memory) = 0;
  // Until the queue is empty. What went wrong on it, or nothing.
  virtual std::string finish() = 0;
};
// The program's own.
DeviceSide& device_side();

}  // namespace piper::kernels::testing
