#include "runtime/kernels/cuda/piece_sum.h"

#include <type_traits>

#include "runtime/kernels/cuda/device_code.h"

namespace piper::kernels::cuda {
namespace {

constexpr int kThreads = 256;

struct Pieces {
  std::byte *own, *others;
  int64_t stride, members, position, count;
  bool packed;
};

template <class T, class S>
__device__ S as_summed(T x) {
  if constexpr (std::is_same_v<T, S>) return x;
  else return widen(x);
}
template <class T, class S>
__device__ T as_kept(S x) {
  if constexpr (std::is_same_v<T, S>) return x;
  else return rounded<T>(x);
}

// T: of the message; S: in which it is added.
template <class T, class S>
__global__ void __launch_bounds__(kThreads) piece_sum_kernel(Pieces p) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  T* own = reinterpret_cast<T*>(p.own);
  const auto piece_of = [&](int64_t member) {
    const int64_t place = member < p.position ? member : member - 1;
    return member == p.position ? own : reinterpret_cast<const T*>(p.others + place * p.stride);
  };
  const int64_t first = thread * (p.packed ? kPack : 1);
  if (p.packed && first + kPack <= p.count) {
    S sum[kPack] = {};
    for (int64_t member = 0; member < p.members; ++member) {
      const auto pack = *reinterpret_cast<const Pack<T>*>(piece_of(member) + first);
      for (int i = 0; i < kPack; ++i) {
        const S value = as_summed<T, S>(pack.values[i]);
        sum[i] = member == 0 ? value : sum[i] + value;
      }
    }
    Pack<T> result;
    for (int i = 0; i < kPack; ++i) result.values[i] = as_kept<T, S>(sum[i]);
    *reinterpret_cast<Pack<T>*>(own + first) = result;
    return;
  }
  const int64_t last = p.packed ? first + kPack : first + 1;
  for (int64_t i = first; i < last && i < p.count; ++i) {
    S sum = as_summed<T, S>(piece_of(0)[i]);
    for (int64_t member = 1; member < p.members; ++member) sum = sum + as_summed<T, S>(piece_of(member)[i]);
    own[i] = as_kept<T, S>(sum);
  }
}

template <class T, class S>
void launch(Pieces p, cudaStream_t stream) {
  p.packed = holds_packs(reinterpret_cast<T*>(p.own)) && holds_packs(reinterpret_cast<T*>(p.others)) &&
             p.stride % static_cast<int64_t>(sizeof(Pack<T>)) == 0;
  const int64_t blocks = ceil_div(p.count, kThreads * (p.packed ? kPack : 1));
  PIPER_LAUNCH((piece_sum_kernel<T, S>), grid_of(blocks), kThreads, 0, stream, p);
}

}  // namespace

void launch_piece_sum(const hal::PieceSum& sum, cudaStream_t stream) {
  if (sum.count == 0 || sum.members == 1) return;
  const Pieces p = {
      sum.own.in_device(), sum.others.in_device(), sum.stride, sum.members, sum.position, sum.count, false};
  switch (sum.message) {
    case DType::kF32: return launch<float, float>(p, stream);
    case DType::kF64: return launch<double, double>(p, stream);
    case DType::kI64: return launch<int64_t, int64_t>(p, stream);
    case DType::kI32: return launch<int32_t, int32_t>(p, stream);
    case DType::kBF16: return launch<__nv_bfloat16, float>(p, stream);
    case DType::kF16: return launch<__half, float>(p, stream);
    case DType::kBool: break;
  }
  PIPER_CHECK(false, "sum of ", dtype_name(sum.message));
}

}  // namespace piper::kernels::cuda
