#include "runtime/kernels/kernel.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tanh.h>

#include <cstdlib>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "runtime/kernels/binding.h"

namespace piper::kernels {
namespace {

struct Entry {
  const plan::KernelInfo* info;
  Binder binder;
};

const std::unordered_map<std::string_view, Entry>& entries() {
  static const auto* table = [] {
    auto* map = new std::unordered_map<std::string_view, Entry>;
#define PIPER_BINDER(name, function) map->emplace(name, Entry{plan::find_kernel(name), &function});
#include "runtime/kernels/kernel_table.def"
#undef PIPER_BINDER
    return map;
  }();
  return *table;
}

// MKL's vector functions choose their code in the first call of a process, and a thread that calls at that moment can
// get values with errors of 1e-5 (seen with `log`: 1 of 3,000 processes of two threads). So the first calls are made
// while there is one thread.
void choose_vector_functions() {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor x = at::full({64}, 0.5, type);
    for (const auto function : {at::exp, at::log, at::tanh, at::sin, at::cos, at::erf, at::sqrt, at::rsqrt})
      (void)function(x);
  }
}

class CpuLibrary : public Library {
 public:
  Result<std::unique_ptr<PreparedKernel>> bind(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                                               const std::vector<BoundOperand>& inputs,
                                               const TrainingNumbers& numbers) const override;
};

}  // namespace

Result<std::unique_ptr<PreparedKernel>> CpuLibrary::bind(const plan::KernelCall& call,
                                                         const std::vector<BoundOperand>& outputs,
                                                         const std::vector<BoundOperand>& inputs,
                                                         const TrainingNumbers& numbers) const {
  const auto found = entries().find(call.kernel);
  if (found == entries().end() || found->second.info == nullptr) return unknown_kernel(call.kernel);
  try {
    return found->second.binder(Call(call, *found->second.info, outputs, inputs, numbers));
  } catch (const Refusal& refusal) {
    return misfit(call, refusal.what());
  } catch (const c10::Error& error) {
    return misfit(call, error.what_without_backtrace());
  }
}

const Library& cpu_library() {
  static const CpuLibrary library;
  return library;
}

void initialise_process() {
  // Products give the same bits for every number of rows and threads. Read by MKL at its first call.
  setenv("MKL_CBWR", "AUTO,STRICT", 0);
  choose_vector_functions();
  install_scratch_allocator();
}

void enter_worker_thread(int num_threads) {
  // Lives as long as the thread: kernels run below autograd.
  thread_local std::optional<at::AutoDispatchBelowADInplaceOrView> guard;
  if (!guard) guard.emplace();
  at::set_num_threads(num_threads);
}

int64_t scratch_high_water() { return arena_high_water(); }
int64_t allocation_count() { return arena_allocations(); }

}  // namespace piper::kernels
