// Rows of kernels.def that are LibTorch's operators on views, on every device that it has (library_rows.def). Used by
// the CPU's kernels and CUDA's, which give what operators cannot.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/kernels/kernel.h"

namespace piper::kernels {

class OperatorDevice;

bool has_library_row(std::string_view kernel);

class LibraryRows : public Library {
 public:
  // `device` outlives this and its kernels.
  explicit LibraryRows(const OperatorDevice& device) : device_(device) {}
  // R0401: it has no such row.
  Result<std::unique_ptr<PreparedKernel>> bind(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                                               const std::vector<BoundOperand>& inputs,
                                               const TrainingNumbers& numbers) const override;
  int64_t memory_bytes() const override;

 private:
  const OperatorDevice& device_;
};

}  // namespace piper::kernels
