#include "compiler/tune/pass_times.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace piper::tune {
namespace {

using strategy::Pass;
constexpr size_t kNumPasses = static_cast<size_t>(Pass::kBW) + 1;

// -1: the chunk has no such tag.
int32_t stage_of(const plan::Chunk& chunk, const std::string& tag) {
  if (tag.empty()) return 0;
  for (const plan::Tag& value : chunk.tags)
    if (value.tag == tag) return value.index;
  return -1;
}
std::optional<size_t> pass_of(plan::Pass pass) {
  switch (pass) {
    case plan::Pass::kForward: return static_cast<size_t>(Pass::kF);
    case plan::Pass::kBackward: return static_cast<size_t>(Pass::kB);
    case plan::Pass::kBackwardInput: return static_cast<size_t>(Pass::kBI);
    case plan::Pass::kBackwardWeight: return static_cast<size_t>(Pass::kBW);
    case plan::Pass::kCount:
    case plan::Pass::kCountFinish: break;
  }
  return std::nullopt;
}

// All runs of one pass on one rank.
struct Done {
  double begin = 0, end = 0, compute = 0;
};

}  // namespace

std::vector<int32_t> stages_of(const plan::Bundle& bundle, const plan::RankPlan& rank, const std::string& tag) {
  std::set<int32_t> stages;
  for (const plan::Instruction& instruction : rank.instructions) {
    const auto* run = std::get_if<plan::Run>(&instruction.action);
    if (run == nullptr) continue;
    const auto& of = bundle.programs[static_cast<size_t>(run->program)].of;
    const int32_t stage = of ? stage_of(bundle.manifest.chunks[static_cast<size_t>(of->chunk)], tag) : -1;
    if (stage >= 0) stages.insert(stage);
  }
  return {stages.begin(), stages.end()};
}

PassTimes::PassTimes(const plan::Bundle& bundle, const timeline::Timeline& timeline, const std::string& tag,
                     int32_t stages)
    : times_(static_cast<size_t>(stages), std::vector<PassTime>(kNumPasses)) {
  std::map<std::tuple<size_t, int32_t, size_t, int32_t>, Done> done;  // rank, stage, pass, microbatch
  for (size_t p = 0; p < bundle.ranks.size(); ++p)
    for (size_t i = 0; i < bundle.ranks[p].instructions.size(); ++i) {
      const auto* run = std::get_if<plan::Run>(&bundle.ranks[p].instructions[i].action);
      if (run == nullptr) continue;
      const auto& of = bundle.programs[static_cast<size_t>(run->program)].of;
      const auto pass = of ? pass_of(of->pass) : std::nullopt;
      const int32_t stage = pass ? stage_of(bundle.manifest.chunks[static_cast<size_t>(of->chunk)], tag) : -1;
      const int32_t microbatch = bundle.ranks[p].arguments[static_cast<size_t>(run->arguments)].microbatch;
      if (stage < 0 || stage >= stages) continue;
      const timeline::Activity& activity = timeline.activities[p][i];
      const auto [known, is_new] =
          done.try_emplace({p, stage, *pass, std::max(microbatch, 0)}, Done{activity.begin, activity.end, 0});
      known->second.begin = std::min(known->second.begin, activity.begin);
      known->second.end = std::max(known->second.end, activity.end);
      known->second.compute += activity.end - activity.begin;
    }
  // For an exchange the least that was seen: elsewhere another pass was in between.
  std::map<std::pair<int32_t, size_t>, int64_t> counts;
  for (const auto& [key, one] : done) {
    const auto [p, stage, pass, microbatch] = key;
    PassTime& time = times_[static_cast<size_t>(stage)][pass];
    const double exchange = std::max(0.0, one.end - one.begin - one.compute);
    const int64_t seen = counts[{stage, pass}]++;
    time.compute += (one.compute - time.compute) / static_cast<double>(seen + 1);
    time.exchange = seen == 0 ? exchange : std::min(time.exchange, exchange);
  }
  int64_t messages = 0;
  for (const timeline::Transfer& transfer : timeline.transfers) {
    const timeline::TransferEnd first = timeline.ends_of(transfer)[0];
    const auto& plan = bundle.ranks[static_cast<size_t>(first.plan)];
    if (!std::holds_alternative<plan::Send>(plan.instructions[static_cast<size_t>(first.instruction)].action)) continue;
    message_ += (transfer.end - transfer.begin - message_) / static_cast<double>(++messages);
  }
}

PassTime PassTimes::of(int32_t stage, Pass pass) const {
  const auto& of_stage = times_[static_cast<size_t>(stage)];
  const PassTime& own = of_stage[static_cast<size_t>(pass)];
  const PassTime &whole = of_stage[static_cast<size_t>(Pass::kB)], &input = of_stage[static_cast<size_t>(Pass::kBI)],
                 &weight = of_stage[static_cast<size_t>(Pass::kBW)];
  if (own.compute > 0 || pass == Pass::kF) return own;
  if (pass == Pass::kB) return {input.compute + weight.compute, input.exchange + weight.exchange};
  return {whole.compute / 2, pass == Pass::kBI ? whole.exchange : 0};
}

}  // namespace piper::tune
