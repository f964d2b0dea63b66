// The kernels of a GPU: the rows of own_rows.def, launched on the stream of the queue that they are given. Other
// kernels are those of a library beside it, which is LibTorch's operators (library_rows.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/kernels/cuda/fault.h"
#include "runtime/kernels/kernel.h"

namespace piper::kernels::cuda {

struct DeviceMemory {
  // Zero-filled memory of the device that outlives the library's kernels. Called while kernels are bound alone.
  std::function<Result<hal::Address>(int64_t bytes)> allocate;
};

// For one device. Used by one thread at load; its kernels by the thread that issues.
class CudaLibrary : public Library {
 public:
  // R0405 where there is no memory for the record of faults.
  static Result<std::unique_ptr<CudaLibrary>> make(DeviceMemory memory, std::unique_ptr<const Library> others);
  ~CudaLibrary() override;

  // R0401: neither has such a row.
  Result<std::unique_ptr<PreparedKernel>> bind(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                                               const std::vector<BoundOperand>& inputs,
                                               const TrainingNumbers& numbers = {}) const override;

  // The record, a Fault: read by the host while no kernel runs. Who goes on after one clears it (zero bytes).
  FaultRecord fault_record() const override;
  // The texts are those of the CPU.
  Status read_fault(const std::byte* record) const override;
  // For the device, for parts of sums, of all kernels that were bound; and what the library beside them has.
  int64_t memory_bytes() const override;

 private:
  class Memory;
  CudaLibrary(std::unique_ptr<Memory> memory, std::unique_ptr<const Library> others);
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<const Library> others_;
};

bool has_own_row(std::string_view kernel);

}  // namespace piper::kernels::cuda
