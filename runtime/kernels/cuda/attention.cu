#include "runtime/kernels/cuda/attention.h"

#include <cmath>
#include <type_traits>

#include "runtime/kernels/cuda/device_code.h"
#include "runtime/kernels/cuda/team_sum.h"

namespace piper::kernels::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarp;

__device__ inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double fused(double a, double b, double c) { return fma(a, b, c); }

// Which query, or key, of which head a warp has.
struct Place {
  int64_t sample, head, row;
};
__device__ inline Place place_of(int64_t index, int64_t heads, int64_t rows) {
  return {index / rows / heads, index / rows % heads, index % rows};
}

template <class T>
__device__ T* row_of(const Heads& h, int64_t sample, int64_t head, int64_t row) {
  return static_cast<T*>(h.data) + sample * h.batch + head * h.head + row * h.row;
}
template <class T>
__device__ Computed<T> dot(const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t count) {
  Computed<T> sum = 0;
  for (int64_t d = 0; d < count; ++d) sum = fused(widen(a[d * a_step]), widen(b[d * b_step]), sum);
  return sum;
}
// Elements of a row, in the type that is computed in, to the warp's shared memory.
template <class T>
__device__ void load_row(Computed<T>* to, const T* from, int64_t step, int64_t count) {
  for (int64_t d = threadIdx.x % kWarp; d < count; d += kWarp) to[d] = widen(from[d * step]);
}
template <class T>
__device__ Computed<T> dot_with(const Computed<T>* row, const T* other, int64_t step, int64_t count) {
  Computed<T> sum = 0;
  for (int64_t d = 0; d < count; ++d) sum = fused(row[d], widen(other[d * step]), sum);
  return sum;
}

// Whether a query attends to a key of its band.
__device__ bool attends(const AttendsProgram& program, int64_t sample, int64_t query, int64_t key) {
  int64_t stack[form::kMostDepth];
  int top = -1;
  for (int i = 0; i < program.count; ++i) {
    const form::Step& step = program.steps[i];
    switch (step.kind) {
      case form::StepKind::kNumber: stack[++top] = step.number; break;
      case form::StepKind::kAxis: stack[++top] = step.number == 0 ? query : key; break;
      case form::StepKind::kRead:
        stack[top] =
            program.vectors[sample * program.batch + step.number * program.vector + stack[top] * program.place];
        break;
      case form::StepKind::kAddTimes:
        --top;
        // Wraps as PyTorch's integers do.
        stack[top] = static_cast<int64_t>(static_cast<uint64_t>(stack[top]) +
                                          static_cast<uint64_t>(step.number) * static_cast<uint64_t>(stack[top + 1]));
        break;
      case form::StepKind::kQuotient:
        stack[top] = stack[top] / step.number - (stack[top] % step.number < 0 ? 1 : 0);
        break;
      case form::StepKind::kNotNegative: stack[top] = stack[top] >= 0; break;
      case form::StepKind::kIsZero:
      case form::StepKind::kNot: stack[top] = stack[top] == 0; break;
      case form::StepKind::kAnd:
        --top;
        stack[top] &= stack[top + 1];
        break;
      case form::StepKind::kSelect:
        top -= 2;
        stack[top] = stack[top] != 0 ? stack[top + 1] : stack[top + 2];
        break;
    }
  }
  return stack[0] != 0;
}

// The score of a query and a key from their product; -inf where the query may not attend to the key.
template <class T>
__device__ Computed<T> score(const Attention& a, Computed<T> product, int64_t sample, int64_t head, int64_t query,
                             int64_t key) {
  const Computed<T> value = product * static_cast<Computed<T>>(a.scale);
  if (key - query > a.high || key - query < a.low) return static_cast<Computed<T>>(-INFINITY);
  if (a.attends.count > 0) return attends(a.attends, sample, query, key) ? value : static_cast<Computed<T>>(-INFINITY);
  if (a.mask == nullptr) return value;
  const int64_t at = sample * a.mask_batch + head * a.mask_head + query * a.mask_query + key * a.mask_key;
  if (a.mask_is_bool) return static_cast<const bool*>(a.mask)[at] ? value : static_cast<Computed<T>>(-INFINITY);
  return value + widen(static_cast<const T*>(a.mask)[at]);
}
// [first, last): the keys that a query may attend to, the queries that may attend to a key.
struct Range {
  int64_t first, last;
};
__device__ inline Range within(int64_t first, int64_t last, int64_t extent) {
  return {first > 0 ? first : 0, last < extent ? last : extent};
}
__device__ inline Range keys_of(const Attention& a, int64_t query) {
  return within(query + a.low, query + a.high + 1, a.keys);
}
__device__ inline Range queries_of(const Attention& a, int64_t key) {
  return within(key - a.high, key - a.low + 1, a.queries);
}

// The warp's part of the dynamic shared memory: rows of head_dim elements.
template <class C>
__device__ C* shared_rows(double* memory, int64_t head_dim, int rows) {
  return reinterpret_cast<C*>(memory) + static_cast<int64_t>(threadIdx.x / kWarp) * head_dim * rows;
}

template <class T>
__global__ void __launch_bounds__(kThreads) attention_kernel(Attention a) {
  using C = Computed<T>;
  PIPER_DYNAMIC_SHARED(double, memory);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (index >= a.batch * a.heads * a.queries) return;
  const Place at = place_of(index, a.heads, a.queries);
  const int64_t key_head = at.head / (a.heads / a.key_heads);
  const Range keys = keys_of(a, at.row);
  C *const q = shared_rows<C>(memory, a.head_dim, 2), *const sums = q + a.head_dim;
  load_row<T>(q, row_of<const T>(a.q, at.sample, at.head, at.row), a.q.column, a.head_dim);
  for (int64_t d = lane; d < a.head_dim; d += kWarp) sums[d] = 0;
  __syncwarp();
  C top = static_cast<C>(-INFINITY), total = 0;
  for (int64_t first = keys.first; first < keys.last; first += kWarp) {
    const int64_t key = first + lane;
    C s = static_cast<C>(-INFINITY);
    if (key < keys.last)
      s = score<T>(a, dot_with<T>(q, row_of<const T>(a.k, at.sample, key_head, key), a.k.column, a.head_dim), at.sample,
                   at.head, at.row, key);
    // A score that is no number is the largest, so that it stays in the sums.
    const C most = team_max<kWarp>(s == s ? s : static_cast<C>(INFINITY)), next = most > top ? most : top;
    if (next == static_cast<C>(-INFINITY)) continue;  // nothing yet that counts
    const C shrink = std::exp(top - next), p = std::exp(s - next);
    total = total * shrink + team_sum<kWarp>(p);
    top = next;
    for (int64_t d = lane; d - lane < a.head_dim; d += kWarp) {
      C sum = d < a.head_dim ? sums[d] * shrink : C(0);
      for (int k = 0; k < kWarp && first + k < keys.last; ++k) {
        const C weight = __shfl_sync(kAllLanes, p, k);
        if (d < a.head_dim)
          sum = fused(weight, widen(row_of<const T>(a.v, at.sample, key_head, first + k)[d * a.v.column]), sum);
      }
      if (d < a.head_dim) sums[d] = sum;
    }
  }
  T* y = row_of<T>(a.y, at.sample, at.head, at.row);
  for (int64_t d = lane; d < a.head_dim; d += kWarp)
    y[d * a.y.column] = rounded<T>(total == 0 ? C(0) : sums[d] / total);
  if (lane == 0 && a.lse != nullptr)
    a.lse[at.sample * a.lse_batch + at.head * a.lse_head + at.row * a.lse_row] =
        static_cast<float>(total == 0 ? top : top + std::log(total));
}

template <class T>
__device__ Computed<T> saved_lse(const Attention& a, int64_t sample, int64_t head, int64_t query) {
  if constexpr (std::is_same_v<T, double>) return a.exact_lse[(sample * a.heads + head) * a.queries + query];
  else return a.lse[sample * a.lse_batch + head * a.lse_head + query * a.lse_row];
}
// exp(score - lse); 0 for what does not count.
template <class C>
__device__ C probability(C score, C lse) {
  return score == static_cast<C>(-INFINITY) ? C(0) : std::exp(score - lse);
}

__global__ void __launch_bounds__(kThreads) exact_lse_kernel(Attention a) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= a.batch * a.heads * a.queries) return;
  const Place at = place_of(index, a.heads, a.queries);
  const int64_t key_head = at.head / (a.heads / a.key_heads);
  const Range keys = keys_of(a, at.row);
  const auto score_of = [&](int64_t key) {
    const double product = dot(row_of<const double>(a.q, at.sample, at.head, at.row), a.q.column,
                               row_of<const double>(a.k, at.sample, key_head, key), a.k.column, a.head_dim);
    return score<double>(a, product, at.sample, at.head, at.row, key);
  };
  double top = -INFINITY, total = 0;
  for (int64_t key = keys.first; key < keys.last; ++key) top = std::fmax(top, score_of(key));
  for (int64_t key = keys.first; key < keys.last; ++key) total += probability(score_of(key), top);
  a.exact_lse[index] = total == 0 ? top : top + std::log(total);
}

// dq = scale sum_k ds_k k_k with ds = p (g v - g y): a warp a query.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_query_gradient_kernel(Attention a) {
  using C = Computed<T>;
  PIPER_DYNAMIC_SHARED(double, memory);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (index >= a.batch * a.heads * a.queries) return;
  const Place at = place_of(index, a.heads, a.queries);
  const int64_t key_head = at.head / (a.heads / a.key_heads);
  const Range keys = keys_of(a, at.row);
  C *const q = shared_rows<C>(memory, a.head_dim, 3), *const g = q + a.head_dim, *const sums = g + a.head_dim;
  load_row<T>(q, row_of<const T>(a.q, at.sample, at.head, at.row), a.q.column, a.head_dim);
  load_row<T>(g, row_of<const T>(a.g, at.sample, at.head, at.row), a.g.column, a.head_dim);
  for (int64_t d = lane; d < a.head_dim; d += kWarp) sums[d] = 0;
  __syncwarp();
  const C lse = saved_lse<T>(a, at.sample, at.head, at.row);
  const C through_y = dot_with<T>(g, row_of<const T>(a.y, at.sample, at.head, at.row), a.y.column, a.head_dim);
  for (int64_t first = keys.first; first < keys.last; first += kWarp) {
    const int64_t key = first + lane;
    C ds = 0;
    if (key < keys.last) {
      const C s = score<T>(a, dot_with<T>(q, row_of<const T>(a.k, at.sample, key_head, key), a.k.column, a.head_dim),
                           at.sample, at.head, at.row, key);
      const C dp = dot_with<T>(g, row_of<const T>(a.v, at.sample, key_head, key), a.v.column, a.head_dim);
      ds = probability(s, lse) * (dp - through_y) * static_cast<C>(a.scale);
    }
    for (int64_t d = lane; d - lane < a.head_dim; d += kWarp)
      for (int k = 0; k < kWarp && first + k < keys.last; ++k) {
        const C weight = __shfl_sync(kAllLanes, ds, k);
        if (d < a.head_dim)
          sums[d] = fused(weight, widen(row_of<const T>(a.k, at.sample, key_head, first + k)[d * a.k.column]), sums[d]);
      }
  }
  T* dq = row_of<T>(a.dq, at.sample, at.head, at.row);
  for (int64_t d = lane; d < a.head_dim; d += kWarp) dq[d * a.dq.column] = rounded<T>(sums[d]);
}

// dk = scale sum_q ds_q q_q, dv = sum_q p_q g_q over the queries of all heads that share the key: a warp a key.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_key_gradient_kernel(Attention a) {
  using C = Computed<T>;
  PIPER_DYNAMIC_SHARED(double, memory);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (index >= a.batch * a.key_heads * a.keys) return;
  const Place at = place_of(index, a.key_heads, a.keys);
  const int64_t group = a.heads / a.key_heads;
  const Range queries = queries_of(a, at.row);
  C *const k = shared_rows<C>(memory, a.head_dim, 4), *const v = k + a.head_dim, *const k_sums = v + a.head_dim,
           *const v_sums = k_sums + a.head_dim;
  load_row<T>(k, row_of<const T>(a.k, at.sample, at.head, at.row), a.k.column, a.head_dim);
  load_row<T>(v, row_of<const T>(a.v, at.sample, at.head, at.row), a.v.column, a.head_dim);
  for (int64_t d = lane; d < a.head_dim; d += kWarp) k_sums[d] = v_sums[d] = 0;
  __syncwarp();
  for (int64_t head = at.head * group; head < (at.head + 1) * group; ++head)
    for (int64_t first = queries.first; first < queries.last; first += kWarp) {
      const int64_t query = first + lane;
      C p = 0, ds = 0;
      if (query < queries.last) {
        const T* g = row_of<const T>(a.g, at.sample, head, query);
        const C s = score<T>(a, dot_with<T>(k, row_of<const T>(a.q, at.sample, head, query), a.q.column, a.head_dim),
                             at.sample, head, query, at.row);
        const C through_y = dot(g, a.g.column, row_of<const T>(a.y, at.sample, head, query), a.y.column, a.head_dim);
        p = probability(s, saved_lse<T>(a, at.sample, head, query));
        ds = p * (dot_with<T>(v, g, a.g.column, a.head_dim) - through_y) * static_cast<C>(a.scale);
      }
      for (int64_t d = lane; d - lane < a.head_dim; d += kWarp)
        for (int i = 0; i < kWarp && first + i < queries.last; ++i) {
          const C of_key = __shfl_sync(kAllLanes, ds, i), of_value = __shfl_sync(kAllLanes, p, i);
          if (d >= a.head_dim) continue;
          k_sums[d] = fused(of_key, widen(row_of<const T>(a.q, at.sample, head, first + i)[d * a.q.column]), k_sums[d]);
          v_sums[d] =
              fused(of_value, widen(row_of<const T>(a.g, at.sample, head, first + i)[d * a.g.column]), v_sums[d]);
        }
    }
  for (int64_t d = lane; d < a.head_dim; d += kWarp) {
    if (a.dk.data != nullptr) row_of<T>(a.dk, at.sample, at.head, at.row)[d * a.dk.column] = rounded<T>(k_sums[d]);
    if (a.dv.data != nullptr) row_of<T>(a.dv, at.sample, at.head, at.row)[d * a.dv.column] = rounded<T>(v_sums[d]);
  }
}

// Bytes of shared memory for `rows` rows of each warp.
template <class T>
size_t shared_bytes(const Attention& a, int rows) {
  return sizeof(Computed<T>) * kWarps * static_cast<size_t>(rows * a.head_dim);
}

}  // namespace

void launch_attention(const Attention& a, cudaStream_t stream) {
  const int64_t rows = a.batch * a.heads * a.queries;
  if (rows == 0) return;
  by_floating_type(a.type, [&](auto type) {
    using T = typename decltype(type)::type;
    PIPER_LAUNCH((attention_kernel<T>), grid_of(ceil_div(rows, kWarps)), kThreads, shared_bytes<T>(a, 2), stream, a);
  });
}

void launch_attention_backward(const Attention& a, cudaStream_t stream) {
  const int64_t rows = a.batch * a.heads * a.queries, keys = a.batch * a.key_heads * a.keys;
  if (a.type == DType::kF64 && rows > 0)
    PIPER_LAUNCH(exact_lse_kernel, grid_of(ceil_div(rows, kThreads)), kThreads, 0, stream, a);
  by_floating_type(a.type, [&](auto type) {
    using T = typename decltype(type)::type;
    if (a.dq.data != nullptr && rows > 0)
      PIPER_LAUNCH((attention_query_gradient_kernel<T>), grid_of(ceil_div(rows, kWarps)), kThreads,
                   shared_bytes<T>(a, 3), stream, a);
    if ((a.dk.data != nullptr || a.dv.data != nullptr) && keys > 0)
      PIPER_LAUNCH((attention_key_gradient_kernel<T>), grid_of(ceil_div(keys, kWarps)), kThreads, shared_bytes<T>(a, 4),
                   stream, a);
  });
}

}  // namespace piper::kernels::cuda
