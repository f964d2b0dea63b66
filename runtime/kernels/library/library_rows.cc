#include "runtime/kernels/library/library_rows.h"

#include "runtime/kernels/library/binders.h"

namespace piper::kernels {

namespace {

const RowTable& rows() {
  static const auto* table = new RowTable{
#define PIPER_LIBRARY_ROW(name, function) {name, {plan::find_kernel(name), &library::function}},
#include "runtime/kernels/library/library_rows.def"
#undef PIPER_LIBRARY_ROW
  };
  return *table;
}

}  // namespace

bool has_library_row(std::string_view kernel) { return rows().contains(kernel); }

Result<std::unique_ptr<PreparedKernel>> LibraryRows::bind(const plan::KernelCall& call,
                                                          const std::vector<BoundOperand>& outputs,
                                                          const std::vector<BoundOperand>& inputs,
                                                          const TrainingNumbers& numbers) const {
  const auto found = rows().find(call.kernel.name());
  if (found == rows().end()) return unknown_kernel(call.kernel.text());
  return bind_row(found->second, call, outputs, inputs, numbers, device_);
}

int64_t LibraryRows::memory_bytes() const { return device_.reserved_bytes(); }

}  // namespace piper::kernels
