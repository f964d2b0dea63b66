#include "runtime/data/megatron.h"

#include <cstring>
#include <optional>

#include "runtime/data/npy.h"

namespace piper::data {

namespace {

constexpr int64_t kHeader = 9 + 8 + 1 + 8 + 8;

template <class T>
T at(const plan::MappedFile& file, int64_t offset) {
  T value;
  std::memcpy(&value, file.data + offset, sizeof value);
  return value;
}

std::optional<Element> element_of_code(uint8_t code) {
  switch (code) {
    case 1: return Element::kU8;
    case 2: return Element::kI8;
    case 3: return Element::kI16;
    case 4: return Element::kI32;
    case 5: return Element::kI64;
    case 8: return Element::kU16;
    default: return std::nullopt;  // 6 and 7 are floating point
  }
}

}  // namespace

Result<MegatronIndex> read_megatron_index(const std::string& path) {
  PIPER_ASSIGN(const plan::MappedFile file, map_data(path));
  const auto bad = [&](const std::string& why) {
    return Status::failure("R0213", "'" + path + "' is no usable index of Megatron's: " + why);
  };
  if (file.bytes < kHeader || std::memcmp(file.data, "MMIDIDX\x00\x00", 9) != 0) return bad("it does not begin as one");
  if (at<uint64_t>(file, 9) != 1) return bad("its version is " + std::to_string(at<uint64_t>(file, 9)) + ", not 1");
  const auto element = element_of_code(at<uint8_t>(file, 17));
  if (!element) return bad("its type " + std::to_string(at<uint8_t>(file, 17)) + " is none of tokens");
  const auto sequences = at<uint64_t>(file, 18), documents = at<uint64_t>(file, 26);
  const auto room = static_cast<uint64_t>(file.bytes - kHeader);
  if (sequences > room / 12 || documents > (room - sequences * 12) / 8) return bad("it is cut off");
  MegatronIndex index{*element, 0};
  const int64_t lengths = kHeader, offsets = kHeader + static_cast<int64_t>(sequences) * 4;
  for (int64_t i = 0; i < static_cast<int64_t>(sequences); ++i) {
    const auto length = at<int32_t>(file, lengths + i * 4);
    if (length < 0 || at<int64_t>(file, offsets + i * 8) != index.tokens * element_bytes(*element))
      return bad("its sequences do not lie one after the other");
    index.tokens += length;
  }
  return index;
}

}  // namespace piper::data
