#include "tests/shim/host_operators.h"

#include "runtime/kernels/binding.h"
#include "runtime/kernels/library/library_rows.h"

namespace piper::shim {

namespace {

// What CUDA's operators are, except the stream: temporaries of the allocator's own, products as they come.
class HostOperators : public kernels::OperatorDevice {
 public:
  at::Device device() const override { return at::kCPU; }
  void run(kernels::NamedKernel& kernel, hal::Queue&) const override { kernel.execute_named(); }
};

}  // namespace

std::unique_ptr<const kernels::Library> host_operators() {
  static const HostOperators operators;
  return std::make_unique<kernels::LibraryRows>(operators);
}

}  // namespace piper::shim
