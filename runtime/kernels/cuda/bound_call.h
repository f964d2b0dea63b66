// One KernelCall of CUDA's own rows with its operands as views: checks and attributes for the binders of this folder,
// prepared kernels made of launches. Knows neither LibTorch nor what an operand's memory holds: that is on a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/hal/cuda/cuda_stream.h"
#include "runtime/kernels/call_reader.h"
#include "runtime/kernels/cuda/fault.h"
#include "runtime/kernels/cuda/layout.h"
#include "runtime/kernels/kernel.h"

namespace piper::kernels::cuda {

using Shape = std::vector<int64_t>;
std::string text_of(const Shape& shape);

// An operand: device memory, and how its elements lie in it. Undefined where it is absent.
struct View {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape, strides;
  bool defined = false;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t extent(int64_t axis) const { return shape[static_cast<size_t>(axis)]; }
  int64_t stride(int64_t axis) const { return strides[static_cast<size_t>(axis)]; }
  int64_t elements() const;
  bool contiguous() const;
  // Repeated along new and along single axes. Refuses a shape that it cannot have.
  View expanded(const Shape& to) const;
  // For the axes [first, last), neighbours merged where they can be; of all axes. Refuses more than kMaxAxes.
  Layout layout(int64_t first, int64_t last) const;
  Layout layout() const { return layout(0, rank()); }
};

// Device memory and faults, of a library.
class KernelMemory {
 public:
  virtual ~KernelMemory() = default;
  // `bytes`, zero at first, as long as the library. Throws Refusal where there is none.
  virtual std::byte* reserve(int64_t bytes) = 0;
  virtual FaultPlace enlist(const std::string& who) = 0;
};

class BoundCall : public CallReader {
 public:
  BoundCall(const plan::KernelCall& call, const plan::KernelInfo& info, const std::vector<BoundOperand>& outputs,
            const std::vector<BoundOperand>& inputs, const TrainingNumbers& numbers, KernelMemory& memory);

  // Undefined where the operand is absent or not listed.
  const View& out(size_t i) const { return i < out_.size() ? out_[i] : none_; }
  const View& in(size_t i) const { return i < in_.size() ? in_[i] : none_; }
  size_t num_inputs() const { return in_.size(); }

  // Memory of the kernel's own on the device, for parts of sums. At most 64 KiB, which is what plans count for a call.
  template <class T>
  T* reserve(int64_t count) const {
    return reinterpret_cast<T*>(memory_.reserve(count * static_cast<int64_t>(sizeof(T))));
  }
  // Where the kernel says what data it cannot work with.
  FaultPlace fault() const { return memory_.enlist(who()); }

 private:
  KernelMemory& memory_;
  std::vector<View> out_, in_;
  View none_;
};

// Checks that binders share; all refuse with the operand's name.
void want_shape(const View& view, const Shape& shape, const char* what);
void want_dtype(const View& view, DType dtype, const char* what);
void want_same_dtype(const View& a, const View& b);
void want_floating(const View& view);  // f32, f64, bf16 or f16
void want_gradient(const View& view);  // f32, bf16 or f16
void want_count(const View& view, int64_t count, const char* what);
int64_t want_axis(const View& view, int64_t axis);
// One element of a floating-point type; its address.
void* want_scalar(const View& view, const char* what);
template <class T>
T* scalar_of(const View& view, DType dtype, const char* what) {
  want_dtype(view, dtype, what);
  want_count(view, 1, what);
  return reinterpret_cast<T*>(view.data);
}
inline DType computed_as(DType dtype) { return is_half(dtype) ? DType::kF32 : dtype; }

class OwnKernel : public PreparedKernel {
 public:
  bool wrote(const std::byte* record) const final;
  // The numbers that faults of its launches have: (first, last].
  void set_faults(uint32_t first, uint32_t last) {
    first_ = first;
    last_ = last;
  }

 private:
  uint32_t first_ = 0, last_ = 0;
};
using MadeKernel = std::unique_ptr<OwnKernel>;
using Binder = MadeKernel (*)(const BoundCall& call);

// A kernel of one or several launches.
template <class F>
MadeKernel make_kernel(F launch) {
  class Launches final : public OwnKernel {
   public:
    explicit Launches(F launch) : launch_(std::move(launch)) {}
    void run(hal::Queue& queue) override { launch_(hal::stream_of(queue)); }

   private:
    F launch_;
  };
  return std::make_unique<Launches>(std::move(launch));
}

#define PIPER_CUDA_ROW(name, function) MadeKernel function(const BoundCall& call);
#include "runtime/kernels/cuda/own_rows.def"
#undef PIPER_CUDA_ROW

}  // namespace piper::kernels::cuda
