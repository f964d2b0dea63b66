#include "runtime/exec/gradient_capture.h"

#include <algorithm>

namespace piper::exec {

namespace {

std::map<std::string, int64_t> tensor_indices(const plan::Manifest& manifest) {
  std::map<std::string, int64_t> index;
  for (size_t i = 0; i < manifest.tensors.size(); ++i) index[manifest.tensors[i].name] = static_cast<int64_t>(i);
  return index;
}

// What is trained, and running statistics.
bool steps_change(const plan::TensorInfo& tensor, const plan::Placement& placement) {
  const bool statistic = placement.kind == plan::PlacementKind::kState && tensor.buffer == plan::ModelBuffer::kNone;
  return tensor.trained || statistic;
}

}  // namespace

Result<std::unique_ptr<GradientCapture>> GradientCapture::make(const plan::Bundle& bundle, const plan::RankPlan& plan,
                                                               const std::vector<hal::Address>& buffers,
                                                               hal::Device& device) {
  std::unique_ptr<GradientCapture> capture(new GradientCapture(plan));
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const auto* update = std::get_if<plan::Update>(&plan.instructions[i].action);
    if (update == nullptr) continue;
    const auto& slots = bundle.programs.at(static_cast<size_t>(update->program)).slots;
    const auto& arguments = plan.arguments.at(static_cast<size_t>(update->arguments)).arguments;
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      if (slots[slot].role != plan::SlotRole::kGradient) continue;
      const plan::BufferRange& where = arguments.at(slot);
      const auto buffer = static_cast<size_t>(where.buffer);
      auto& memory = capture->copies_[where.buffer];
      if (memory == nullptr) {
        PIPER_ASSIGN(memory, device.allocate_host(plan.buffers.at(buffer).bytes));
      }
      capture->ranges_.push_back(
          {static_cast<int32_t>(i), where, slots[slot].bytes,
           device.copy(memory->address() + where.offset, buffers[buffer] + where.offset, slots[slot].bytes)});
    }
  }
  return capture;
}

std::vector<hal::Command*> GradientCapture::before(int32_t instruction) const {
  std::vector<hal::Command*> copies;
  auto range = std::lower_bound(ranges_.begin(), ranges_.end(), instruction,
                                [](const Range& r, int32_t wanted) { return r.instruction < wanted; });
  for (; range != ranges_.end() && range->instruction == instruction; ++range) copies.push_back(range->copy.get());
  return copies;
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
                        copies_.at(range.where.buffer)->address() + from});
    }
  }
  return result;
}

std::vector<checkpoint::Piece> weight_pieces(const plan::Manifest& manifest, const plan::RankPlan& plan,
                                             const std::vector<hal::Address>& buffers, bool changing) {
  const auto index = tensor_indices(manifest);
  std::vector<checkpoint::Piece> result;
  for (const plan::Placement& placement : plan.placements) {
    auto tensor = index.find(placement.name);
    const plan::Part& part = placement.part;
    if (!checkpoint::is_weight(placement) || tensor == index.end()) continue;
    if (placement.kind == plan::PlacementKind::kWorking) continue;  // a copy: masters are saved
    if (changing && !steps_change(manifest.tensors[static_cast<size_t>(tensor->second)], placement)) continue;
    const int64_t element = dtype_bytes(placement.dtype);
    result.push_back({tensor->second, part.first * element, part.count * element, part.owner,
                      buffers.at(static_cast<size_t>(part.where.buffer)) + part.where.offset});
  }
  return result;
}

}  // namespace piper::exec
