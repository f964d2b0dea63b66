// Where a role keeps the tensors of the model, for weights files: whose slices they are and who saves them is said when
// the plan is bound to a rank (bind_rank.h).
#include <algorithm>

#include "compiler/emit/role_emitter.h"

namespace piper::emit {

using plan::PlacementKind;

void RoleEmitter::place_model() {
  if (!module_.evaluates)
    for (uint32_t p : role_.keeps_unread) buffer({BufferKind::kFrozen, p});
  std::vector<plan::Placement> model;
  const auto place = [&](const HeldTensor& held, const std::string& name, PlacementKind kind,
                         const ir::TensorType& whole, const plan::Part& part) {
    model.push_back({name, kind, whole.dtype, whole.shape, part});
    out_.held.push_back(held);
  };
  for (uint32_t p = 0; p < graph().parameters().size(); ++p) {
    const ir::Parameter& info = graph().parameters()[p];
    const ir::TensorType &type = graph().type(info.value), read = info.whole(type), whole = info.trained(read);
    const ir::AccumulatorId use = primary(p);
    if (!use.valid()) {
      if (const int32_t held = find({BufferKind::kFrozen, p}); held >= 0)
        place({HeldTensor::Kind::kFrozen, p, {}}, info.names[0], PlacementKind::kValue, read,
              {{held, 0}, 0, type.elements(), false});
      continue;
    }
    const HeldTensor held{HeldTensor::Kind::kTrained, p, use};
    const ir::Accumulator& a = module_.state.accumulators[use.index];
    const ir::Bucket& b = bucket(a.bucket);
    if (module_.evaluates) {  // what programs read, where they do
      if (find({b.working ? BufferKind::kWorking : BufferKind::kParameters, a.bucket.index}) < 0) continue;
      const ir::Stretch kept = b.kept(b.parameters, position(b));
      const int64_t begin = std::max(a.offset, kept.begin), end = std::min(a.offset + a.bytes, kept.end);
      if (begin < end)
        place(held, info.names[0], b.working ? PlacementKind::kWorking : PlacementKind::kValue, read,
              {working_home(a.bucket).at(b.read_offset(begin)), b.elements(begin - a.offset), b.elements(end - begin),
               false});
      continue;
    }
    const Piece piece = piece_of(use);
    const auto trained = b.working ? PlacementKind::kMaster : PlacementKind::kValue;
    if (b.trained() == ir::Kept::kWhole)
      place(held, info.names[0], trained, whole, {parameter_home(a.bucket).at(a.offset), 0, type.elements(), false});
    else if (piece.count != 0)
      place(held, info.names[0], trained, whole, {piece.value, piece.first, piece.count, false});
    if (b.working && b.parameters == ir::Kept::kWhole)
      place(held, info.names[0], PlacementKind::kWorking, read,
            {working_home(a.bucket).at(b.read_offset(a.offset)), 0, type.elements(), false});
    else if (b.working && piece.count != 0)
      place(held, info.names[0], PlacementKind::kWorking, read, {piece.working, piece.first, piece.count, false});
    if (piece.count == 0) continue;
    place(held, info.names[0], PlacementKind::kGradient, {b.dtype, whole.shape},
          {piece.gradient, piece.first, piece.count, false});
    for (int32_t which = 0; which < s_.moments; ++which)
      place(held, info.names[0], which == 0 ? PlacementKind::kFirstMoment : PlacementKind::kSecondMoment,
            {b.dtype, whole.shape}, {moment_home(a.bucket, which).at(piece.begin), piece.first, piece.count, false});
  }
  for (uint32_t b = 0; b < graph().buffers().size(); ++b) {
    const ir::Parameter& state = graph().buffers()[b];
    const ir::TensorType& type = graph().type(state.value);
    if (const int32_t held = find({BufferKind::kState, b}); held >= 0)
      place({HeldTensor::Kind::kState, b, {}}, state.names[0], PlacementKind::kState, type,
            {{held, 0}, 0, type.elements(), false});
  }
  plan_.placements.insert(plan_.placements.begin(), model.begin(), model.end());
}

}  // namespace piper::emit
