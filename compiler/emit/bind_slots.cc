// Buffers of a role: found by what they hold, declared when they are first asked for.
#include <algorithm>

#include "compiler/emit/role_emitter.h"
#include "schemas/base/check.h"

namespace piper::emit {

using plan::BufferRange;

int32_t RoleEmitter::find(const BufferKey& key) const {
  const auto it = buffers_.find(key);
  return it == buffers_.end() ? -1 : it->second;
}

int32_t RoleEmitter::declare(const BufferKey& key, plan::Buffer buffer) {
  const auto [it, fresh] = buffers_.try_emplace(key, static_cast<int32_t>(plan_.buffers.size()));
  if (fresh) plan_.buffers.push_back(std::move(buffer));
  return it->second;
}

int32_t RoleEmitter::buffer(const BufferKey& key) {
  const int32_t known = find(key);
  return known >= 0 ? known : declare(key, s_.buffers.declaration(key));
}

BufferKey RoleEmitter::read_of(ir::BucketId id) const {
  return {bucket(id).working ? BufferKind::kWorking : BufferKind::kParameters, id.index};
}

// The buffer of a bucket's summed gradients.
BufferKey RoleEmitter::summed_of(ir::BucketId id) const {
  return bucket(id).summed() == ir::Kept::kPart ? BufferKey{BufferKind::kSummedPart, id.index}
                                                : s_.buffers.gradients(id, -1);
}

BufferKey RoleEmitter::moment_of(ir::BucketId id, int32_t which) {
  return {which == 0 ? BufferKind::kFirstMoment : BufferKind::kSecondMoment, id.index};
}

ir::Stretch RoleEmitter::own_part(const ir::Bucket& bucket) const {
  const int32_t position = role_.position[bucket.teams.index];
  PIPER_CHECK(position >= 0, "a role that does not know its part of ", bucket.name);
  return bucket.part(position);
}

// Where a compute reads a parameter.
BufferRange RoleEmitter::parameter(uint32_t p, const Visit& reader) {
  const ir::AccumulatorId use = primary(p);
  if (!use.valid()) return start_of({BufferKind::kFrozen, p});
  const ir::Accumulator& a = module_.state.accumulators[use.index];
  const int64_t offset = bucket(a.bucket).read_offset(a.offset);
  if (bucket(a.bucket).parameters == ir::Kept::kWhole) return {buffer(read_of(a.bucket)), offset};
  const ir::NodeId gather = module_.state.gathers.at({a.bucket, reader.id});
  const int32_t gathered = find(s_.buffers.gathered_for(a.bucket, gather));
  PIPER_CHECK(gathered >= 0, "nothing gathers ", bucket(a.bucket).name, " for ", module_.describe(reader.id));
  return {gathered, offset};
}

BufferRange RoleEmitter::gradient(ir::AccumulatorId use, int32_t microbatch) {
  const ir::Accumulator& a = module_.state.accumulators[use.index];
  return {buffer(s_.buffers.gradients(a.bucket, microbatch)), a.offset};
}

// The part of a use's summed gradient that this device holds after the reduction: all of it, or the device's part of
// the bucket.
BufferRange RoleEmitter::summed_gradient(ir::AccumulatorId use) {
  const ir::Accumulator& a = module_.state.accumulators[use.index];
  const ir::Bucket& b = bucket(a.bucket);
  if (b.moments == ir::Kept::kWhole) return gradient(use, -1);
  return {buffer(summed_of(a.bucket)), b.summed() == ir::Kept::kPart ? 0 : own_part(b).begin};
}

// One workspace a stream: programs of two streams run at the same time. divide_workspaces may take it apart.
BufferRange RoleEmitter::workspace(int64_t bytes, int32_t stream_index) {
  if (bytes == 0) return {};
  const int32_t b = declare({BufferKind::kWorkspace, static_cast<uint32_t>(stream_index)},
                            s_.buffers.workspace(plan_.streams[stream_index].name));
  if (plan_.buffers[b].bytes < bytes) plan_.buffers.edit()[b].bytes = bytes;
  return {b, 0};
}

BufferRange RoleEmitter::bind_input(uint32_t index, size_t variant, int32_t microbatch, ir::GroupId group) {
  const ir::Input& input = graph(variant).inputs()[index];
  const BufferKey key = input.batched ? BufferKey{BufferKind::kInput, index, microbatch, static_cast<uint32_t>(variant)}
                                      : BufferKey{BufferKind::kInput, index};
  if (const int32_t known = find(key); known >= 0) return {known, 0};
  plan::InputSlice slice;
  slice.input = input.name;
  slice.where = start_of(key);
  if (input.batched) {
    slice.count = module_.variants[variant].local_batch;
    out_.samples.push_back({slice.where.buffer, group, microbatch});
  }
  plan_.inputs.push_back(slice);
  return slice.where;
}

BufferRange RoleEmitter::bind_constant(uint32_t index, size_t variant) {
  const BufferKey key{BufferKind::kConstant, s_.constant_number(variant, index)};
  if (const int32_t known = find(key); known >= 0) return {known, 0};
  const ir::TensorType& type = graph(variant).type(graph(variant).constants()[index].value);
  const std::string& name = s_.use_constant(key.id);
  const BufferRange where{declare(key, s_.buffers.constant(name, type)), 0};
  plan_.placements.push_back(
      {name, plan::PlacementKind::kConstant, type.dtype, type.shape, {where, 0, type.elements(), false}});
  return where;
}

BufferRange RoleEmitter::bind(const ir::SlotHolds& holds, const plan::Slot& slot, size_t variant,
                              const ir::ComputeNode& pass, const Visit& at) {
  using Kind = ir::SlotHolds::Kind;
  const auto of_variant = static_cast<uint32_t>(variant);
  switch (holds.kind) {
    case Kind::kValue: return value(holds.value, pass.microbatch, variant);
    case Kind::kInput: return bind_input(holds.index, variant, pass.microbatch, at.node.group);
    case Kind::kParameter: return parameter(holds.index, at);
    case Kind::kGradient: return gradient(module_.find_accumulator(holds.index, pass.chunk), pass.microbatch);
    case Kind::kBuffer: return start_of({BufferKind::kState, holds.index});
    case Kind::kConstant: return bind_constant(holds.index, variant);
    case Kind::kSeedStep: return plan_.seed_step = start_of({BufferKind::kSeedStep});
    case Kind::kLossScale: return start_of({BufferKind::kLossScale});
    case Kind::kSampleOffset: {
      const BufferKey key{BufferKind::kSampleOffset, 0, pass.microbatch, of_variant};
      const bool fresh = find(key) < 0;
      const int32_t b = buffer(key);
      if (fresh) {
        plan_.scalars.push_back({b, {0}});
        out_.samples.push_back({b, at.node.group, pass.microbatch});
      }
      return {b, 0};
    }
    case Kind::kPlace: {
      const BufferKey key{BufferKind::kPlace};
      const bool fresh = find(key) < 0;
      const int32_t b = buffer(key);
      if (fresh) plan_.scalars.push_back({b, {0}, plan::StepNumber::kPlace});
      return {b, 0};
    }
    case Kind::kSaved: {
      const BufferKey key{BufferKind::kSaved, pass.chunk.index, pass.microbatch, of_variant, holds.index};
      const int32_t known = find(key);
      return {known >= 0 ? known : declare(key, s_.buffers.saved(key, slot.bytes)), 0};
    }
    case Kind::kCount: return scalar(s_.count_of(holds.value));
    case Kind::kStepValue: return start_of({BufferKind::kStepValue, holds.value.index});
    case Kind::kStepSum: return start_of({BufferKind::kScalarSum, holds.index});
  }
  return {};
}

}  // namespace piper::emit
