// The plan of a rank that does the work of another: who its peers are, which samples it takes, which parts of the model
// it holds.
#include <algorithm>

#include "compiler/emit/rank_emitter.h"
#include "schemas/base/check.h"

namespace piper::emit {

using plan::BufferClass;

plan::RankPlan RankEmitter::emit_like(const plan::RankPlan& first, const SampleOrigins& samples, const RankWork& work) {
  plan_ = first;
  plan_.rank = rank_;
  const auto find = [&](const auto& known, const std::string& name) {
    const auto it = std::find_if(known.begin(), known.end(),
                                 [&](const auto& entry) { return s_.connections.name(entry.first) == name; });
    PIPER_CHECK(it != known.end(), "rank ", rank_, " has no ", name, ", which rank ", first.rank, " has");
    return it->second;
  };
  for (plan::Channel& channel : plan_.channels) channel.peer = find(work.channels, channel.name);
  for (plan::Communicator& communicator : plan_.communicators)
    communicator.ranks = *find(work.communicators, communicator.name);
  const auto first_of = [&](int32_t buffer) {
    const auto& [group, microbatch] = samples.at(plan_.buffers[buffer].name);
    return first_sample(group, microbatch);
  };
  for (plan::InputSlice& input : plan_.inputs)
    if (samples.contains(plan_.buffers[input.where.buffer].name)) input.first = first_of(input.where.buffer);
  for (plan::ScalarValue& scalar : plan_.scalars) scalar.values = {first_of(scalar.buffer)};
  // The parts of the model are the rank's own; constants are not.
  for (size_t b = 0; b < plan_.buffers.size(); ++b)
    if (plan_.buffers[b].cls != BufferClass::kArena) buffers_.insert(static_cast<int32_t>(b));
  std::erase_if(plan_.placements, [&](const plan::Placement& placement) {
    return placement.value.where.buffer < 0 ||
           plan_.buffers[placement.value.where.buffer].cls != BufferClass::kConstant;
  });
  finish_placements();
  PIPER_CHECK(plan_.buffers.shares(first.buffers), "rank ", rank_, " needs a buffer that rank ", first.rank,
              " has not");
  return std::move(plan_);
}

}  // namespace piper::emit
