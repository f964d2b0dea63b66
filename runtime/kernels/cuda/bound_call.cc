#include "runtime/kernels/cuda/bound_call.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace piper::kernels::cuda {
namespace {

View view_of(const BoundOperand& bound) {
  if (!is_present(bound)) return {};
  const plan::Operand& operand = *bound.operand;
  return {bound.data.in_device(), operand.dtype, operand.shape, operand.strides, true};
}

}  // namespace

std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (size_t axis = 0; axis < shape.size(); ++axis) text += (axis > 0 ? ", " : "") + std::to_string(shape[axis]);
  return text + "]";
}

int64_t View::elements() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

bool View::contiguous() const {
  int64_t dense = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != dense) return elements() == 0;
    dense *= shape[axis];
  }
  return true;
}

View View::expanded(const Shape& to) const {
  const size_t added = to.size() - shape.size();
  if (to.size() < shape.size()) refuse("an operand of ", text_of(shape), " where one of ", text_of(to), " is expected");
  View view = *this;
  view.shape = to;
  view.strides.assign(to.size(), 0);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == to[axis + added]) view.strides[axis + added] = strides[axis];
    else if (shape[axis] != 1) refuse("an operand of ", text_of(shape), " does not broadcast to ", text_of(to));
  }
  return view;
}

Layout View::layout(int64_t first, int64_t last) const {
  Layout layout;
  std::vector<std::pair<int64_t, int64_t>> axes;  // extents and strides
  for (int64_t axis = first; axis < last; ++axis) {
    if (extent(axis) == 1) continue;
    if (!axes.empty() && axes.back().second == stride(axis) * extent(axis))
      axes.back() = {axes.back().first * extent(axis), stride(axis)};
    else axes.emplace_back(extent(axis), stride(axis));
  }
  if (axes.empty()) return layout;
  if (axes.size() > kMaxAxes)
    refuse("an operand of ", text_of(shape), " has more than ", kMaxAxes, " axes that do not merge");
  layout.axes = static_cast<int32_t>(axes.size());
  int64_t count = 1;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    std::tie(layout.extent[axis], layout.stride[axis]) = axes[axis];
    count *= axes[axis].first;
  }
  layout.wide = count > 0xffffffff;
  return layout;
}

BoundCall::BoundCall(const plan::KernelCall& call, const plan::KernelInfo& info,
                     const std::vector<BoundOperand>& outputs, const std::vector<BoundOperand>& inputs,
                     const TrainingNumbers& numbers, KernelMemory& memory)
    : CallReader(call, info, outputs, inputs, numbers), memory_(memory) {
  for (const BoundOperand& bound : outputs) out_.push_back(view_of(bound));
  for (const BoundOperand& bound : inputs) in_.push_back(view_of(bound));
}

bool OwnKernel::wrote(const std::byte* record) const {
  Fault fault;
  std::memcpy(&fault, record, sizeof fault);
  return fault.call > first_ && fault.call <= last_;
}

void want_shape(const View& view, const Shape& shape, const char* what) {
  if (!view.defined) refuse(what, " is absent");
  if (view.shape != shape) refuse(what, " has shape ", text_of(view.shape), " where ", text_of(shape), " is expected");
}
void want_dtype(const View& view, DType dtype, const char* what) {
  if (!view.defined) refuse(what, " is absent");
  if (view.dtype != dtype)
    refuse(what, " has element type ", dtype_name(view.dtype), " where ", dtype_name(dtype), " is expected");
}
void want_same_dtype(const View& a, const View& b) {
  if (a.dtype != b.dtype) refuse("operands have element types ", dtype_name(a.dtype), " and ", dtype_name(b.dtype));
}
void want_floating(const View& view) {
  if (!is_floating(view.dtype)) refuse("element type ", dtype_name(view.dtype), " is not supported");
}
void want_gradient(const View& view) {
  if (!is_floating(view.dtype) || view.dtype == DType::kF64)
    refuse("an operand has element type ", dtype_name(view.dtype), " where f32, bf16 or f16 is expected");
}
void want_count(const View& view, int64_t count, const char* what) {
  if (view.elements() != count) refuse(what, " has ", view.elements(), " elements where ", count, " are expected");
}
int64_t want_axis(const View& view, int64_t axis) {
  if (axis < 0 || axis >= std::max<int64_t>(view.rank(), 1))
    refuse("axis ", axis, " of a tensor of rank ", view.rank());
  return axis;
}
void* want_scalar(const View& view, const char* what) {
  if (!view.defined || view.elements() != 1 || !is_floating(view.dtype)) refuse(what, " is not a floating scalar");
  return view.data;
}

}  // namespace piper::kernels::cuda
