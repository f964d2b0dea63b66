#include "runtime/program/draw_weights.h"

#include <charconv>
#include <cmath>

#include "runtime/data/philox.h"
#include "schemas/plan/convert_elements.h"

namespace piper::program {
namespace {

constexpr std::string_view kNormal = "normal:";

// FNV-1a: the same number on every machine, which std::hash is not.
uint64_t number_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// (0, 1] from 32 bits.
double unit(uint32_t bits) { return (static_cast<double>(bits) + 1.0) / 4294967296.0; }

}  // namespace

std::optional<double> parse_init(std::string_view text) {
  if (text.substr(0, kNormal.size()) != kNormal) return std::nullopt;
  double deviation = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + kNormal.size(), end, deviation);
  if (error != std::errc() || stop != end || !std::isfinite(deviation) || deviation < 0) return std::nullopt;
  return deviation;
}

std::vector<std::byte> draw_tensor(const plan::TensorInfo& tensor, double deviation, uint64_t seed) {
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) count *= extent;
  std::vector<float> drawn(static_cast<size_t>(count + count % 2));
  const uint64_t hash = number_of(tensor.name);
  for (int64_t pair = 0; 2 * pair < count; ++pair) {
    const data::PhiloxCounter bits = data::philox4x32_10(
        {static_cast<uint32_t>(data::Purpose::kInit), static_cast<uint32_t>(pair), static_cast<uint32_t>(hash),
         static_cast<uint32_t>(hash >> 32) ^ static_cast<uint32_t>(pair >> 32)},
        seed);
    const double radius = deviation * std::sqrt(-2.0 * std::log(unit(bits[0])));
    const double angle = 2.0 * M_PI * unit(bits[1]);
    drawn[static_cast<size_t>(2 * pair)] = static_cast<float>(radius * std::cos(angle));
    drawn[static_cast<size_t>(2 * pair + 1)] = static_cast<float>(radius * std::sin(angle));
  }
  std::vector<std::byte> bytes(static_cast<size_t>(count * dtype_bytes(tensor.dtype)));
  convert_elements(DType::kF32, drawn.data(), tensor.dtype, bytes.data(), count);
  return bytes;
}

std::map<std::string, std::vector<std::byte>> draw_weights(const plan::Manifest& manifest, double deviation,
                                                           uint64_t seed) {
  std::map<std::string, std::vector<std::byte>> drawn;
  for (const plan::TensorInfo& tensor : manifest.tensors)
    if (tensor.buffer == plan::ModelBuffer::kNone && can_convert_elements(DType::kF32, tensor.dtype))
      drawn[tensor.name] = draw_tensor(tensor, deviation, seed);
  return drawn;
}

}  // namespace piper::program
