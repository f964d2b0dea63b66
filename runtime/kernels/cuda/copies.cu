// Copies, casts and sums of two operands, any element types and strides. A sum is taken in the wider of the two types,
// at least in f32, and rounded once, as LibTorch does.
#include "runtime/kernels/cuda/copies.h"

#include <type_traits>

#include "runtime/kernels/cuda/device_code.h"

namespace piper::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

template <class To, class From>
__device__ To converted(From from) {
  if constexpr (std::is_same_v<To, From>) return from;
  else if constexpr (kIsHalf<From>) return converted<To>(widen(from));
  else if constexpr (kIsHalf<To>) return rounded<To>(static_cast<float>(from));
  else if constexpr (std::is_same_v<To, bool>) return from != From(0);
  else return static_cast<To>(from);
}

template <class To, class From>
__device__ To sum_of(To to, From from) {
  if constexpr (kIsHalf<To> || kIsHalf<From> || !std::is_same_v<To, From>) {
    using Wide = std::conditional_t<std::is_same_v<To, double> || std::is_same_v<From, double>, double, float>;
    return converted<To>(converted<Wide>(to) + converted<Wide>(from));
  } else if constexpr (std::is_same_v<To, bool>) {
    return to || from;
  } else {
    return to + from;
  }
}

template <class To, class From>
__device__ void put(To& to, From from, CopyMode mode) {
  to = mode == CopyMode::kCopy ? converted<To>(from) : sum_of(to, from);
}

template <class To, class From>
__global__ void __launch_bounds__(kThreads)
    copy_kernel(StridedElements to, StridedElements from, int64_t count, CopyMode mode, bool packed) {
  To* target = static_cast<To*>(to.data);
  const From* source = static_cast<const From*>(from.data);
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (!packed) {
    if (thread < count) put(target[to.layout.at(thread)], source[from.layout.at(thread)], mode);
    return;
  }
  const int64_t first = thread * kPack;
  if (first + kPack <= count) {
    auto& target_pack = *reinterpret_cast<Pack<To>*>(target + first);
    const Pack<From> values = *reinterpret_cast<const Pack<From>*>(source + first);
    Pack<To> result = {};
    if (mode != CopyMode::kCopy) result = target_pack;
    for (int i = 0; i < kPack; ++i) put(result.values[i], values.values[i], mode);
    target_pack = result;
    return;
  }
  for (int64_t i = first; i < count; ++i) put(target[i], source[i], mode);
}

template <class T>
__global__ void __launch_bounds__(kThreads) fill_kernel(StridedElements to, int64_t count, T value) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) static_cast<T*>(to.data)[to.layout.at(i)] = value;
}

template <class T>
T host_value(double value) {
  if constexpr (std::is_same_v<T, __half>) return __float2half_rn(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, bool>) return value != 0;
  else return static_cast<T>(value);
}

}  // namespace

void launch_copy(const StridedElements& to, const StridedElements& from, int64_t count, CopyMode mode,
                 cudaStream_t stream) {
  if (count == 0) return;
  by_type(to.type, [&](auto to_type) {
    using To = typename decltype(to_type)::type;
    by_type(from.type, [&](auto from_type) {
      using From = typename decltype(from_type)::type;
      const bool packed = to.layout.dense() && from.layout.dense() && holds_packs(static_cast<To*>(to.data)) &&
                          holds_packs(static_cast<From*>(from.data));
      const int64_t blocks = ceil_div(count, kThreads * (packed ? kPack : 1));
      PIPER_LAUNCH((copy_kernel<To, From>), grid_of(blocks), kThreads, 0, stream, to, from, count, mode, packed);
    });
  });
}

void launch_fill(const StridedElements& to, int64_t count, double value, cudaStream_t stream) {
  if (count == 0) return;
  by_type(to.type, [&](auto type) {
    using T = typename decltype(type)::type;
    PIPER_LAUNCH((fill_kernel<T>), grid_of(ceil_div(count, kThreads)), kThreads, 0, stream, to, count,
                 host_value<T>(value));
  });
}

}  // namespace piper::kernels::cuda
