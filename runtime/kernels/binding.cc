#include "runtime/kernels/binding.h"
#include "schemas/plan/kernel_scratch.h"

#include <ATen/TensorUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace piper::kernels {
namespace {

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return at::kFloat;
    case DType::kF64: return at::kDouble;
    case DType::kBF16: return at::kBFloat16;
    case DType::kF16: return at::kHalf;
    case DType::kI64: return at::kLong;
    case DType::kI32: return at::kInt;
    case DType::kBool: return at::kBool;
  }
  refuse("an unknown element type");
}

at::Tensor view_of(const BoundOperand& bound, at::Device device) {
  if (!is_present(bound)) return {};
  const plan::Operand& operand = *bound.operand;
  return at::for_blob(bound.data.in_device(), operand.shape)
      .strides(operand.strides)
      .options(at::TensorOptions().dtype(scalar_type(operand.dtype)).device(device))
      .target_device(device)  // else it is looked up by the address
      .make_tensor();
}

plan::DeviceKind kind_of(const OperatorDevice& device) {
  return device.device().is_cpu() ? plan::DeviceKind::kCpu : plan::DeviceKind::kCuda;
}

}  // namespace

Call::Call(const plan::KernelCall& call, const plan::KernelInfo& info, const std::vector<BoundOperand>& outputs,
           const std::vector<BoundOperand>& inputs, const TrainingNumbers& numbers, const OperatorDevice& device)
    : CallReader(call, info, outputs, inputs, numbers),
      device_(device),
      scratch_bound_(plan::scratch_bytes(info, call, kind_of(device))),
      scratch_per_thread_(plan::scratch_bytes(info, call, kind_of(device), 2) - scratch_bound_) {
  for (const BoundOperand& bound : outputs) out_.push_back(view_of(bound, device.device()));
  for (const BoundOperand& bound : inputs) in_.push_back(view_of(bound, device.device()));
}

void want_shape(const at::Tensor& tensor, at::IntArrayRef shape, const char* what) {
  if (tensor.sizes() != shape) refuse(what, " has shape ", tensor.sizes(), " where ", shape, " is expected");
}
void want_dtype(const at::Tensor& tensor, at::ScalarType dtype, const char* what) {
  if (tensor.scalar_type() != dtype)
    refuse(what, " has element type ", toString(tensor.scalar_type()), " where ", toString(dtype), " is expected");
}
void want_same_dtype(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type())
    refuse("operands have element types ", toString(a.scalar_type()), " and ", toString(b.scalar_type()));
}
int64_t want_axis(const at::Tensor& tensor, int64_t axis) {
  if (axis < 0 || axis >= std::max<int64_t>(tensor.dim(), 1))
    refuse("axis ", axis, " of a tensor of rank ", tensor.dim());
  return axis;
}
void want_broadcast(const at::Tensor& out, const std::vector<at::Tensor>& inputs) {
  size_t rank = 0;
  for (const at::Tensor& t : inputs) rank = std::max<size_t>(rank, static_cast<size_t>(t.dim()));
  std::vector<int64_t> shape(rank, 1);
  for (const at::Tensor& t : inputs)
    for (int64_t axis = 0; axis < t.dim(); ++axis) {
      int64_t& extent = shape[rank - static_cast<size_t>(t.dim()) + static_cast<size_t>(axis)];
      if (t.size(axis) == 1) continue;
      if (extent != 1 && extent != t.size(axis)) refuse("input shapes do not broadcast");
      extent = t.size(axis);
    }
  want_shape(out, shape, "the output");
}

Result<std::unique_ptr<PreparedKernel>> bind_row(const KernelRow& row, const plan::KernelCall& call,
                                                 const std::vector<BoundOperand>& outputs,
                                                 const std::vector<BoundOperand>& inputs,
                                                 const TrainingNumbers& numbers, const OperatorDevice& device) {
  try {
    return row.binder(Call(call, *row.info, outputs, inputs, numbers, device));
  } catch (const Refusal& refusal) {
    return misfit(call, refusal.what());
  } catch (const c10::Error& error) {
    return misfit(call, error.what_without_backtrace());
  }
}

NamedKernel::NamedKernel(const Call& call)
    : device_(call.device()),
      who_(call.who()),
      scratch_bound_(call.scratch_bound()),
      scratch_per_thread_(call.scratch_per_thread()) {}

void NamedKernel::execute_named() {
  try {
    execute();
  } catch (const Refusal& refusal) {
    throw std::runtime_error(who_ + ": " + refusal.what());
  } catch (const c10::Error& error) {
    // what() would print a backtrace.
    throw std::runtime_error(who_ + ": " + error.what_without_backtrace());
  }
}

std::optional<ScratchBeyondPlan> NamedKernel::execute_metered(ScratchMeter& meter) {
  meter.begin();
  is_measured_ = true;
  execute_named();
  is_measured_ = false;
  const int64_t taken = meter.peak() - meter.in_use();
  if (taken <= scratch_bound_) return std::nullopt;
  return ScratchBeyondPlan{who_, taken, scratch_bound_};
}

at::Tensor scratch(at::IntArrayRef shape, at::ScalarType dtype, const at::Tensor& like) {
  return at::empty(shape, at::TensorOptions().dtype(dtype).device(like.device()));
}
at::Tensor dense(const at::Tensor& t) {
  if (!t.defined() || t.is_contiguous()) return t;
  at::Tensor copy = scratch_like(t);
  copy.copy_(t);
  return copy;
}
at::Tensor dense_computed(const at::Tensor& t) {
  if (!t.defined() || computed_type(t) == t.scalar_type()) return dense(t);
  at::Tensor copy = scratch(t.sizes(), computed_type(t), t);
  copy.copy_(t);
  return copy;
}
void store(const at::Tensor& out, const at::Tensor& result, bool accumulate) {
  if (accumulate) out.add_(result);
  else out.copy_(result);
}

at::Tensor merged_axes(const at::Tensor& t, int64_t first, int64_t last) {
  std::vector<int64_t> shape(t.sizes().begin(), t.sizes().begin() + first);
  int64_t extent = 1;
  for (int64_t axis = first; axis < last; ++axis) extent *= t.size(axis);
  shape.push_back(extent);
  shape.insert(shape.end(), t.sizes().begin() + last, t.sizes().end());
  const auto strides = at::detail::computeStride(t.sizes(), t.strides(), shape);
  if (!strides) return {};
  return t.as_strided(shape, *strides);
}

}  // namespace piper::kernels
