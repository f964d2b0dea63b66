#include "schemas/checkpoint/state_parts.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "schemas/plan/names.h"

namespace piper::checkpoint {

namespace {

std::optional<StateKind> kind_of(plan::PlacementKind kind) {
  switch (kind) {
    case plan::PlacementKind::kValue:
    case plan::PlacementKind::kMaster:
    case plan::PlacementKind::kWorking: return StateKind::kParameter;
    case plan::PlacementKind::kFirstMoment: return StateKind::kFirstMoment;
    case plan::PlacementKind::kSecondMoment: return StateKind::kSecondMoment;
    case plan::PlacementKind::kState: return StateKind::kBuffer;
    case plan::PlacementKind::kGradient:
    case plan::PlacementKind::kConstant: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::vector<StatePart> state_parts(const plan::Manifest& manifest, const plan::RankPlan& plan) {
  const plan::PartsByName along(manifest);
  std::vector<StatePart> parts;
  for (const plan::Placement& in_buffer : plan.placements) {
    const auto kind = kind_of(in_buffer.kind);
    if (!kind) continue;
    const plan::Placement placement = along.in_files(in_buffer);
    const bool copy = placement.kind == plan::PlacementKind::kWorking;
    parts.push_back({*kind, placement.name, placement.dtype, placement.shape, placement.part.first,
                     placement.part.count, placement.part.owner && !copy, copy, placement.part.where,
                     along.of(placement.name, placement.shape)});
  }
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const plan::Buffer& buffer = plan.buffers[i];
    if (buffer.cls != plan::BufferClass::kTraining) continue;
    // The same on every rank that has it.
    parts.push_back({StateKind::kTraining,
                     buffer.name,
                     buffer.dtype,
                     buffer.shape,
                     0,
                     buffer.bytes / dtype_bytes(buffer.dtype),
                     true,
                     false,
                     {static_cast<int32_t>(i), 0},
                     {}});
  }
  return parts;
}

plan::TensorToWrite shard_entry(const StoredTensor& tensor, int64_t begin, int64_t end) {
  const int64_t count = end - begin;
  const bool whole = !tensor.cut && plan::element_count(tensor.shape) == count;
  std::string key = std::string(state_kind_name(tensor.kind)) + "/" + tensor.name;
  if (!whole) {
    key += "[" + std::to_string(begin) + ":" + std::to_string(end);
    if (tensor.cut)
      key += " in " + std::to_string(tensor.cut->parts) + " parts along axis " + std::to_string(tensor.cut->axis) +
             (tensor.cut->segments > 1 ? " of " + std::to_string(tensor.cut->segments) + " segments" : "");
    if (tensor.cut && !tensor.cut->extents.empty()) {
      key += " of segments of ";
      for (size_t i = 0; i < tensor.cut->extents.size(); ++i)
        key += (i > 0 ? ", " : "") + std::to_string(tensor.cut->extents[i]);
    }
    key += "]";
  }
  return {key, tensor.dtype, whole ? tensor.shape : std::vector<int64_t>{count}, {}, count * dtype_bytes(tensor.dtype)};
}

int64_t snapshot_bytes(const plan::Manifest& manifest, const plan::RankPlan& plan) {
  // As a shard has them: where a tensor lies is part of the header, and takes as many bytes as it has digits.
  std::vector<StatePart> parts = state_parts(manifest, plan);
  std::sort(parts.begin(), parts.end(), [](const StatePart& a, const StatePart& b) {
    return std::tie(a.kind, a.name, a.first) < std::tie(b.kind, b.name, b.first);
  });
  std::vector<plan::TensorToWrite> entries;
  int64_t bytes = 0;
  for (const StatePart& part : parts) {
    if (!part.owner || part.count == 0) continue;
    entries.push_back(shard_entry({part.name, part.kind, part.dtype, part.shape, {}, {}, stored_cut(part.along)},
                                  part.first, part.first + part.count));
    bytes += entries.back().bytes;
  }
  return entries.empty() ? 0 : bytes + static_cast<int64_t>(plan::safetensors_header(entries).size());
}

}  // namespace piper::checkpoint
