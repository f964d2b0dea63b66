// One KernelCall as any device's kernels read it: that its operands fit kernels.def, its attributes, the numbers of
// training that it takes, and what is said of a call that does not fit. Knows neither LibTorch nor CUDA; what an
// operand is to a kernel is said by the classes made of this (binding.h, cuda/bound_call.h).
#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/kernels/kernel.h"
#include "schemas/plan/kernels.h"

namespace piper::kernels {

// A call that does not fit its kernel; a library's bind() turns it into misfit().
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Refusal(text.str());
}

Status unknown_kernel(const std::string& name);                       // R0401
Status misfit(const plan::KernelCall& call, const std::string& why);  // R0402

inline bool is_present(const BoundOperand& bound) {
  return bound.operand != nullptr && bound.operand->slot != plan::Operand::kAbsent;
}

class CallReader {
 public:
  // Refuses operands that do not fit the kernel's signature, one whose strides or place no tensor has, a broadcast
  // output, and a sum of what cannot be summed. `outputs` and `inputs` are those of `call`, which outlives this.
  CallReader(const plan::KernelCall& call, const plan::KernelInfo& info, const std::vector<BoundOperand>& outputs,
             const std::vector<BoundOperand>& inputs, const TrainingNumbers& numbers);

  const TrainingNumbers& update_numbers() const;  // refuses a call outside of an update
  double clip_grad_norm() const;                  // refuses a call where nothing is clipped
  bool accumulate() const { return call_.accumulate; }
  std::string name() const { return call_.kernel.text(); }
  // The kernel and what of the model it computes, for messages.
  std::string who() const { return call_.origin.empty() ? name() : name() + " of " + call_.origin; }

  // Attributes by name; a missing one or one of another type is refused.
  int64_t attr_int(const char* name) const;
  double attr_double(const char* name) const;
  bool attr_bool(const char* name) const;
  std::string attr_string(const char* name) const;
  std::string attr_string_or_empty(const char* name) const;  // of one that may be absent
  std::vector<int64_t> attr_ints(const char* name) const;

 private:
  const plan::AttrValue& attr(const char* name) const;

  const plan::KernelCall& call_;
  TrainingNumbers numbers_;
};

}  // namespace piper::kernels
