#include "runtime/kernels/short_attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/kernels/lanes.h"
#include "runtime/kernels/sgemm.h"

namespace piper::kernels {
namespace {

constexpr int64_t kMaxKeys = 1024, kMaxHeadDim = 256;
// Queries whose rows of scores the backward keeps: a multiple of a tile's rows.
int64_t chunk_of(const Tiles& tiles) { return 112 / tiles.rows * tiles.rows; }

// Rows of one head.
template <class T>
struct Rows {
  T* data;
  int64_t step;
  T* row(int64_t i) const { return data + i * step; }
};
template <class T>
Rows<T> rows_of(T* data, const at::Tensor& t, int64_t sample, int64_t head) {
  return {data + sample * t.stride(0) + head * t.stride(1), t.stride(2)};
}
Rows<const float> read(const at::Tensor& t, int64_t sample, int64_t head) {
  return rows_of(t.const_data_ptr<float>(), t, sample, head);
}
Rows<float> write(const at::Tensor& t, int64_t sample, int64_t head) {
  return rows_of(t.mutable_data_ptr<float>(), t, sample, head);
}

int64_t padded(int64_t keys) { return (keys + kMostTileColumns - 1) / kMostTileColumns * kMostTileColumns; }
// Elements from one row of scores to the next: never 4 KiB, so that rows lie in different sets of the cache.
int64_t score_step(int64_t keys) { return padded(keys) + kLanes; }

// c[rows, columns] (+)= a[rows, depth] b[depth, columns] on dense rows of b.
struct Block {
  int64_t rows, columns, depth;
  const float* a;
  int64_t a_step;
  bool direct;  // rows of `a` are dense, else its columns are
  bool add;
};
void multiply(const Tiles& tiles, const Block& block, const Rows<const float>& b, const Rows<float>& c) {
  for (int64_t j = 0; j < block.columns; j += tiles.columns)
    tiles.multiply({block.depth, std::min(tiles.columns, block.columns - j), block.a, block.a_step, b.data + j, b.step,
                    c.data + j, c.step, nullptr, block.add},
                   block.rows, block.direct);
}

// Panels of as many keys as a tile has columns: each holds [head_dim, columns].
void pack_keys(const Tiles& tiles, const Rows<const float>& k, int64_t keys, int64_t head_dim, float* panels) {
  tiles.pack({k.data, k.step, 1, keys, head_dim}, panels, tiles.columns);
}
// to[rows, reach] = x keys^T.
void score(const Tiles& tiles, const Rows<const float>& x, int64_t rows, const float* panels, const AttentionShape& s,
           int64_t reach, const Rows<float>& to) {
  const int64_t half = tiles.columns / 2;
  for (int64_t j = 0; j < reach; j += tiles.columns)
    tiles.multiply({s.head_dim, std::min(reach - j <= half ? half : tiles.columns, s.keys - j), x.data, x.step,
                    panels + j * s.head_dim, tiles.columns, to.data + j, to.step, nullptr, false},
                   rows, true);
}

// Keys that a strip of queries from `first` on may see, and those that one query sees.
int64_t reach_of(const Tiles& tiles, const AttentionShape& s, int64_t first) {
  return s.causal ? std::min(s.keys, first + tiles.rows) : s.keys;
}
int64_t seen_by(const AttentionShape& s, int64_t query) { return s.causal ? std::min(s.keys, query + 1) : s.keys; }

// Lanes at the end of a row run over it, into the room after every row of scores.
template <class L>
PIPER_INLINE void load(L& x, const float* from) {
  std::memcpy(x.part, from, sizeof(x.part));
}
template <class L>
PIPER_INLINE void store(float* to, const L& x) {
  std::memcpy(to, x.part, sizeof(x.part));
}
// Lanes that stand for elements i to i + 15 keep their value before `count` and get `rest` from there on.
template <int kBytes>
PIPER_INLINE void keep_first(Lanes<float, kBytes>& x, int64_t i, int64_t count, float rest) {
  if (i + kLanes <= count) return;
  static constexpr int32_t kCounting[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int p = 0; p < x.kParts; ++p) {
    Vector<int32_t, kBytes> lane;
    std::memcpy(&lane, kCounting + p * x.kEach, sizeof(lane));
    x.part[p] = lane < static_cast<int32_t>(count - i) ? x.part[p] : Vector<float, kBytes>{} + rest;
  }
}

// Lanes are folded in halves, not one after the other as sum_lanes() does: rows are short.
template <class L, class F>
PIPER_INLINE float folded(const L& x, F&& fold) {
  float v[kLanes];
  store(v, x);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) v[i] = fold(v[i], v[i + half]);
  return v[0];
}

// A strip of scores.
struct Strip {
  int64_t rows, first, reach;  // rows of it, its first query, keys that count for its products
  float scale;
};

// Each row of p becomes exp(scale p - largest), 0 after the keys that its query sees, and `sum` their sums.
template <int kBytes>
PIPER_INLINE void softmax_body(const AttentionShape& s, const Strip& strip, const Rows<float>& p, float* largest,
                               float* sum) {
  using L = Lanes<float, kBytes>;
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  for (int64_t row = 0; row < strip.rows; ++row) {
    float* const x = p.row(row);
    const int64_t seen = seen_by(s, strip.first + row);
    L most, total, v;
    for (auto& part : most.part) part = part + kLowest;
    for (int64_t i = 0; i < seen; i += kLanes) {
      load(v, x + i);
      for (auto& part : v.part) part = part * strip.scale;
      keep_first(v, i, seen, kLowest);
      store(x + i, v);
      for (int k = 0; k < L::kParts; ++k) most.part[k] = v.part[k] > most.part[k] ? v.part[k] : most.part[k];
    }
    const float top = folded(most, [](float a, float b) { return a > b ? a : b; });
    int64_t i = 0;
    for (; i < seen; i += kLanes) {
      load(v, x + i);
      for (auto& part : v.part) {
        part = part - top;
        exp_vector(part);
      }
      keep_first(v, i, seen, 0.0f);
      store(x + i, v);
      for (int k = 0; k < L::kParts; ++k) total.part[k] = total.part[k] + v.part[k];
    }
    for (; i < strip.reach; i += kLanes) store(x + i, L{});
    largest[row] = top;
    sum[row] = folded(total, [](float a, float b) { return a + b; });
  }
}
PIPER_BY_WIDTH(void, softmax_strip,
               (const AttentionShape& s, const Strip& strip, const Rows<float>& p, float* largest, float* sum),
               (s, strip, p, largest, sum), softmax_body<kBytes>)

// p = exp(scale p - lse); d = p (d - delta) scale; both 0 after the keys that the query sees.
template <int kBytes>
PIPER_INLINE void gradient_body(const AttentionShape& s, const Strip& strip, const Rows<float>& p, const Rows<float>& d,
                                const float* lse, const float* delta) {
  using L = Lanes<float, kBytes>;
  for (int64_t row = 0; row < strip.rows; ++row) {
    float *const x = p.row(row), *const dx = d.row(row);
    const int64_t seen = seen_by(s, strip.first + row);
    L v, w;
    int64_t i = 0;
    for (; i < seen; i += kLanes) {
      load(v, x + i);
      load(w, dx + i);
      for (auto& part : v.part) part = part * strip.scale - lse[row];
      keep_first(v, i, seen, 0.0f);
      for (auto& part : v.part) exp_vector(part);
      keep_first(v, i, seen, 0.0f);
      keep_first(w, i, seen, 0.0f);
      store(x + i, v);
      for (int k = 0; k < L::kParts; ++k) w.part[k] = v.part[k] * (w.part[k] - delta[row]) * strip.scale;
      store(dx + i, w);
    }
    for (; i < strip.reach; i += kLanes) {
      store(x + i, L{});
      store(dx + i, L{});
    }
  }
}
PIPER_BY_WIDTH(void, gradient_strip,
               (const AttentionShape& s, const Strip& strip, const Rows<float>& p, const Rows<float>& d,
                const float* lse, const float* delta),
               (s, strip, p, d, lse, delta), gradient_body<kBytes>)

// sum[row] = sum of x y over a row.
template <int kBytes>
PIPER_INLINE void products_body(const Rows<const float>& x, const Rows<const float>& y, int64_t rows, int64_t columns,
                                float* sum) {
  using L = Lanes<float, kBytes>;
  for (int64_t row = 0; row < rows; ++row) {
    L total, v, w;
    for (int64_t i = 0; i < columns; i += kLanes) {
      load_lanes(v, x.row(row), 1, i, columns, 0.0f);
      load_lanes(w, y.row(row), 1, i, columns, 0.0f);
      for (int k = 0; k < L::kParts; ++k) total.part[k] = total.part[k] + v.part[k] * w.part[k];
    }
    sum[row] = folded(total, [](float a, float b) { return a + b; });
  }
}
PIPER_BY_WIDTH(void, row_products,
               (const Rows<const float>& x, const Rows<const float>& y, int64_t rows, int64_t columns, float* sum),
               (x, y, rows, columns, sum), products_body<kBytes>)

PIPER_CLONES void scale_rows(const Rows<float>& x, int64_t rows, int64_t columns, const float* divisor) {
  for (int64_t row = 0; row < rows; ++row) {
    const float share = 1.0f / divisor[row];
    float* const values = x.row(row);
    for (int64_t i = 0; i < columns; ++i) values[i] *= share;
  }
}

// Asks for rows that a later head needs, whose rows lie too far apart for the processor to foresee.
void fetch(const Rows<const float>& x, int64_t rows, int64_t columns) {
  constexpr int64_t kLine = 16;
  if (rows * columns > 8192) return;  // it would push out what this head needs
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; j += kLine) __builtin_prefetch(x.row(i) + j, 0, 2);
}

// One head of one sample. memory: panels of the keys, a strip of scores.
void forward_head(const Tiles& tiles, const AttentionShape& s, const Rows<float>& y, float* lse, int64_t lse_step,
                  const Rows<const float>& q, const Rows<const float>& k, const Rows<const float>& v, float* memory) {
  const Rows<float> p{memory + padded(s.keys) * s.head_dim, score_step(s.keys)};
  pack_keys(tiles, k, s.keys, s.head_dim, memory);
  for (int64_t first = 0; first < s.queries; first += tiles.rows) {
    const int64_t rows = std::min(tiles.rows, s.queries - first), reach = reach_of(tiles, s, first);
    float largest[kMostTileRows], sum[kMostTileRows];
    score(tiles, {q.row(first), q.step}, rows, memory, s, reach, p);
    softmax_strip(s, {rows, first, reach, static_cast<float>(s.scale)}, p, largest, sum);
    for (int64_t i = 0; i < rows && lse != nullptr; ++i) lse[(first + i) * lse_step] = largest[i] + std::log(sum[i]);
    multiply(tiles, {rows, s.head_dim, reach, p.data, p.step, true, false}, v, {y.row(first), y.step});
    scale_rows({y.row(first), y.step}, rows, s.head_dim, sum);
  }
}

// Operands of one head of queries and of the keys it looks at.
struct BackwardHead {
  Rows<float> dq, dk, dv;
  Rows<const float> g, q, k, y;
  const float* lse;
  int64_t lse_step;
  const float *key_panels, *value_panels;
};
// memory: rows of p and of its gradient for a chunk of queries. Adds to dk and dv unless the head is its keys' first.
void backward_head(const Tiles& tiles, const AttentionShape& s, const BackwardHead& h, bool is_first, float* memory) {
  const int64_t step = score_step(s.keys), most = chunk_of(tiles);
  const Rows<float> p{memory, step}, d{memory + most * step, step};
  for (int64_t start = 0; start < s.queries; start += most) {
    const int64_t chunk = std::min(most, s.queries - start);
    for (int64_t at = 0; at < chunk; at += tiles.rows) {
      const int64_t first = start + at, rows = std::min(tiles.rows, chunk - at), reach = reach_of(tiles, s, first);
      score(tiles, {h.q.row(first), h.q.step}, rows, h.key_panels, s, reach, {p.row(at), step});
      score(tiles, {h.g.row(first), h.g.step}, rows, h.value_panels, s, reach, {d.row(at), step});
      float lse[kMostTileRows], delta[kMostTileRows];
      for (int64_t i = 0; i < rows; ++i) lse[i] = h.lse[(first + i) * h.lse_step];
      row_products({h.g.row(first), h.g.step}, {h.y.row(first), h.y.step}, rows, s.head_dim, delta);
      gradient_strip(s, {rows, first, reach, static_cast<float>(s.scale)}, {p.row(at), step}, {d.row(at), step}, lse,
                     delta);
      multiply(tiles, {rows, s.head_dim, reach, d.row(at), step, true, false}, h.k, {h.dq.row(first), h.dq.step});
    }
    for (int64_t key = 0; key < s.keys; key += tiles.rows) {
      // Causal: the first query that sees the first key of this strip.
      const int64_t from = s.causal ? std::max<int64_t>(0, key - start) : 0;
      if (from >= chunk) break;
      const bool add = !is_first || (s.causal ? key < start : start > 0);
      const Block block{
          std::min(tiles.rows, s.keys - key), s.head_dim, chunk - from, d.row(from) + key, step, false, add};
      multiply(tiles, block, {h.q.row(start + from), h.q.step}, {h.dk.row(key), h.dk.step});
      Block values = block;
      values.a = p.row(from) + key;
      multiply(tiles, values, {h.g.row(start + from), h.g.step}, {h.dv.row(key), h.dv.step});
    }
  }
}

void zero_rows(const Rows<float>& x, int64_t first, int64_t rows, int64_t columns) {
  for (int64_t i = first; i < rows; ++i) std::fill(x.row(i), x.row(i) + columns, 0.0f);
}

// body(index, this thread's `elements` of scratch) for every index.
template <class F>
void for_each_head(int64_t count, int64_t elements, const F& body) {
  const at::Tensor memory = at::empty({at::get_num_threads(), elements}, at::kFloat);
  at::parallel_for(0, count, 1, [&](int64_t first, int64_t last) {
    float* own = memory.mutable_data_ptr<float>() + at::get_thread_num() * elements;
    for (int64_t i = first; i < last; ++i) body(i, own);
  });
}

}  // namespace

bool serves_short_attention(const AttentionShape& s, const at::Tensor& q, const at::Tensor& mask) {
  return computed_type(q) == at::kFloat && !mask.defined() && s.keys >= 1 && s.keys <= kMaxKeys && s.head_dim >= 1 &&
         s.head_dim <= kMaxHeadDim && chosen_own_products() != OwnProducts::kNone;
}

void short_attention(const AttentionShape& s, const at::Tensor& y, const at::Tensor& lse, const at::Tensor& q,
                     const at::Tensor& k, const at::Tensor& v) {
  const Tiles& tiles = chosen_tiles();
  const int64_t group = s.heads / s.key_heads;
  for_each_head(
      s.batch * s.heads, padded(s.keys) * s.head_dim + tiles.rows * score_step(s.keys),
      [&](int64_t index, float* memory) {
        const int64_t sample = index / s.heads, head = index % s.heads;
        if (index + 1 < s.batch * s.heads) {
          const int64_t next = (index + 1) / s.heads, next_head = (index + 1) % s.heads;
          for (const at::Tensor* t : {&q, &y}) fetch(read(*t, next, next_head), s.queries, s.head_dim);
          for (const at::Tensor* t : {&k, &v}) fetch(read(*t, next, next_head / group), s.keys, s.head_dim);
        }
        float* row_lse =
            lse.defined() ? lse.mutable_data_ptr<float>() + sample * lse.stride(0) + head * lse.stride(1) : nullptr;
        forward_head(tiles, s, write(y, sample, head), row_lse, lse.defined() ? lse.stride(2) : 0,
                     read(q, sample, head), read(k, sample, head / group), read(v, sample, head / group), memory);
      });
}

void short_attention_backward(const AttentionShape& s, const AttentionGradients& gradients, const at::Tensor& g,
                              const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& y,
                              const at::Tensor& lse) {
  const Tiles& tiles = chosen_tiles();
  const int64_t group = s.heads / s.key_heads, panels = padded(s.keys) * s.head_dim;
  for_each_head(
      s.batch * s.key_heads, 2 * panels + 2 * chunk_of(tiles) * score_step(s.keys), [&](int64_t index, float* memory) {
        const int64_t sample = index / s.key_heads, key_head = index % s.key_heads;
        if (index + 1 < s.batch * s.key_heads) {
          const int64_t next = (index + 1) / s.key_heads, next_head = (index + 1) % s.key_heads;
          for (const at::Tensor* t : {&k, &v, &gradients.dk, &gradients.dv})
            fetch(read(*t, next, next_head), s.keys, s.head_dim);
          for (const at::Tensor* t : {&q, &g, &y, &gradients.dq})
            fetch(read(*t, next, next_head * group), s.queries, s.head_dim);
        }
        BackwardHead h{};
        h.dk = write(gradients.dk, sample, key_head);
        h.dv = write(gradients.dv, sample, key_head);
        h.k = read(k, sample, key_head);
        pack_keys(tiles, h.k, s.keys, s.head_dim, memory);
        pack_keys(tiles, read(v, sample, key_head), s.keys, s.head_dim, memory + panels);
        h.key_panels = memory;
        h.value_panels = memory + panels;
        // Keys that no query sees get no product.
        const int64_t seen = s.causal        ? std::min(s.keys, (s.queries + tiles.rows - 1) / tiles.rows * tiles.rows)
                             : s.queries > 0 ? s.keys
                                             : 0;
        zero_rows(h.dk, seen, s.keys, s.head_dim);
        zero_rows(h.dv, seen, s.keys, s.head_dim);
        h.lse_step = lse.stride(2);
        for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
          h.dq = write(gradients.dq, sample, head);
          h.g = read(g, sample, head);
          h.q = read(q, sample, head);
          h.y = read(y, sample, head);
          h.lse = lse.const_data_ptr<float>() + sample * lse.stride(0) + head * lse.stride(1);
          backward_head(tiles, s, h, head == key_head * group, memory + 2 * panels);
        }
      });
}

}  // namespace piper::kernels
