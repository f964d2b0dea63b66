#include "runtime/kernels/cuda/bound_call.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

namespace piper::kernels::cuda {
namespace {

View view_of(const BoundOperand& bound, const char* kind, size_t index) {
  View view;
  if (bound.operand == nullptr || bound.operand->slot == plan::Operand::kAbsent) return view;
  const plan::Operand& operand = *bound.operand;
  if (operand.strides.size() != operand.shape.size()) refuse(kind, ' ', index, " has strides of another rank");
  for (size_t axis = 0; axis < operand.shape.size(); ++axis)
    if (operand.shape[axis] < 0 || operand.strides[axis] < 0)
      refuse(kind, ' ', index, " has a negative extent or stride");
  view = {bound.data.in_device(), operand.dtype, operand.shape, operand.strides, true};
  if (bound.data.nowhere() && view.elements() != 0) refuse(kind, ' ', index, " has no memory");
  if (reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(dtype_bytes(operand.dtype)) != 0)
    refuse(kind, ' ', index, " is not aligned to its element type");
  return view;
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
  for (size_t axis = 0; axis < axes.size(); ++axis) std::tie(layout.extent[axis], layout.stride[axis]) = axes[axis];
  return layout;
}

BoundCall::BoundCall(const plan::KernelCall& call, const plan::KernelInfo& info,
                     const std::vector<BoundOperand>& outputs, const std::vector<BoundOperand>& inputs,
                     const TrainingNumbers& numbers, KernelMemory& memory)
    : call_(call), numbers_(numbers), memory_(memory) {
  const int num_inputs = static_cast<int>(inputs.size());
  if (num_inputs < info.min_inputs || num_inputs > info.max_inputs)
    refuse(num_inputs, " inputs where ", info.min_inputs, " to ", info.max_inputs, " are expected");
  if (outputs.empty() || static_cast<int>(outputs.size()) > info.outputs)
    refuse(outputs.size(), " outputs where ", info.outputs, " are expected");
  if (call.accumulate && !info.can_accumulate) refuse("it cannot accumulate");
  bool any_output = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const View& view = out_.emplace_back(view_of(outputs[i], "output", i));
    any_output |= view.defined;
    for (size_t axis = 0; axis < view.shape.size(); ++axis)
      if (view.shape[axis] > 1 && view.strides[axis] == 0) refuse("output ", i, " has a broadcast axis");
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!in_.emplace_back(view_of(inputs[i], "input", i)).defined && static_cast<int>(i) < info.min_inputs)
      refuse("input ", i, " is absent");
  if (!any_output) refuse("it has no output");
}

const TrainingNumbers& BoundCall::update_numbers() const {
  if (numbers_.optimizer == nullptr) refuse("it stands outside of an update");
  return numbers_;
}
double BoundCall::clip_grad_norm() const {
  if (!(numbers_.clip_grad_norm > 0)) refuse("the manifest has no limit for the norm of gradients");
  return numbers_.clip_grad_norm;
}
FaultPlace BoundCall::fault() const {
  return memory_.enlist(call_.origin.empty() ? call_.kernel : call_.kernel + " of " + call_.origin);
}

const plan::AttrValue& BoundCall::attr(const char* name) const {
  for (const plan::Attr& attr : call_.attrs)
    if (attr.name == name) return attr.value;
  refuse("attribute `", name, "` is missing");
}
int64_t BoundCall::attr_int(const char* name) const {
  if (const auto* value = std::get_if<int64_t>(&attr(name))) return *value;
  refuse("attribute `", name, "` is not an integer");
}
double BoundCall::attr_double(const char* name) const {
  const plan::AttrValue& value = attr(name);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  // A reader of JSON cannot tell 1 from 1.0, and JSON has no infinities.
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (*text == "inf") return std::numeric_limits<double>::infinity();
    if (*text == "-inf") return -std::numeric_limits<double>::infinity();
    if (*text == "nan") return std::numeric_limits<double>::quiet_NaN();
  }
  refuse("attribute `", name, "` is not a number");
}
bool BoundCall::attr_bool(const char* name) const {
  if (const auto* value = std::get_if<bool>(&attr(name))) return *value;
  refuse("attribute `", name, "` is not true or false");
}
std::string BoundCall::attr_string(const char* name) const {
  if (const auto* value = std::get_if<std::string>(&attr(name))) return *value;
  refuse("attribute `", name, "` is not a string");
}
Shape BoundCall::attr_ints(const char* name) const {
  if (const auto* value = std::get_if<Shape>(&attr(name))) return *value;
  refuse("attribute `", name, "` is not a list of integers");
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
