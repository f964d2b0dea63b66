#include "runtime/kernels/kernel.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/full.h>

#include <cstdlib>
#include <optional>

#include "runtime/kernels/bind_blocks.h"
#include "runtime/kernels/binding.h"
#include "runtime/kernels/library/binders.h"
#include "runtime/kernels/library/library_rows.h"
#include "runtime/kernels/library_products.h"
#include "runtime/kernels/scratch_arena.h"
#include "schemas/plan/head_blocks.h"

namespace piper::kernels {

#define PIPER_CPU_ROW(name, function) std::unique_ptr<PreparedKernel> function(const Call& call);
#include "runtime/kernels/cpu_rows.def"
#undef PIPER_CPU_ROW

namespace {

const RowTable& own_rows() {
  static const auto* table = new RowTable{
#define PIPER_CPU_ROW(name, function) {name, {plan::find_kernel(name), &function}},
#include "runtime/kernels/cpu_rows.def"
#undef PIPER_CPU_ROW
  };
  return *table;
}

// Operators run at once, with their temporaries in the thread's arena.
class CpuOperators : public OperatorDevice {
 public:
  at::Device device() const override { return at::kCPU; }
  bool widens_products(at::ScalarType type) const override { return products_in_f32(type); }
  void run(NamedKernel& kernel, hal::Queue&) const override {
    ScratchScope scope;
    kernel.execute_named();
    if (scope.peak() <= kernel.scratch_bound(1)) return;
    const int64_t bound = kernel.scratch_bound(at::get_num_threads());
    PIPER_CHECK(scope.peak() <= bound, kernel.who(), " took ", scope.peak(), " bytes of scratch, its bound is ", bound);
  }
};

// MKL's vector functions choose their code in the first call of a process, and a thread that calls at that moment can
// get values with errors of 1e-5 (seen with `log`: 1 of 3,000 processes of two threads). So the first calls are made
// while there is one thread. Of one element, since logit starts threads for two; and without at::set_num_threads(),
// whose pool two threads of a forked process cannot enter at once (LibTorch ends it: "Invalid thread pool").
void choose_vector_functions() {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) library::call_each_function(at::full({1}, 0.5, type));
}

class CpuLibrary : public Library {
 public:
  Result<std::unique_ptr<PreparedKernel>> bind(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                                               const std::vector<BoundOperand>& inputs,
                                               const TrainingNumbers& numbers) const override {
    if (plan::is_of_blocks(call.kernel)) return bind_blocks(*this, call, outputs, inputs, numbers);
    const auto found = own_rows().find(call.kernel.name());
    if (found == own_rows().end()) return library_rows_.bind(call, outputs, inputs, numbers);
    return bind_row(found->second, call, outputs, inputs, numbers, operators_);
  }

 private:
  CpuOperators operators_;
  LibraryRows library_rows_{operators_};
};

}  // namespace

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
