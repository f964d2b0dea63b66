// The kernel set of plans as a table: what kernels.def says. Used by the plan emitter (fusing accumulation, sharing
// storage), by the verifier and by runtime/kernels, which checks every call against it. It knows no implementation of a
// kernel; what memory calls take while they run is in kernel_scratch.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "schemas/plan/called_kernel.h"
#include "schemas/plan/plan.h"

namespace piper::plan {

// Formulas for the most bytes a call may take from the scratch arena at one time (kernel_scratch.h).
enum class Scratch : uint8_t {
  kNone,         // nothing worth planning: at most kScratchSlack
  kOperands,     // dense copies: 2 x (all outputs + all inputs)
  kProduct,      // the same, of matrices alone that a product cannot take as they lie; in 16 bits padded
  kTable,        // the same, without the table of rows where it is dense
  kConvolution,  // layout changes of the convolution library, which pads channels to 16, and its workspace
  kBlocks,       // the most of the calls that it stands for (head_blocks.h)
  kAttention,    // copies of operands whose heads are not dense, and the tiles of the flash kernels
  kFactor,       // copies of matrices, and what the library works on beside them
  kUpdate,       // of an update of a whole matrix: what Newton-Schulz works on
};
inline constexpr int kMany = 1 << 20;

// For one side of a signature: how many operands it names, or of those the ones that may not be absent.
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
// [Kernel]
#define PIPER_KERNEL(enumerator, name, signature, can_accumulate, in_place, scratch) \
  {name, signature, can_accumulate, in_place, Scratch::scratch},
#include "schemas/plan/kernels.def"
#undef PIPER_KERNEL
};
inline constexpr int kNumKernels = static_cast<int>(sizeof(kKernels) / sizeof(kKernels[0]));

// nullptr: no kernel of that name.
inline const KernelInfo* find_kernel(const CalledKernel& called) {
  return called.is_known() ? &kKernels[static_cast<size_t>(called.id())] : nullptr;
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

}  // namespace piper::plan
