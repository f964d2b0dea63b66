#include "runtime/data/npy.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>

namespace piper::data {

Result<plan::MappedFile> map_data(const std::string& path) {
  auto file = plan::map_file(path);
  if (!file.ok()) return Status::failure("R0201", file.error().message);
  return file;
}

namespace {

std::optional<Element> element_of_descr(std::string_view descr) {
  static constexpr std::pair<std::string_view, Element> kTable[] = {
      {"|b1", Element::kBool}, {"|i1", Element::kI8},  {"|u1", Element::kU8},  {"<i2", Element::kI16},
      {"<u2", Element::kU16},  {"<i4", Element::kI32}, {"<u4", Element::kU32}, {"<i8", Element::kI64},
      {"<f2", Element::kF16},  {"<f4", Element::kF32}, {"<f8", Element::kF64}};
  for (auto [name, element] : kTable)
    if (name == descr) return element;
  return std::nullopt;
}

// The text after "'key':" in the header's dictionary.
std::optional<std::string_view> after_key(std::string_view header, std::string_view key) {
  size_t at = header.find("'" + std::string(key) + "'");
  if (at == std::string_view::npos) return std::nullopt;
  at = header.find(':', at);
  if (at == std::string_view::npos) return std::nullopt;
  at = header.find_first_not_of(' ', at + 1);
  if (at == std::string_view::npos) return std::nullopt;
  return header.substr(at);
}

}  // namespace

Result<SourceTensor> open_npy(const std::string& path) {
  PIPER_ASSIGN(plan::MappedFile file, map_data(path));
  auto bad = [&](const std::string& why) {
    return Status::failure("R0208", "'" + path + "' is no usable .npy file: " + why);
  };
  if (file.bytes < 12 || std::memcmp(file.data, "\x93NUMPY", 6) != 0) return bad("it does not begin as one");
  const int major = static_cast<int>(file.data[6]);
  auto byte = [&](int64_t i) { return static_cast<int64_t>(file.data[i]); };
  const int64_t header_at = major == 1 ? 10 : 12;
  const int64_t header_bytes = byte(8) | byte(9) << 8 | (major == 1 ? 0 : byte(10) << 16 | byte(11) << 24);
  if (header_at + header_bytes > file.bytes) return bad("it is cut off");
  std::string_view header(reinterpret_cast<const char*>(file.data) + header_at, static_cast<size_t>(header_bytes));

  auto descr = after_key(header, "descr");
  auto order = after_key(header, "fortran_order");
  auto shape = after_key(header, "shape");
  if (!descr || !order || !shape || descr->size() < 2 || shape->front() != '(') return bad("its header is damaged");
  const std::string_view type = descr->substr(1, descr->find(descr->front(), 1) - 1);
  auto element = element_of_descr(type);
  if (!element) return bad("element type '" + std::string(type) + "' is not supported");
  if (order->substr(0, 5) != "False") return bad("it is stored in Fortran order; save a C-contiguous array");

  SourceTensor tensor;
  tensor.element = *element;
  int64_t elements = 1;
  for (size_t i = 1; i < shape->size() && (*shape)[i] != ')';) {
    const char c = (*shape)[i];
    if (c < '0' || c > '9') {
      ++i;
      continue;
    }
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(shape->data() + i, shape->data() + shape->size(), extent);
    if (error != std::errc() || extent > file.bytes || (extent > 0 && elements > file.bytes / extent))
      return bad("its shape is larger than the file");
    i = static_cast<size_t>(end - shape->data());
    tensor.shape.push_back(extent);
    elements *= extent;
  }
  if (header_at + header_bytes + elements * element_bytes(*element) > file.bytes) return bad("it is cut off");
  tensor.data = file.data + header_at + header_bytes;
  tensor.keep_alive = std::move(file.mapping);
  return tensor;
}

}  // namespace piper::data
