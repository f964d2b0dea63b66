#include "schemas/plan/element_order.h"

#include "schemas/plan/names.h"

namespace piper::plan {

namespace {

constexpr int64_t kGatherBytes = int64_t{8} << 20;

}  // namespace

PartsAlong parts_along(const Manifest& manifest, const TensorInfo& tensor) {
  if (!tensor.cut) return {};
  const PartsAlong along{tensor.cut->axis, manifest.cuts.at(static_cast<size_t>(tensor.cut->cut)).places(),
                         tensor.cut->segments, tensor.cut->extents};
  return ElementOrder(tensor.shape, along).row_major() ? PartsAlong() : along;
}

bool are_segments(const std::vector<int64_t>& extents, int64_t extent, int64_t parts) {
  for (const int64_t each : extents) {
    if (each < 1 || each > extent || each % parts != 0) return false;
    extent -= each;
  }
  return extents.size() > 1 && extent == 0;
}

std::vector<int64_t> counted_shape(const Manifest& manifest, const TensorInfo& tensor) {
  std::vector<int64_t> shape = tensor.shape;
  if (!tensor.cut) return shape;
  const int64_t places = manifest.cuts.at(static_cast<size_t>(tensor.cut->cut)).places();
  int64_t& extent = shape.at(static_cast<size_t>(tensor.cut->axis));
  if (extent % places != 0) extent = (extent / places + 1) * places;
  return shape;
}

ElementOrder::ElementOrder(const std::vector<int64_t>& shape, const PartsAlong& along) {
  if (along.parts == 1) return;
  parts_ = along.parts;
  outer_ = along.segments;
  const auto axis = static_cast<size_t>(along.axis);
  for (size_t k = 0; k < shape.size(); ++k)
    if (k < axis) outer_ *= shape[k];
    else inner_ *= k == axis ? shape[k] / parts_ / along.segments : shape[k];
  if (along.extents.empty() || inner_ == 0) return;
  const int64_t inside = inner_ * parts_ / shape[axis];
  int64_t end = 0;
  for (const int64_t extent : along.extents) ends_.push_back(end += extent * inside);
}

PartsByName::PartsByName(const Manifest& manifest) {
  for (const TensorInfo& tensor : manifest.tensors) {
    if (std::vector<int64_t> counted = counted_shape(manifest, tensor); counted != tensor.shape)
      uneven_.emplace(tensor.name, Uneven{tensor.shape, std::move(counted)});
    if (const PartsAlong along = parts_along(manifest, tensor); along.parts > 1)
      cut_.emplace(tensor.name, Cut{tensor.shape, along});
  }
}

Placement PartsByName::in_files(Placement placement) const {
  const auto found = uneven_.find(placement.name);
  if (found == uneven_.end() || placement.shape != found->second.counted) return placement;
  placement.shape = found->second.shape;
  const int64_t elements = element_count(placement.shape).value_or(0);
  Part& part = placement.part;
  part.first = std::min(part.first, elements);
  part.count = std::min(part.count, elements - part.first);
  return placement;
}

PartsAlong PartsByName::of(const std::string& name, const std::vector<int64_t>& shape) const {
  const auto found = cut_.find(name);
  return found != cut_.end() && found->second.shape == shape ? found->second.along : PartsAlong();
}

Status gather_pieces(int64_t count, int64_t element_bytes, const FillPiece& fill, const UsePiece& use) {
  const int64_t most = std::min(count, kGatherBytes / element_bytes);
  std::vector<std::byte> piece(static_cast<size_t>(most * element_bytes));
  for (int64_t at = 0; at < count; at += most) {
    const int64_t n = std::min(most, count - at);
    PIPER_RETURN_IF_ERROR(fill(at, n, piece.data()));
    PIPER_RETURN_IF_ERROR(use(at, n, piece.data()));
  }
  return {};
}

}  // namespace piper::plan
