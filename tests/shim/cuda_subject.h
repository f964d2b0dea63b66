// CUDA's kernels as what the cases of tests/unit/kernels_*test.cc run on, on a GPU or, own ones under the shim and
// LibTorch's operators on the host, without one. Operands are copied to the device and back around each run.
#pragma once

#include <memory>
#include <vector>

#include "runtime/kernels/cuda/cuda_library.h"
#include "tests/unit/kernels_testing.h"

namespace piper::kernels::testing {

// Memory of the host that operands lie in, and the same on the device.
class Mirrors {
 public:
  // A place that is copied both ways. Before place() is called.
  void add(const std::byte* host, int64_t bytes);
  void allocate();
  hal::Address place(const std::byte* host) const;
  void to_device() const;
  void to_host() const;

 private:
  struct Mirror {
    std::byte* host;
    int64_t bytes;
    std::shared_ptr<std::byte> memory;
    std::byte* device;
  };
  std::vector<Mirror> mirrors_;
};

class CudaSubject : public Subject {
 public:
  static CudaSubject& instance();
  const Library& library() override;
  // What a kernel found wrong in its data, or the shim in the kernel, is thrown.
  void run(PreparedKernel& kernel) override;
  bool concerns(const std::string&) override { return true; }

  // On operands that are on the device.
  const Library& device_library();
  // Waits for the queue, and throws as run() does.
  void finish();

 private:
  CudaSubject();
  ~CudaSubject() override;
  struct State;
  State& state();
  std::unique_ptr<State> state_;
};

}  // namespace piper::kernels::testing
