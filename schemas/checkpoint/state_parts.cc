#include "schemas/checkpoint/state_parts.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "schemas/plan/safetensors.h"

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

std::vector<StatePart> state_parts(const plan::RankPlan& plan) {
  std::vector<StatePart> parts;
  for (const plan::Placement& placement : plan.placements) {
    const auto kind = kind_of(placement.kind);
    if (!kind) continue;
    const bool copy = placement.kind == plan::PlacementKind::kWorking;
    parts.push_back({*kind, placement.name, placement.dtype, placement.shape, placement.part.first,
                     placement.part.count, placement.part.owner && !copy, copy, placement.part.where});
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
                     {static_cast<int32_t>(i), 0}});
  }
  return parts;
}

std::string shard_key(StateKind kind, const std::string& name, int64_t begin, int64_t end, bool whole) {
  std::string key = std::string(state_kind_name(kind)) + "/" + name;
  if (!whole) key += "[" + std::to_string(begin) + ":" + std::to_string(end) + "]";
  return key;
}

int64_t snapshot_bytes(const plan::RankPlan& plan) {
  // As a shard has them: where a tensor lies is part of the header, and takes as many bytes as it has digits.
  std::vector<StatePart> parts = state_parts(plan);
  std::sort(parts.begin(), parts.end(), [](const StatePart& a, const StatePart& b) {
    return std::tie(a.kind, a.name, a.first) < std::tie(b.kind, b.name, b.first);
  });
  std::vector<plan::TensorToWrite> entries;
  int64_t bytes = 0;
  for (const StatePart& part : parts) {
    if (!part.owner || part.count == 0) continue;
    int64_t elements = 1;
    for (const int64_t extent : part.shape) elements *= extent;
    const bool whole = part.count == elements;
    const int64_t size = part.count * dtype_bytes(part.dtype);
    entries.push_back({shard_key(part.kind, part.name, part.first, part.first + part.count, whole),
                       part.dtype,
                       whole ? part.shape : std::vector<int64_t>{part.count},
                       {},
                       size});
    bytes += size;
  }
  return entries.empty() ? 0 : bytes + static_cast<int64_t>(plan::safetensors_header(entries).size());
}

}  // namespace piper::checkpoint
