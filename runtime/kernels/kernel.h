// Kernels that share one header without LibTorch types. At load the executor binds every KernelCall of
// every run to memory and keeps the PreparedKernels; a step calls run() on each. A Library holds the kernels of one
// kind of device; those of the CPU are LibTorch's operators on views made at load, and own kernels.
//
// Thread rule: bind at load on any one thread; run() on the queue's thread, after
// `enter_worker_thread()` was called once on it. Nothing here allocates in run() outside the kernels
// listed in tests/unit/allocation_table, and those allocate from the scratch arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/hal/address.h"
#include "runtime/hal/command.h"
#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::kernels {

// Where an operand of a call lies: start of its slot or workspace, the operand's own offset applied; nowhere for an
// absent operand.
struct BoundOperand {
  hal::Address data;
  const plan::Operand* operand = nullptr;  // dtype, shape, strides
};

// Thrown by run() where experts are asked for more rows than the plan gives them place for, and the plan says that this
// is an error.
class OverCapacity : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  // On a CPU does the work and ignores the queue, on a GPU enqueues it there. Throws only OverCapacity, and on our own
  // bugs and library failures.
  virtual void run(hal::Queue& queue) = 0;
  // Why a graph of a GPU's cannot hold it, for the user; null where one can.
  virtual const char* waits_for_host() const { return nullptr; }
  // Whether this one wrote what is in a copy of the library's fault record.
  virtual bool wrote(const std::byte*) const { return false; }
};

// Device memory to which kernels that only enqueue write the first data that they could not work with. Nowhere: they
// throw.
struct FaultRecord {
  hal::Address place;
  int64_t bytes = 0;
};

// What kernels take from the manifest.
struct TrainingNumbers {
  double clip_grad_norm = 0;                        // the largest norm of all gradients; 0: they are not clipped
  std::optional<plan::OptimizerNumbers> optimizer;  // of an update, with those of its group
  double weight_decay = 0;                          // of the update's group
  double rate = 1;                                  // of the step's rate, that of the group
};

// A call that took more of a library's allocator than the plan counts, in bytes.
struct ScratchBeyondPlan {
  std::string call;
  int64_t taken = 0, counted = 0;
};

// The kernels of one kind of device, found by name and element types.
class Library {
 public:
  virtual ~Library() = default;
  // Checks shapes, dtypes, attributes and the `accumulate` flag against kernels.def. Errors: R0401 unknown kernel,
  // R0402 operands or attributes do not fit (damaged or mismatched plan), or a kernel of the optimizer outside of an
  // update, or of clipping where the manifest has no limit.
  virtual Result<std::unique_ptr<PreparedKernel>> bind(const plan::KernelCall& call,
                                                       const std::vector<BoundOperand>& outputs,
                                                       const std::vector<BoundOperand>& inputs,
                                                       const TrainingNumbers& numbers = {}) const = 0;
  virtual FaultRecord fault_record() const { return {}; }
  // What a copy of the record says: OK, R0403, or R0406 where experts are over their capacity.
  virtual Status read_fault(const std::byte*) const { return {}; }
  // Whether each kernel is to run once before the first step, on memory that holds zeros: what it takes from a
  // library's allocator is compared with the plan then.
  virtual bool wants_rehearsal() const { return false; }
  // Before that run and after it, nothing being under way.
  virtual void measure_scratch(bool) const {}
  // What was measured and is more than plans count, a call once.
  virtual std::vector<ScratchBeyondPlan> scratch_beyond_plan() const { return {}; }
  // Memory of the device that the kernels hold while they are bound, and the most that they have had of a library's
  // allocator.
  virtual int64_t memory_bytes() const { return 0; }
};
const Library& cpu_library();

// dst[i] += src[i], f32: the one reduction of CPU communicators.
void add_f32(float* dst, const float* src, int64_t count);

// Process-wide set-up, before the first kernel: MKL_CBWR unless the user set it, the scratch allocator.
void initialise_process();
// Once on each thread that runs kernels: autograd off, intra-op threads.
void enter_worker_thread(int num_threads);
// High-water mark of library scratch of this thread's arena, bytes.
int64_t scratch_high_water();
// Number of allocator calls made by kernels since start, for the steady-state test.
int64_t allocation_count();

}  // namespace piper::kernels
