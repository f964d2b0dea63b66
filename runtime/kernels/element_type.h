// Element types of views as plans call them, for kernels that take several. Private to runtime/kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/kernels/binding.h"
#include "schemas/plan/convert_elements.h"

namespace piper::kernels {

// Refuses what is neither f32 nor half of it.
inline DType element_type(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat) return DType::kF32;
  if (tensor.scalar_type() == at::kBFloat16) return DType::kBF16;
  if (tensor.scalar_type() == at::kHalf) return DType::kF16;
  refuse("an operand has element type ", toString(tensor.scalar_type()), " where f32, bf16 or f16 is expected");
}
// Calls body(index of the first, values in f32, how many) block by block while a block is in a cache; for f32 with all
// of the dense elements at once.
template <class F>
void for_each_f32_block(const at::Tensor& elements, F&& body) {
  constexpr int64_t kBlock = 1024;
  const int64_t count = elements.numel();
  const DType type = element_type(elements);
  if (type == DType::kF32) return body(int64_t{0}, elements.const_data_ptr<float>(), count);
  const auto* data = static_cast<const std::byte*>(elements.const_data_ptr());
  float block[kBlock];
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t part = std::min(kBlock, count - i);
    convert_elements(type, data + i * dtype_bytes(type), DType::kF32, block, part);
    body(i, static_cast<const float*>(block), part);
  }
}

inline void want_gradients(const at::Tensor& tensor) { (void)element_type(tensor); }

}  // namespace piper::kernels
