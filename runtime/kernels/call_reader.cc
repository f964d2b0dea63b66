#include "runtime/kernels/call_reader.h"

#include <algorithm>
#include <limits>

#include "schemas/plan/signature.h"

namespace piper::kernels {
namespace {

void check_operand(const BoundOperand& bound, const char* kind, size_t index) {
  if (!is_present(bound)) return;
  const plan::Operand& operand = *bound.operand;
  if (operand.strides.size() != operand.shape.size()) refuse(kind, ' ', index, " has strides of another rank");
  int64_t elements = 1;
  for (size_t axis = 0; axis < operand.shape.size(); ++axis) {
    if (operand.shape[axis] < 0 || operand.strides[axis] < 0)
      refuse(kind, ' ', index, " has a negative extent or stride");
    elements *= operand.shape[axis];
  }
  if (bound.data.nowhere() && elements != 0) refuse(kind, ' ', index, " has no memory");
  if (reinterpret_cast<uintptr_t>(bound.data.in_device()) % static_cast<uintptr_t>(dtype_bytes(operand.dtype)) != 0)
    refuse(kind, ' ', index, " is not aligned to its element type");
}

}  // namespace

Status unknown_kernel(const std::string& name) { return Status::failure("R0401", "no kernel is named `" + name + "`"); }
Status misfit(const plan::KernelCall& call, const std::string& why) {
  const std::string where = call.origin.empty() ? std::string() : " (" + call.origin + ")";
  return Status::failure("R0402", "kernel `" + call.kernel.text() + "`" + where + ": " + why);
}

CallReader::CallReader(const plan::KernelCall& call, const plan::KernelInfo& info,
                       const std::vector<BoundOperand>& outputs, const std::vector<BoundOperand>& inputs,
                       const TrainingNumbers& numbers)
    : call_(call), numbers_(numbers) {
  if (const std::string wrong = plan::misfit(info, call); !wrong.empty()) refuse(wrong);
  for (size_t i = 0; i < outputs.size(); ++i) {
    check_operand(outputs[i], "output", i);
    if (!is_present(outputs[i])) continue;
    const plan::Operand& operand = *outputs[i].operand;
    if (std::count(operand.shape.begin(), operand.shape.end(), 0) > 0) continue;  // strides of no elements may be 0
    for (size_t axis = 0; axis < operand.shape.size(); ++axis)
      if (operand.shape[axis] > 1 && operand.strides[axis] == 0) refuse("output ", i, " has a broadcast axis");
  }
  for (size_t i = 0; i < inputs.size(); ++i) check_operand(inputs[i], "input", i);
}

const TrainingNumbers& CallReader::update_numbers() const {
  if (!numbers_.optimizer) refuse("it is outside of an update");
  return numbers_;
}
double CallReader::clip_grad_norm() const {
  if (!(numbers_.clip_grad_norm > 0)) refuse("the manifest has no limit for the norm of gradients");
  return numbers_.clip_grad_norm;
}

const plan::AttrValue& CallReader::attr(const char* name) const {
  for (const plan::Attr& attr : call_.attrs)
    if (attr.name == name) return attr.value;
  refuse("attribute `", name, "` is missing");
}
int64_t CallReader::attr_int(const char* name) const {
  if (const auto* value = std::get_if<int64_t>(&attr(name))) return *value;
  refuse("attribute `", name, "` is not an integer");
}
double CallReader::attr_double(const char* name) const {
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
bool CallReader::attr_bool(const char* name) const {
  if (const auto* value = std::get_if<bool>(&attr(name))) return *value;
  refuse("attribute `", name, "` is not true or false");
}
std::string CallReader::attr_string(const char* name) const {
  if (const auto* value = std::get_if<std::string>(&attr(name))) return *value;
  refuse("attribute `", name, "` is not a string");
}
std::string CallReader::attr_string_or_empty(const char* name) const {
  const bool is_there =
      std::any_of(call_.attrs.begin(), call_.attrs.end(), [&](const auto& attr) { return attr.name == name; });
  return is_there ? attr_string(name) : std::string();
}
std::vector<int64_t> CallReader::attr_ints(const char* name) const {
  if (const auto* value = std::get_if<std::vector<int64_t>>(&attr(name))) return *value;
  refuse("attribute `", name, "` is not a list of integers");
}

}  // namespace piper::kernels
