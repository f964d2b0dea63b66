#include "runtime/hal/cpu/stream_copy.h"

#include <cstddef>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace piper::hal {

#ifdef __SSE2__
namespace {

constexpr size_t kLine = 64;
constexpr size_t kSmall = size_t{64} << 10;  // what a cache of the second level keeps anyway

}  // namespace

// With 16 bytes a store: four fill a line, which leaves as a whole, so that wider ones are no faster.
void stream_copy(void* to, const void* from, int64_t bytes) {
  auto left = static_cast<size_t>(bytes);
  if (left < kSmall) {
    if (left > 0) std::memcpy(to, from, left);
    return;
  }
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const auto advance = [&](size_t count) {
    target += count;
    source += count;
    left -= count;
  };
  const size_t head = (kLine - reinterpret_cast<uintptr_t>(target) % kLine) % kLine;
  std::memcpy(target, source, head);
  for (advance(head); left >= kLine; advance(kLine)) {
    auto* const line = reinterpret_cast<__m128i*>(target);
    const auto* const words = reinterpret_cast<const __m128i*>(source);
    const __m128i first = _mm_loadu_si128(words), second = _mm_loadu_si128(words + 1),
                  third = _mm_loadu_si128(words + 2), fourth = _mm_loadu_si128(words + 3);
    _mm_stream_si128(line, first);
    _mm_stream_si128(line + 1, second);
    _mm_stream_si128(line + 2, third);
    _mm_stream_si128(line + 3, fourth);
  }
  std::memcpy(target, source, left);
  _mm_sfence();  // these stores are not ordered before a later release otherwise
}
#else
void stream_copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}
#endif

}  // namespace piper::hal
