#include "runtime/kernels/library/operator_settings.h"

#include <ATen/Context.h>

#include <mutex>
#include <shared_mutex>

#include "runtime/kernels/binding.h"

namespace piper::kernels {

namespace {

std::shared_mutex& issuing() {
  static std::shared_mutex mutex;
  return mutex;
}

// With a warning instead of a failure for what has no such kernel (`warn_only`), attention would not listen.
class SameBits {
 public:
  SameBits() { at::globalContext().setDeterministicAlgorithms(true, false); }
  ~SameBits() { at::globalContext().setDeterministicAlgorithms(false, false); }
  SameBits(const SameBits&) = delete;
  SameBits& operator=(const SameBits&) = delete;
};

}  // namespace

void set_up_operators() {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  context.setAllowBF16ReductionCuBLAS(false);
  context.setAllowFP16ReductionCuBLAS(false);
  context.setBenchmarkCuDNN(false);
  context.setDeterministicCuDNN(true);
  context.setDeterministicFillUninitializedMemory(false);
}

void issue_with_settings(const NamedKernel& kernel, const std::function<void()>& issue) {
  if (!kernel.wants_same_bits()) {
    // Some operators refuse to run while the request is.
    const std::shared_lock beside(issuing());
    return issue();
  }
  const std::unique_lock alone(issuing());
  const SameBits same_bits;
  issue();
}

}  // namespace piper::kernels
