// What the .cu files of this folder are written with: CUDA's headers (or those of tests/shim, which compile the same
// files for the CPU), launches, and element types as C++ types. For .cu files alone; what they offer is declared in
// headers that plain C++ reads.
//
// Rules of the kernels: elements are computed in f32, or f64 where they are f64, and rounded once; no floating-point
// atomics, and no result depends on how many blocks there are, so that a plan gives the same bits in every run. They
// are compiled without contraction of a * b + c, as the CPU's are.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "schemas/base/check.h"
#include "schemas/plan/dtype.h"

#ifdef __CUDACC__
// Runs `kernel` on `stream`, after what was enqueued there. `shared`: bytes of dynamic shared memory.
#define PIPER_LAUNCH(kernel, grid, block, shared, stream, ...) \
  do {                                                         \
    kernel<<<grid, block, shared, stream>>>(__VA_ARGS__);      \
    ::piper::kernels::cuda::check_launch(#kernel);             \
  } while (false)
// The dynamic shared memory as an array.
#define PIPER_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

namespace piper::kernels::cuda {

inline void check_launch(const char* kernel) {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    throw std::runtime_error(std::string("launch of ") + kernel + ": " + cudaGetErrorString(error));
}

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

// The type that elements of T are computed in.
template <class T>
struct ComputedAs {
  using type = float;
};
template <>
struct ComputedAs<double> {
  using type = double;
};
template <class T>
using Computed = typename ComputedAs<std::remove_const_t<T>>::type;

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

// To the nearest, ties to even.
template <class T>
__device__ inline T rounded(Computed<T> x) {
  return x;
}
template <>
__device__ inline __half rounded<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 rounded<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// Neighbours that are read and written at once.
constexpr int kPack = 4;
template <class T>
struct alignas(kPack * sizeof(T)) Pack {
  T values[kPack];
};
template <class T>
bool holds_packs(const T* data) {
  return reinterpret_cast<uintptr_t>(data) % alignof(Pack<T>) == 0;
}

// Calls body(tag) with the C++ type of elements as typename decltype(tag)::type.
template <class T>
struct Type {
  using type = T;
};
template <class F>
void by_gradient_type(DType dtype, F&& body) {
  switch (dtype) {
    case DType::kF32: return body(Type<float>());
    case DType::kBF16: return body(Type<__nv_bfloat16>());
    case DType::kF16: return body(Type<__half>());
    default: PIPER_CHECK(false, "elements of ", dtype_name(dtype));
  }
}
template <class F>
void by_floating_type(DType dtype, F&& body) {
  if (dtype == DType::kF64) return body(Type<double>());
  by_gradient_type(dtype, body);
}
template <class F>
void by_type(DType dtype, F&& body) {
  switch (dtype) {
    case DType::kI64: return body(Type<int64_t>());
    case DType::kI32: return body(Type<int32_t>());
    case DType::kBool: return body(Type<bool>());
    default: by_floating_type(dtype, body);
  }
}

// A scalar of any floating-point type.
__device__ inline double read_scalar(const void* place, DType dtype) {
  switch (dtype) {
    case DType::kF64: return *static_cast<const double*>(place);
    case DType::kBF16: return widen(*static_cast<const __nv_bfloat16*>(place));
    case DType::kF16: return widen(*static_cast<const __half*>(place));
    default: return *static_cast<const float*>(place);
  }
}
__device__ inline void write_scalar(void* place, DType dtype, double value) {
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::kF64: *static_cast<double*>(place) = value; return;
    case DType::kBF16: *static_cast<__nv_bfloat16*>(place) = rounded<__nv_bfloat16>(narrow); return;
    case DType::kF16: *static_cast<__half*>(place) = rounded<__half>(narrow); return;
    default: *static_cast<float*>(place) = narrow; return;
  }
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline unsigned grid_of(int64_t blocks) { return static_cast<unsigned>(blocks); }

}  // namespace piper::kernels::cuda
