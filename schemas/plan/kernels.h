// The kernel set of plans as a table: what kernels.def says, and the scratch bounds it names. Used by the
// plan emitter (fusing accumulation, sharing storage, predicting memory), by the verifier and by
// runtime/kernels, which checks every call against it. It knows no implementation of a kernel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "schemas/plan/plan.h"

namespace piper::plan {

// Formulas for the most bytes a call may take from the scratch arena at one time, for one intra-op thread.
enum class Scratch : uint8_t {
  kNone,         // nothing worth planning: at most kScratchSlack
  kOperands,     // dense copies: 2 x (all outputs + all inputs)
  kConvolution,  // layout changes of the convolution library, which pads channels to 16, and its workspace
  kAttention,    // dense copies, and the tiles of the flash kernels
};
inline constexpr int64_t kScratchSlack = 64 * 1024;
inline constexpr int kMany = 1 << 20;

// Of one side of a signature: how many operands it names, or of those the ones that may not be absent.
constexpr int count_operands(std::string_view side, bool mandatory) {
  int count = 0;
  for (size_t colon = side.find(':'); colon != std::string_view::npos; colon = side.find(':', colon + 1)) {
    const std::string_view marks = side.substr(colon < 2 ? 0 : colon - 2, 2);  // of the name that ends there
    if (!mandatory || marks.find('?') == std::string_view::npos) ++count;
  }
  return count;
}

struct KernelInfo {
  constexpr KernelInfo(std::string_view name, std::string_view signature, bool can_accumulate, int in_place,
                       Scratch scratch)
      : name(name), signature(signature), can_accumulate(can_accumulate), in_place(in_place), scratch(scratch) {
    const size_t arrow = signature.find("->");
    const std::string_view taken = signature.substr(0, arrow), made = signature.substr(arrow);
    min_inputs = count_operands(taken, true);
    max_inputs = taken.find("...") == std::string_view::npos ? count_operands(taken, false) : kMany;
    outputs = count_operands(made, false);
    reads_outputs = made.find('&') != std::string_view::npos;
  }

  std::string_view name, signature;  // signature.h reads it
  int min_inputs = 0, max_inputs = 0, outputs = 1;
  bool can_accumulate = false;
  int in_place = -1;
  Scratch scratch = Scratch::kNone;
  bool reads_outputs = false;  // it works on some of them in place
};

inline constexpr KernelInfo kKernels[] = {
#define PIPER_KERNEL(name, signature, can_accumulate, in_place, scratch) \
  {name, signature, can_accumulate, in_place, Scratch::scratch},
#include "schemas/plan/kernels.def"
#undef PIPER_KERNEL
};
inline constexpr int kNumKernels = static_cast<int>(sizeof(kKernels) / sizeof(kKernels[0]));

// nullptr: no kernel of that name. Linear in the table; keep the answer.
inline const KernelInfo* find_kernel(std::string_view name) {
  for (const KernelInfo& info : kKernels)
    if (info.name == name) return &info;
  return nullptr;
}

// Elements of an operand; `stored`: broadcast axes count once.
inline int64_t elements(const Operand& operand, bool stored = false) {
  if (operand.slot == Operand::kAbsent) return 0;
  int64_t count = 1;
  for (size_t axis = 0; axis < operand.shape.size(); ++axis)
    if (!stored || operand.strides.size() <= axis || operand.strides[axis] != 0) count *= operand.shape[axis];
  return count;
}
// Bytes of an operand once made dense.
inline int64_t dense_bytes(const Operand& operand) { return elements(operand) * dtype_bytes(operand.dtype); }

// Bytes of a grouped convolution's weight [o, i / groups, kernel..] as oneDNN's direct kernels for channels-last
// activations lay it out: in f32, input and output channels of every group padded to 16 each. A depthwise weight grows
// 256-fold. 0: not a grouped convolution.
inline int64_t padded_weight_bytes(const KernelCall& call) {
  int64_t groups = 1;
  for (const Attr& attr : call.attrs)
    if (attr.name == "groups" && std::holds_alternative<int64_t>(attr.value)) groups = std::get<int64_t>(attr.value);
  const bool of_weight = call.kernel == "convolution_backward_weight";
  const std::vector<Operand>& operands = of_weight ? call.outputs : call.inputs;
  const size_t position = of_weight ? 0 : 1;
  if (groups <= 1 || operands.size() <= position || operands[position].shape.size() < 2) return 0;
  const auto padded = [](int64_t channels) { return (channels + 15) / 16 * 16; };
  const std::vector<int64_t>& shape = operands[position].shape;
  int64_t bytes = 4 * groups * padded(shape[0] / groups) * padded(shape[1]);
  for (size_t axis = 2; axis < shape.size(); ++axis) bytes *= shape[axis];
  return bytes;
}

// Upper bound of the scratch of one call, in bytes, with `threads` intra-op threads.
inline int64_t scratch_bytes(const KernelInfo& info, const KernelCall& call, int threads = 1) {
  int64_t operands = 0, largest = 0, head_dim = 0;
  // The mask of an attention is the one operand that is not made dense: it is converted where it is bool.
  const Operand* mask = nullptr;
  if (info.scratch == Scratch::kAttention && call.inputs.size() == static_cast<size_t>(info.max_inputs))
    mask = &call.inputs.back();
  for (const auto* list : {&call.outputs, &call.inputs})
    for (const Operand& operand : *list) {
      if (&operand == mask) {
        operands += elements(operand, true) * 4;
        continue;
      }
      operands += dense_bytes(operand);
      largest = std::max(largest, dense_bytes(operand));
      if (operand.slot != Operand::kAbsent && operand.shape.size() == 4)
        head_dim = std::max(head_dim, operand.shape[3]);
    }
  switch (info.scratch) {
    case Scratch::kNone: return kScratchSlack;
    case Scratch::kOperands: return 2 * operands + kScratchSlack;
    case Scratch::kConvolution: {
      const int64_t padded = padded_weight_bytes(call);
      // Of grouped convolutions in 16 bits the library makes copies in f32 of all operands, and three of the weight.
      const bool narrow = padded > 0 && !call.outputs.empty() && dtype_bytes(call.outputs[0].dtype) < 4;
      const int64_t widths = narrow ? 2 : 1, weights = narrow ? 3 : 1;
      return widths * 2 * operands + (widths * 16 * largest + weights * padded) * threads + kScratchSlack;
    }
    case Scratch::kAttention:
      // Per thread: two score tiles and the accumulators of at most 768 query by 512 key rows.
      return 3 * operands + threads * 4 * (2 * 768 * 512 + 4 * 768 * (head_dim + 4)) + kScratchSlack;
  }
  return 0;
}

}  // namespace piper::plan
