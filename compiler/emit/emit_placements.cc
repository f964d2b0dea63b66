// Where a role keeps the tensors of the model, for weights files: whose slices they are and who saves them is said when
// the plan is bound to a rank (bind_rank.h).
#include "compiler/emit/role_emitter.h"

namespace piper::emit {
namespace {

plan::Placement placement_of(const std::string& name, const ir::TensorType& type) {
  plan::Placement placement;
  placement.name = name;
  placement.dtype = type.dtype;
  placement.shape = type.shape;
  return placement;
}

}  // namespace

void RoleEmitter::place_model() {
  for (uint32_t p : role_.keeps_unread) buffer({BufferKind::kFrozen, p});
  std::vector<plan::Placement> model;
  for (uint32_t p = 0; p < graph().parameters().size(); ++p) {
    const ir::Parameter& info = graph().parameters()[p];
    const ir::TensorType& type = graph().type(info.value);
    plan::Placement placement = placement_of(info.names[0], info.whole(type));
    const ir::AccumulatorId use = primary(p);
    if (!use.valid()) {
      const int32_t held = find({BufferKind::kFrozen, p});
      if (held < 0) continue;
      placement.value = {{held, 0}, 0, type.elements(), false};
    } else {
      const ir::Accumulator& a = module_.state.accumulators[use.index];
      const Piece piece = piece_of(use);
      if (bucket(a.bucket).parameters == ir::Kept::kWhole)
        placement.value = {parameter_home(a.bucket).at(a.offset), 0, type.elements(), false};
      else placement.value = {piece.value, piece.first, piece.count, false};
      if (placement.value.count == 0) continue;
      if (piece.count != 0) placement.gradient = {piece.gradient, piece.first, piece.count, false};
    }
    model.push_back(std::move(placement));
    out_.held.push_back({use.valid() ? HeldTensor::Kind::kTrained : HeldTensor::Kind::kFrozen, p, use});
  }
  for (uint32_t b = 0; b < graph().buffers().size(); ++b) {
    const ir::Parameter& state = graph().buffers()[b];
    const int32_t held = find({BufferKind::kState, b});
    if (held < 0) continue;
    const ir::TensorType& type = graph().type(state.value);
    plan::Placement placement = placement_of(state.names[0], type);
    placement.value = {{held, 0}, 0, type.elements(), false};
    model.push_back(std::move(placement));
    out_.held.push_back({HeldTensor::Kind::kState, b, {}});
  }
  plan_.placements.insert(plan_.placements.begin(), model.begin(), model.end());
}

}  // namespace piper::emit
