#include "runtime/kernels/attends_tile.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace piper::kernels {

using form::StepKind;

AttendsTile::AttendsTile(const form::Attends& attends, at::Tensor vectors)
    : band_(form::band_of(attends)), vectors_(std::move(vectors)) {
  if (!form::is_band(attends)) steps_ = *form::program_of(form::within_band(attends));
  for (int64_t query = 0; query < attends.queries; query += kQueries) {
    form::KeyRange keys = form::keys_of(attends, query, std::min(query + kQueries, attends.queries));
    if (keys.first == keys.last) keys = {0, std::min<int64_t>(1, attends.keys)};
    keys_.push_back(keys);
  }
}

void AttendsTile::row(int64_t sample, int64_t query, int64_t key, int64_t count, std::vector<int64_t>& stack) const {
  // Numbers of the stack lie one after the other, `count` each.
  int64_t* top = stack.data() - count;
  const auto each = [&](auto&& made) {
    for (int64_t i = 0; i < count; ++i) top[i] = made(i);
  };
  for (const form::Step& step : steps_) {
    const int64_t number = step.number;
    switch (step.kind) {
      case StepKind::kNumber:
        top += count;
        each([&](int64_t) { return number; });
        break;
      case StepKind::kAxis:
        top += count;
        if (number == 0) each([&](int64_t) { return query; });
        else each([&](int64_t i) { return key + i; });
        break;
      case StepKind::kRead: {
        const int64_t of_sample = vectors_.size(0) == 1 ? 0 : sample * vectors_.stride(0);
        const int64_t* vector = vectors_.const_data_ptr<int64_t>() + of_sample + number * vectors_.stride(2);
        const int64_t stride = vectors_.stride(3);
        each([&](int64_t i) { return vector[top[i] * stride]; });
        break;
      }
      case StepKind::kAddTimes: {
        const int64_t* x = top;
        top -= count;
        // Wraps as PyTorch's integers do.
        each([&](int64_t i) {
          return static_cast<int64_t>(static_cast<uint64_t>(top[i]) +
                                      static_cast<uint64_t>(number) * static_cast<uint64_t>(x[i]));
        });
        break;
      }
      case StepKind::kQuotient: each([&](int64_t i) { return top[i] / number - (top[i] % number < 0 ? 1 : 0); }); break;
      case StepKind::kNotNegative: each([&](int64_t i) { return int64_t{top[i] >= 0}; }); break;
      case StepKind::kIsZero:
      case StepKind::kNot: each([&](int64_t i) { return int64_t{top[i] == 0}; }); break;
      case StepKind::kAnd: {
        const int64_t* p = top;
        top -= count;
        each([&](int64_t i) { return top[i] & p[i]; });
        break;
      }
      case StepKind::kSelect: {
        const int64_t *b = top, *a = top - count;
        top -= 2 * count;
        each([&](int64_t i) { return top[i] != 0 ? a[i] : b[i]; });
        break;
      }
    }
  }
}

template <class T>
form::KeyRange AttendsTile::fill(T* tile, int64_t sample, int64_t first, int64_t last) const {
  const form::KeyRange keys = keys_[static_cast<size_t>(first / kQueries)];
  const int64_t count = keys.last - keys.first;
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  std::vector<int64_t> stack(form::kMostDepth * static_cast<size_t>(count));
  // The columns in which any query attends.
  int64_t begin = count, end = 0;
  for (int64_t query = first; query < last; ++query) {
    T* to = tile + (query - first) * count;
    const int64_t low = std::clamp<int64_t>(query + band_.low - keys.first, 0, count),
                  high = std::clamp<int64_t>(query + band_.high + 1 - keys.first, low, count);
    std::fill(to, to + low, kNever);
    std::fill(to + high, to + count, kNever);
    if (low == high) continue;
    int64_t most_left = low, most_right = high;
    if (steps_.empty()) {
      std::fill(to + low, to + high, T(0));
    } else {
      row(sample, query, keys.first + low, high - low, stack);
      const int64_t* attends = stack.data() - low;
      for (int64_t i = low; i < high; ++i) to[i] = attends[i] != 0 ? T(0) : kNever;
      while (most_left < high && attends[most_left] == 0) ++most_left;
      while (most_right > most_left && attends[most_right - 1] == 0) --most_right;
      if (most_left == high) continue;
    }
    begin = std::min(begin, most_left);
    end = std::max(end, most_right);
  }
  if (begin >= end) begin = 0, end = std::min<int64_t>(1, count);
  // Rows move up to those columns.
  if (end - begin < count)
    for (int64_t r = 0; r < last - first; ++r) {
      const T* from = tile + r * count;
      std::copy(from + begin, from + end, tile + r * (end - begin));
    }
  return {keys.first + begin, keys.first + end};
}

template form::KeyRange AttendsTile::fill(float*, int64_t, int64_t, int64_t) const;
template form::KeyRange AttendsTile::fill(double*, int64_t, int64_t, int64_t) const;

}  // namespace piper::kernels
