// Forms of the own kernels of this folder for the vectors that a CPU has (schemas/base/clones.h), and such forms of
// templates over the width of a vector. PIPER_INLINE: bodies that several such functions share.
#pragma once

#include "schemas/base/clones.h"

#define PIPER_INLINE inline __attribute__((always_inline))

// Defines a function as that form of a template over kBytes, the bytes of a vector, for which this CPU has vectors:
//   PIPER_BY_WIDTH(float, row_sum, (const float* x, int64_t count), (x, count), row_sum_body<kBytes>)
#define PIPER_OF_WIDTH(result, name, parameters, arguments, bytes, ...) \
  result name##_##bytes parameters {                                    \
    constexpr int kBytes = bytes;                                       \
    return __VA_ARGS__ arguments;                                       \
  }
#if defined(__x86_64__)
#define PIPER_BY_WIDTH(result, name, parameters, arguments, ...)                                           \
  __attribute__((target("avx512f"))) PIPER_OF_WIDTH(result, name, parameters, arguments, 64, __VA_ARGS__)  \
      __attribute__((target("avx2"))) PIPER_OF_WIDTH(result, name, parameters, arguments, 32, __VA_ARGS__) \
          PIPER_OF_WIDTH(result, name, parameters, arguments, 16, __VA_ARGS__) const auto name =           \
              ::piper::kernels::vector_bytes() == 64   ? &name##_64                                        \
              : ::piper::kernels::vector_bytes() == 32 ? &name##_32                                        \
                                                       : &name##_16;
#else
#define PIPER_BY_WIDTH(result, name, parameters, arguments, ...)       \
  PIPER_OF_WIDTH(result, name, parameters, arguments, 16, __VA_ARGS__) \
  const auto name = &name##_16;
#endif

namespace piper::kernels {

// The widest vectors of this CPU: 64 (AVX-512), 32 (AVX2) or 16.
inline int vector_bytes() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") ? 64 : __builtin_cpu_supports("avx2") ? 32 : 16;
#else
  return 16;
#endif
}

}  // namespace piper::kernels
