#include "schemas/verify/buffer_slots.h"

#include <algorithm>

#include "schemas/verify/accesses.h"

namespace piper::verify {
namespace {

using namespace plan;

std::vector<bool> which_last(const RankPlan& plan, std::span<const RankPlan* const> alike, const Manifest& manifest) {
  std::vector<bool> lasts(plan.buffers.size());
  for (size_t b = 0; b < lasts.size(); ++b) lasts[b] = plan.buffers[b].cls != BufferClass::kArena;
  const auto read = [&](const BufferRange& where) {
    if (where.buffer >= 0) lasts[static_cast<size_t>(where.buffer)] = true;
  };
  for (const BufferRange* where : {&plan.seed_step, &plan.learning_rate, &plan.loss_scale}) read(*where);
  for (const RankPlan* rank : alike)
    for (const Access& access : reported_by(*rank, manifest)) read(access.where);
  for (const Placement& placement : plan.placements) read(placement.part.where);
  for (const InputSlice& input : plan.inputs) read(input.where);
  for (const ScalarValue& scalar : plan.scalars) read({scalar.buffer, 0});
  return lasts;
}

}  // namespace

BufferSlots buffer_slots(const RankPlan& plan, std::span<const RankPlan* const> alike, const Manifest& manifest) {
  const std::vector<bool> lasts = which_last(plan, alike, manifest);
  BufferSlots slots;
  std::vector<size_t>& last = slots.last_named;
  last.assign(plan.buffers.size(), 0);
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    each_buffer(plan, plan.instructions[i].action, [&](int32_t b) { last[static_cast<size_t>(b)] = i; });
  slots.slot_of.assign(plan.buffers.size(), -1);
  for (size_t b = 0; b < lasts.size(); ++b)
    if (lasts[b]) {
      slots.slot_of[b] = slots.count++;
      last[b] = BufferSlots::kAlways;
      slots.lasting.push_back(static_cast<int32_t>(b));
    }
  std::vector<int32_t> free;
  std::vector<bool> freed(plan.buffers.size());  // an instruction may name one twice
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Action& action = plan.instructions[i].action;
    each_buffer(plan, action, [&](int32_t b) {
      int32_t& slot = slots.slot_of[static_cast<size_t>(b)];
      if (slot >= 0) return;
      if (free.empty()) free.push_back(slots.count++);
      slot = free.back();
      free.pop_back();
    });
    each_buffer(plan, action, [&](int32_t b) {
      const auto index = static_cast<size_t>(b);
      if (last[index] != i || freed[index]) return;
      free.push_back(slots.slot_of[index]);
      freed[index] = true;
    });
  }
  // What nothing names.
  const auto unused = std::find(slots.slot_of.begin(), slots.slot_of.end(), -1);
  if (unused != slots.slot_of.end()) std::replace(unused, slots.slot_of.end(), -1, slots.count++);
  return slots;
}

}  // namespace piper::verify
