#include "schemas/plan/names.h"

#include <charconv>

namespace piper::plan {
namespace {

// Position of the '+' of a trailing "+digits", or npos.
size_t offset_position(std::string_view text) {
  size_t at = text.size();
  while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9') --at;
  if (at == text.size() || at == 0 || text[at - 1] != '+') return std::string_view::npos;
  return at - 1;
}

}  // namespace

bool ends_like_offset(std::string_view name) { return offset_position(name) != std::string_view::npos; }

std::optional<NameAndOffset> split_offset(std::string_view text) {
  const size_t plus = offset_position(text);
  if (plus == std::string_view::npos) return NameAndOffset{text, 0};
  NameAndOffset parts{text.substr(0, plus), 0};
  const auto result = std::from_chars(text.data() + plus + 1, text.data() + text.size(), parts.offset);
  if (result.ec != std::errc()) return std::nullopt;
  return parts;
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  uint64_t stride = 1;  // unsigned: a damaged shape may overflow, and is refused elsewhere
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(shape[i]);
  }
  return strides;
}

std::string no_multiple(int64_t offset, int64_t size, std::string_view buffer) {
  return "elements of " + std::to_string(size) + " bytes cannot be at " + std::to_string(offset) + " of buffer \"" +
         std::string(buffer) + "\"";
}

std::optional<int64_t> element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  return count;
}

}  // namespace piper::plan
