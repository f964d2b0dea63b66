// A device of one rank: memory regions and streams. The executor allocates everything at load
// through this interface and runs every step's streams on it; `cpu/` implements it with threads.
// Kernels are not its business (runtime/kernels), nor is communication (transport.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "schemas/base/status.h"

namespace piper::hal {

// Zero-filled memory, resident from the start: no page fault in a step. At least 64-byte aligned.
class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 protected:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// The streams of a rank. `body` is called once on each stream, with the stream's index, and run()
// returns when all calls have returned. Bodies must not throw.
class StreamGroup {
 public:
  virtual ~StreamGroup() = default;
  virtual void run(const std::function<void(int stream)>& body) = 0;
};

struct DeviceOptions {
  bool huge_pages = true;
  std::string machine;  // where /proc and /sys are looked for; tests have their own
};

class Device {
 public:
  virtual ~Device() = default;
  // R0405 when the memory is not to be had, or would leave the machine or the cgroup too little.
  virtual Result<std::unique_ptr<MemoryRegion>> allocate(int64_t bytes) = 0;
  // Stream 0 runs on the thread that calls run(); each other one has a thread of its own.
  virtual std::unique_ptr<StreamGroup> make_streams(int count) = 0;
};

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options);

}  // namespace piper::hal
