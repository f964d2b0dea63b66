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
    const ir::TensorType &type = graph().type(info.value), read = info.counted(type), whole = info.trained(read);
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
    // For what the bucket's members divide the parts are cut when the plan is bound. What is not there is not updated.
    const auto place_in = [&](const BufferKey& key, ir::Kept divided, ir::Kept kept, bool read, PlacementKind kind,
                              const ir::TensorType& whole) {
      const int32_t there = find(key);
      if (there < 0) return;
      const auto at = [&](int64_t offset) { return read ? b.read_offset(offset) : offset; };
      HeldTensor of = held;
      if (divided == ir::Kept::kPart) of.cut = true, of.kept = kept, of.read = read;
      const bool cut = of.cut;
      place(of, info.names[0], kind, whole, {{there, cut ? 0 : at(a.offset)}, 0, cut ? 0 : type.elements(), false});
    };
    const PlacementKind working = b.working ? PlacementKind::kWorking : PlacementKind::kValue;
    if (module_.evaluates) {  // what programs read, where they do
      place_in(read_of(a.bucket), b.parameters, b.parameters, true, working, read);
      continue;
    }
    place_in(parameters_of(a.bucket), b.trained(), b.trained(), false,
             b.working ? PlacementKind::kMaster : PlacementKind::kValue, whole);
    if (b.working) place_in(read_of(a.bucket), b.parameters, b.parameters, true, working, read);
    const ir::TensorType updated{b.dtype, whole.shape};
    place_in(summed_of(a.bucket), b.moments, b.summed(), false, PlacementKind::kGradient, updated);
    for (int32_t which = 0; which < s_.update_of(b).num_moments(); ++which)
      place_in(moment_of(a.bucket, which), b.moments, b.moments, false,
               which == 0 ? PlacementKind::kFirstMoment : PlacementKind::kSecondMoment, updated);
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
