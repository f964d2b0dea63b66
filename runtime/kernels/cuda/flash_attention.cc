#include "runtime/kernels/cuda/flash_attention.h"

#include <ATen/Context.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>

#include <mutex>
#include <tuple>

#include "runtime/kernels/binding.h"

namespace piper::kernels::cuda {
namespace {

constexpr const char* kForward = "scaled_dot_product_attention";
constexpr const char* kBackward = "scaled_dot_product_attention_backward";

// Rows of heads that the kernels read in packs of 16 bytes.
bool packed(const BoundOperand& bound) {
  constexpr int64_t kPackBytes = 16, kElements = kPackBytes / 2;
  if (!is_present(bound)) return true;
  const plan::Operand& operand = *bound.operand;
  if (operand.shape.size() != 4 || operand.strides.size() != 4 || operand.strides[3] != 1) return false;
  for (size_t axis = 0; axis < 3; ++axis)
    if (operand.shape[axis] != 1 && operand.strides[axis] % kElements != 0) return false;
  return reinterpret_cast<uintptr_t>(bound.data.in_device()) % kPackBytes == 0;
}

// The backward adds up in any order unless LibTorch is asked for one that stays; the request is the whole process's.
class SameBitsEveryRun {
 public:
  SameBitsEveryRun() : lock_(mutex()) { at::globalContext().setDeterministicAlgorithms(true, true); }
  ~SameBitsEveryRun() { at::globalContext().setDeterministicAlgorithms(false, false); }
  SameBitsEveryRun(const SameBitsEveryRun&) = delete;
  SameBitsEveryRun& operator=(const SameBitsEveryRun&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }
  std::lock_guard<std::mutex> lock_;
};

void want_like(const at::Tensor& tensor, const at::Tensor& like, const char* what) {
  if (!tensor.defined()) return;
  want_shape(tensor, like.sizes(), what);
  want_same_dtype(tensor, like);
}
// Heads of keys may be shared; else all but the rows are one.
void check_operands(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (k.size(1) < 1 || q.size(1) % k.size(1) != 0) refuse(q.size(1), " heads over ", k.size(1), " key heads");
  want_shape(k, {q.size(0), k.size(1), k.size(2), q.size(3)}, "k");
  want_like(v, k, "v");
  want_same_dtype(q, k);
}

std::unique_ptr<PreparedKernel> bind_forward(const Call& call) {
  const at::Tensor q = call.in(0), k = call.in(1), v = call.in(2), y = call.out(0), lse = call.out(1);
  check_operands(q, k, v);
  want_like(y, q, "the output");
  if (lse.defined()) {
    want_dtype(lse, at::kFloat, "output 1");
    want_shape(lse, {q.size(0), q.size(1), q.size(2)}, "output 1");
  }
  return make_kernel(call, [y, lse, q, k, v, causal = call.attr_bool("is_causal"), scale = call.attr_double("scale")] {
    const auto result = at::_scaled_dot_product_flash_attention(q, k, v, 0.0, causal, false, scale);
    y.copy_(std::get<0>(result));
    if (lse.defined()) lse.copy_(std::get<1>(result));
  });
}

std::unique_ptr<PreparedKernel> bind_backward(const Call& call) {
  const at::Tensor g = call.in(0), q = call.in(1), k = call.in(2), v = call.in(3), y = call.in(4), lse = call.in(5),
                   dq = call.out(0), dk = call.out(1), dv = call.out(2);
  check_operands(q, k, v);
  want_like(g, q, "the gradient");
  want_like(y, q, "the forward's output");
  want_dtype(lse, at::kFloat, "the row statistics");
  want_shape(lse, {q.size(0), q.size(1), q.size(2)}, "the row statistics");
  want_like(dq, q, "output 0");
  want_like(dk, k, "output 1");
  want_like(dv, v, "output 2");
  return make_kernel(call, [=, causal = call.attr_bool("is_causal"), scale = call.attr_double("scale")] {
    // Places of the generator, which nothing reads without dropout.
    const at::Tensor none = scratch({2}, at::kLong, q);
    const SameBitsEveryRun same_bits;
    const auto [new_q, new_k, new_v] = at::_scaled_dot_product_flash_attention_backward(
        g, q, k, v, y, dense(lse), {}, {}, q.size(2), k.size(2), 0.0, causal, none, none, scale);
    if (dq.defined()) dq.copy_(new_q);
    if (dk.defined()) dk.copy_(new_k);
    if (dv.defined()) dv.copy_(new_v);
  });
}

}  // namespace

bool serves_flash_attention(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                            const std::vector<BoundOperand>& inputs) {
  const bool backward = call.kernel == kBackward;
  if (!backward && call.kernel != kForward) return false;
  const size_t first = backward ? 1 : 0, mask = backward ? 6 : 3, mandatory = mask;
  if (inputs.size() < mandatory || (inputs.size() > mask && is_present(inputs[mask]))) return false;
  // q, k, v, and of the backward the gradient before and the output behind them.
  for (size_t i = 0; i < (backward ? 5u : 3u); ++i)
    if (!is_present(inputs[i]) || !is_half(inputs[i].operand->dtype) || !packed(inputs[i])) return false;
  for (size_t i = 0; i < outputs.size() && (backward || i == 0); ++i)
    if (!packed(outputs[i])) return false;
  const plan::Operand &q = *inputs[first].operand, &k = *inputs[first + 1].operand;
  constexpr int64_t kMostHeadDim = 128, kHeadDimStep = 8;
  if (q.shape[3] > kMostHeadDim || q.shape[3] % kHeadDimStep != 0 || q.shape[2] < 1 || k.shape[2] < 1) return false;
  // Of several alignments of a causal mask these kernels have another one than plans.
  for (const plan::Attr& attr : call.attrs)
    if (attr.name == "is_causal") return attr.value == plan::AttrValue(false) || q.shape[2] == k.shape[2];
  return false;
}

Result<std::unique_ptr<PreparedKernel>> bind_flash_attention(const plan::KernelCall& call,
                                                             const std::vector<BoundOperand>& outputs,
                                                             const std::vector<BoundOperand>& inputs,
                                                             const OperatorDevice& device) {
  const KernelRow row = {plan::find_kernel(call.kernel), call.kernel == kBackward ? &bind_backward : &bind_forward};
  return bind_row(row, call, outputs, inputs, {}, device);
}

}  // namespace piper::kernels::cuda
