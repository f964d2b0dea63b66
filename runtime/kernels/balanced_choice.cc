#include "runtime/kernels/balanced_choice.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "runtime/kernels/call_reader.h"
#include "schemas/plan/signature.h"

namespace piper::kernels {
namespace {

// One output: element i of its row-major order along `axis` last is the i-th choice among `places`; zero with one
// place.
struct Choice {
  hal::Address data;
  DType dtype = DType::kI64;
  std::vector<int64_t> shape, strides;  // the axis of the choice is last
  int64_t count = 1, places = 1;

  int64_t chosen(int64_t i) const { return count < places ? i * places / count : i % places; }
  void write() const {
    const auto bytes = static_cast<int64_t>(dtype_bytes(dtype));
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = 0, left = i;
      for (size_t axis = shape.size(); axis-- > 0; left /= shape[axis]) at += left % shape[axis] * strides[axis];
      const int64_t value = chosen(i);  // little-endian: the low bytes are the narrower number
      std::memcpy((data + at * bytes).in_device(), &value, static_cast<size_t>(bytes));
    }
  }
};

class BalancedChoice : public PreparedKernel {
 public:
  explicit BalancedChoice(std::vector<Choice> choices) : choices_(std::move(choices)) {}
  void run(hal::Queue&) override {
    for (const Choice& choice : choices_) choice.write();
  }

 private:
  std::vector<Choice> choices_;
};

Choice zeros(const BoundOperand& output) {
  Choice choice{output.data, output.operand->dtype, output.operand->shape, output.operand->strides};
  for (const int64_t extent : choice.shape) choice.count *= extent;
  return choice;
}

void choose_along(Choice& choice, int64_t axis, int64_t places) {
  choice.places = places;
  for (std::vector<int64_t>* const of_axes : {&choice.shape, &choice.strides})
    std::rotate(of_axes->begin() + axis, of_axes->begin() + axis + 1, of_axes->end());
}

}  // namespace

std::unique_ptr<PreparedKernel> balanced_choice(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                                                const std::vector<BoundOperand>& inputs) {
  const plan::KernelInfo* const info = plan::find_kernel(call.kernel);
  if (info == nullptr) return nullptr;
  const plan::Signature& signature = plan::signature_of(*info);
  std::vector<Choice> choices;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!is_present(outputs[k]) || is_floating(outputs[k].operand->dtype) || signature.outputs.at(k).in_place) continue;
    choices.push_back(zeros(outputs[k]));
    if (call.kernel != "topk" && call.kernel != "max_dim") continue;
    const CallReader reader(call, *info, outputs, inputs, {});
    const auto& shape = inputs[0].operand->shape;
    const auto axes = static_cast<int64_t>(shape.size());
    const int64_t dim = reader.attr_int("dim"), axis = dim < 0 ? dim + axes : dim;
    if (axis < 0 || axis >= axes) refuse("axis ", dim, " of ", axes);
    choose_along(choices.back(), axis, shape[static_cast<size_t>(axis)]);
  }
  if (choices.empty()) return nullptr;
  return std::make_unique<BalancedChoice>(std::move(choices));
}

}  // namespace piper::kernels
