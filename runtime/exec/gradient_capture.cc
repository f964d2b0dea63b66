#include "runtime/exec/gradient_capture.h"

#include <algorithm>

namespace piper::exec {

namespace {

std::map<std::string, int64_t> tensor_indices(const plan::Manifest& manifest) {
  std::map<std::string, int64_t> index;
  for (size_t i = 0; i < manifest.tensors.size(); ++i) index[manifest.tensors[i].name] = static_cast<int64_t>(i);
  return index;
}

}  // namespace

std::byte* GradientCapture::reserve(const plan::BufferRange& range, int64_t bytes) {
  std::vector<std::byte>& copy = copies_[range.buffer];
  if (copy.empty()) copy.resize(static_cast<size_t>(plan_.buffers.at(static_cast<size_t>(range.buffer)).bytes));
  ranges_.push_back({range, bytes});
  return copy.data() + range.offset;
}

std::vector<checkpoint::Piece> GradientCapture::pieces(const plan::Manifest& manifest) const {
  const auto index = tensor_indices(manifest);
  std::vector<checkpoint::Piece> result;
  for (const plan::Placement& placement : plan_.placements) {
    auto tensor = index.find(placement.name);
    const plan::Part& part = placement.part;
    if (placement.kind != plan::PlacementKind::kGradient || tensor == index.end()) continue;
    const int64_t element = dtype_bytes(placement.dtype);
    const int64_t begin = part.where.offset, end = begin + part.count * element;
    for (const Range& range : ranges_) {
      if (range.where.buffer != part.where.buffer) continue;
      const int64_t from = std::max(begin, range.where.offset), to = std::min(end, range.where.offset + range.bytes);
      if (from >= to) continue;
      result.push_back({tensor->second, part.first * element + from - begin, to - from, part.owner,
                        copies_.at(range.where.buffer).data() + from});
    }
  }
  return result;
}

std::vector<checkpoint::Piece> weight_pieces(const plan::Manifest& manifest, const plan::RankPlan& plan,
                                             const std::vector<std::byte*>& buffer_base) {
  const auto index = tensor_indices(manifest);
  std::vector<checkpoint::Piece> result;
  for (const plan::Placement& placement : plan.placements) {
    auto tensor = index.find(placement.name);
    const plan::Part& part = placement.part;
    if (!checkpoint::is_weight(placement) || tensor == index.end()) continue;
    const int64_t element = dtype_bytes(placement.dtype);
    result.push_back({tensor->second, part.first * element, part.count * element, part.owner,
                      buffer_base.at(static_cast<size_t>(part.where.buffer)) + part.where.offset});
  }
  return result;
}

}  // namespace piper::exec
