// What kernels made of LibTorch's operators share, on any device: the bound call (LibTorch views of the operands and
// the attributes), and prepared kernels made of lambdas. Private to runtime/kernels; nobody else sees a LibTorch type.
// It does not decide which binder serves which kernel (library/library_rows.def, cpu_rows.def) and holds no kernel.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/kernels/call_reader.h"

namespace piper::kernels {

class NamedKernel;

// Where LibTorch's operators run: the device of the views, and what surrounds a kernel's run.
class OperatorDevice {
 public:
  virtual ~OperatorDevice() = default;
  virtual at::Device device() const = 0;
  // Calls execute_named(), which on a GPU enqueues on the queue.
  virtual void run(NamedKernel& kernel, hal::Queue& queue) const = 0;
  // kernels::Library: measure_scratch(), scratch_beyond_plan(), memory_bytes().
  virtual void measure_scratch(bool) const {}
  virtual std::vector<ScratchBeyondPlan> scratch_beyond_plan() const { return {}; }
  virtual int64_t reserved_bytes() const { return 0; }
  // Whether the library's products of this type are so slow there that they are computed in f32 and rounded once.
  virtual bool widens_products(at::ScalarType) const { return false; }
};

// One KernelCall with its operands as views. Views stay valid while the executor's memory does.
class Call : public CallReader {
 public:
  Call(const plan::KernelCall& call, const plan::KernelInfo& info, const std::vector<BoundOperand>& outputs,
       const std::vector<BoundOperand>& inputs, const TrainingNumbers& numbers, const OperatorDevice& device);

  // The view of an operand; undefined where it is absent or not listed.
  at::Tensor out(size_t i) const { return i < out_.size() ? out_[i] : at::Tensor(); }
  at::Tensor in(size_t i) const { return i < in_.size() ? in_[i] : at::Tensor(); }
  size_t num_inputs() const { return in_.size(); }
  const OperatorDevice& device() const { return device_; }
  // Bytes: for one intra-op thread, and for each further one.
  int64_t scratch_bound() const { return scratch_bound_; }
  int64_t scratch_per_thread() const { return scratch_per_thread_; }

 private:
  const OperatorDevice& device_;
  std::vector<at::Tensor> out_, in_;
  int64_t scratch_bound_ = 0, scratch_per_thread_ = 0;
};

// Checks that bind shares. All refuse with the operand's name and both shapes.
void want_shape(const at::Tensor& tensor, at::IntArrayRef shape, const char* what);
void want_dtype(const at::Tensor& tensor, at::ScalarType dtype, const char* what);
void want_same_dtype(const at::Tensor& a, const at::Tensor& b);
int64_t want_axis(const at::Tensor& tensor, int64_t axis);
// The output must have the broadcast shape of the inputs.
void want_broadcast(const at::Tensor& out, const std::vector<at::Tensor>& inputs);

// Temporaries as the allocator of a device counts them, in bytes.
class ScratchMeter {
 public:
  virtual ~ScratchMeter() = default;
  virtual void begin() = 0;
  virtual int64_t peak() = 0;  // the most in use since begin()
  virtual int64_t in_use() = 0;
};

// A kernel whose failures name it. Lives no longer than the call's device.
class NamedKernel : public PreparedKernel {
 public:
  explicit NamedKernel(const Call& call);
  void run(hal::Queue& queue) final { device_.run(*this, queue); }
  void execute_named();
  // The same, and what it takes beyond scratch_bound(1), if it does. What stays in use after it is the library's own:
  // workspaces that it keeps for all products of a stream.
  std::optional<ScratchBeyondPlan> execute_metered(ScratchMeter& meter);

  const std::string& who() const { return who_; }
  // Whether its operator adds up in any order unless it is asked for one that stays (library/operator_settings.h).
  virtual bool wants_same_bits() const { return false; }
  int64_t scratch_bound(int threads) const { return scratch_bound_ + (threads - 1) * scratch_per_thread_; }

 protected:
  // It runs on memory that holds zeros, for what it takes.
  bool is_measured() const { return is_measured_; }

 private:
  virtual void execute() = 0;
  bool is_measured_ = false;
  const OperatorDevice& device_;
  std::string who_;
  int64_t scratch_bound_, scratch_per_thread_;
};

template <bool same_bits, class F>
std::unique_ptr<PreparedKernel> make_kernel_of(const Call& call, F body) {
  class Lambda final : public NamedKernel {
   public:
    Lambda(const Call& call, F body) : NamedKernel(call), body_(std::move(body)) {}
    bool wants_same_bits() const override { return same_bits; }

   private:
    void execute() override { body_(); }
    F body_;
  };
  return std::make_unique<Lambda>(call, std::move(body));
}
template <class F>
std::unique_ptr<PreparedKernel> make_kernel(const Call& call, F body) {
  return make_kernel_of<false>(call, std::move(body));
}
template <class F>
std::unique_ptr<PreparedKernel> make_same_bits_kernel(const Call& call, F body) {
  return make_kernel_of<true>(call, std::move(body));
}

using Binder = std::unique_ptr<PreparedKernel> (*)(const Call&);
struct KernelRow {
  const plan::KernelInfo* info;
  Binder binder;
};
using RowTable = std::unordered_map<std::string_view, KernelRow>;
// The row's kernel, or R0402.
Result<std::unique_ptr<PreparedKernel>> bind_row(const KernelRow& row, const plan::KernelCall& call,
                                                 const std::vector<BoundOperand>& outputs,
                                                 const std::vector<BoundOperand>& inputs,
                                                 const TrainingNumbers& numbers, const OperatorDevice& device);

// Scratch tensors where `like` is, valid inside run() only.
at::Tensor scratch(at::IntArrayRef shape, at::ScalarType dtype, const at::Tensor& like);
inline at::Tensor scratch_like(const at::Tensor& t) { return scratch(t.sizes(), t.scalar_type(), t); }
// `t` itself where dense, else a dense copy in scratch. Undefined stays undefined.
at::Tensor dense(const at::Tensor& t);
// Own kernels compute bf16 and f16 in f32: the type for operands of t's, and `dense` in it.
inline at::ScalarType computed_type(const at::Tensor& t) {
  return at::isReducedFloatingType(t.scalar_type()) ? at::kFloat : t.scalar_type();
}
at::Tensor dense_computed(const at::Tensor& t);
// out = result, or out += result; rounded once where the result has another type.
void store(const at::Tensor& out, const at::Tensor& result, bool accumulate);

// Calls body(y) with a dense tensor y that stands for `out`, then stores y unless y is `out` itself.
template <class F>
void produce(const at::Tensor& out, bool accumulate, F&& body) {
  if (!accumulate && out.is_contiguous()) {
    at::Tensor y = out;
    body(y);
    return;
  }
  at::Tensor y = scratch_like(out);
  body(y);
  store(out, y, accumulate);
}

// The same with y in the type that is computed in.
template <class F>
void produce_computed(const at::Tensor& out, bool accumulate, F&& body) {
  if (computed_type(out) == out.scalar_type()) return produce(out, accumulate, std::forward<F>(body));
  at::Tensor y = scratch(out.sizes(), computed_type(out), out);
  body(y);
  store(out, y, accumulate);
}

// A view of `t` with axes [first, last) merged into one, or undefined where the strides forbid it.
at::Tensor merged_axes(const at::Tensor& t, int64_t first, int64_t last);

}  // namespace piper::kernels
