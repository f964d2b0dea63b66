// Which of several kernels serves a call of attention on a GPU: a table of what each takes, in the order in which they
// are tried. Needs neither LibTorch nor CUDA.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/kernels/kernel.h"

namespace piper::kernels::cuda {

enum class AttentionRow : uint8_t {
  kCudnn,      // cuDNN's, of LibTorch; only where it is asked for: its backward adds up in any order
  kFlash,      // FlashAttention of LibTorch
  kEfficient,  // memory-efficient attention of LibTorch: also f32, masks, any head
  kOwn,        // attention.h: any call, slowly
};
std::string_view name_of(AttentionRow row);  // "cudnn", "flash", "efficient", "own"

// For the GPU, and which row is tried first.
struct AttentionTraits {
  int major = 0, minor = 0;  // compute capability
  AttentionRow first = AttentionRow::kFlash;
};
// PIPER_GPU_ATTENTION: a name of a row, to compare them; kFlash where it is not set. R0106: no row has that name.
Result<AttentionRow> first_attention_row();

// `call` is one of attention or of its backward, with its operands' types, shapes and strides.
AttentionRow attention_row(const plan::KernelCall& call, const std::vector<BoundOperand>& inputs,
                           const AttentionTraits& traits);
bool is_attention(const plan::KernelCall& call);
bool is_attention_backward(const plan::KernelCall& call);

}  // namespace piper::kernels::cuda
