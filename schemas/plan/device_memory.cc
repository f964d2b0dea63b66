#include "schemas/plan/device_memory.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "schemas/plan/communicator_uses.h"

namespace piper::plan {

namespace {

// Kernels whose sums are added in two stages on a GPU, so that their order is the same in every run.
bool has_parts(const KernelCall& call) {
  static constexpr Kernel kWithParts[] = {Kernel::kCrossEntropySum,         Kernel::kExpertOrder,
                                          Kernel::kLayerNormBackwardWeight, Kernel::kOverflows,
                                          Kernel::kRmsNormBackwardWeight,   Kernel::kSquareSum};
  return std::any_of(std::begin(kWithParts), std::end(kWithParts), [&](Kernel k) { return call.kernel == k; });
}

int64_t channels_of(int32_t max_ctas) {
  return max_ctas > 0 ? std::min<int64_t>(max_ctas, kNcclChannels) : kNcclChannels;
}

int64_t calls_with_parts(const Program& program) {
  return std::count_if(program.calls.begin(), program.calls.end(), has_parts);
}

}  // namespace

int64_t communicator_bytes(const RankPlan& plan, const Target& target) {
  if (target.device != DeviceKind::kCuda) return 0;
  constexpr int64_t kBothWays = kConnectionReceiveBytes + kConnectionSendBytes;
  int64_t bytes = 0;
  const std::vector<CommunicatorUses> uses = communicator_uses(plan, target.summing);
  for (size_t i = 0; i < uses.size(); ++i) {
    const auto others = static_cast<int64_t>(plan.communicators[i].ranks.size()) - 1;
    int64_t peers = uses[i].all_messages ? others : 0;
    // Rings, and chains in both directions: the neighbours on both sides.
    if (uses[i].all_reduce || uses[i].reduce_scatter || uses[i].all_gather) peers += std::min<int64_t>(others, 2);
    bytes += channels_of(plan.communicators[i].max_ctas) * peers * kBothWays;
  }
  for (const ChannelUse& use : channel_uses(plan))
    if (use.stream >= 0)
      bytes += channels_of(plan.streams[static_cast<size_t>(use.stream)].max_ctas) *
               (use.sends ? kConnectionSendBytes : kConnectionReceiveBytes);
  return bytes;
}

int64_t kernel_part_bytes(const std::vector<Program>& programs, const RankPlan& plan, const Target& target) {
  if (target.device != DeviceKind::kCuda) return 0;
  std::set<std::tuple<int32_t, int32_t, int32_t, int64_t>> runs;
  int64_t bytes = 0;
  for (const Instruction& instruction : plan.instructions)
    if (const auto* run = std::get_if<Run>(&instruction.action))
      if (runs.emplace(run->program, run->arguments, run->workspace.buffer, run->workspace.offset).second)
        bytes += calls_with_parts(programs.at(static_cast<size_t>(run->program))) * kKernelPartBytes;
  return bytes;
}

}  // namespace piper::plan
