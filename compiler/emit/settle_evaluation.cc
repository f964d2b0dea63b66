#include "compiler/emit/settle_evaluation.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "compiler/emit/pack.h"
#include "schemas/base/check.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/plan/read_ahead.h"

namespace piper::emit {
namespace {

using ClassBytes = std::array<int64_t, plan::kNumBufferClasses>;

// [class] where its region ends.
ClassBytes ends_of(const plan::RankPlan& plan, int64_t alignment) {
  ClassBytes ends{};
  for (const plan::Buffer& buffer : plan.buffers) {
    int64_t& end = ends[static_cast<size_t>(buffer.cls)];
    end = std::max(end, align_up(buffer.offset + std::max<int64_t>(buffer.bytes, 1), alignment));
  }
  return ends;
}

void settle(plan::RankPlan& plan, const plan::RankPlan& training, int64_t alignment) {
  std::unordered_map<std::string_view, const plan::Buffer*> known;
  for (const plan::Buffer& buffer : training.buffers) known.emplace(buffer.name, &buffer);
  ClassBytes ends = ends_of(training, alignment);
  for (plan::Buffer& buffer : plan.buffers.edit()) {
    if (buffer.cls == plan::BufferClass::kArena) continue;
    const auto there = known.find(buffer.name);
    const bool is_own_sum = buffer.cls == plan::BufferClass::kGradient;
    if (!is_own_sum && there != known.end() && there->second->cls == buffer.cls) {
      buffer.offset = there->second->offset;
      continue;
    }
    int64_t& end = ends[static_cast<size_t>(buffer.cls)];
    buffer.offset = end;
    end += align_up(std::max<int64_t>(buffer.bytes, 1), alignment);
  }
  std::unordered_map<std::string_view, int32_t> number;
  for (const plan::Stream& stream : training.streams) number.emplace(stream.name, static_cast<int32_t>(number.size()));
  const std::vector<plan::Stream> own = plan.streams.get();
  for (plan::Instruction& instruction : plan.instructions.edit()) {
    const std::string& name = own[static_cast<size_t>(instruction.stream)].name;
    const auto there = number.find(name);
    PIPER_CHECK(there != number.end(), "the training has no stream ", name);
    instruction.stream = there->second;
  }
  plan.streams = training.streams;
}

}  // namespace

void settle_evaluation(std::vector<RolePlan>& plans, Roles& roles, const plan::Bundle& training, int64_t alignment) {
  const std::vector<int32_t> like = plan::like_ranks(training);
  std::map<std::pair<uint32_t, int32_t>, uint32_t> settled;  // (role, rank that spells the training out)
  std::vector<RolePlan> result;
  std::vector<int32_t> first;
  for (size_t rank = 0; rank < roles.role_of.size(); ++rank) {
    const int32_t of = like[rank] < 0 ? static_cast<int32_t>(rank) : like[rank];
    const auto [it, fresh] =
        settled.emplace(std::make_pair(roles.role_of[rank], of), static_cast<uint32_t>(result.size()));
    if (fresh) {
      result.push_back(plans[roles.role_of[rank]]);
      settle(result.back().plan, training.ranks[static_cast<size_t>(of)], alignment);
      first.push_back(static_cast<int32_t>(rank));
    }
    roles.role_of[rank] = it->second;
  }
  plans = std::move(result);
  roles.first = std::move(first);
}

void add_evaluation(Emitted& training, Emitted evaluation) {
  const int64_t alignment = plan::buffer_alignment(training.bundle.manifest.target.device);
  std::vector<plan::RankSummary>& summaries = training.bundle.manifest.ranks;
  for (size_t rank = 0; rank < summaries.size(); ++rank) {
    plan::RankSummary& s = summaries[rank];
    const plan::RankSummary& evaluates = evaluation.bundle.manifest.ranks[rank];
    const ClassBytes before = ends_of(training.bundle.ranks[rank], alignment),
                     behind = ends_of(evaluation.bundle.ranks[rank], alignment);
    int64_t persistent = 0;
    for (size_t c = 0; c < before.size(); ++c)
      if (c != static_cast<size_t>(plan::BufferClass::kArena))
        persistent += std::max<int64_t>(behind[c] - before[c], 0);
    const int64_t scratch = std::max<int64_t>(evaluates.scratch_bytes - s.scratch_bytes, 0);
    s.persistent_bytes += persistent;
    s.scratch_bytes += scratch;
    s.peak_bytes += persistent + scratch + std::max<int64_t>(evaluates.arena_bytes - s.arena_bytes, 0);
    if (training.bundle.manifest.target.device == plan::DeviceKind::kCpu)
      s.peak_bytes += plan::read_ahead_bytes(evaluation.bundle.manifest, evaluation.bundle.ranks[rank]);
  }
  for (plan::WeightTensor& constant : evaluation.constants) {
    const auto there =
        std::lower_bound(training.constants.begin(), training.constants.end(), constant,
                         [](const plan::WeightTensor& a, const plan::WeightTensor& b) { return a.name < b.name; });
    if (there == training.constants.end() || there->name != constant.name)
      training.constants.insert(there, std::move(constant));
  }
  training.bundle.evaluation.push_back(std::move(evaluation.bundle));
}

}  // namespace piper::emit
