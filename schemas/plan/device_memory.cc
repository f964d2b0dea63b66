#include "schemas/plan/device_memory.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <set>
#include <tuple>

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

int64_t network_channels_of(int32_t max_ctas) { return std::min(channels_of(max_ctas), kNetworkChannels); }

// The pool of messages to, or from, ranks on other nodes.
int64_t pool_bytes(int32_t max_ctas) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(network_channels_of(max_ctas)))) * kNetworkPoolBytes;
}

bool spans_nodes(const std::vector<int32_t>& ranks, const Target& target) {
  return target.knows_nodes() && std::any_of(ranks.begin(), ranks.end(), [&](int32_t rank) {
           return target.node_of(rank) != target.node_of(ranks[0]);
         });
}

int64_t bytes_of_connections(const Communicator& communicator, const CommunicatorUses& uses) {
  const auto others = static_cast<int64_t>(communicator.ranks.size()) - 1;
  int64_t peers = uses.all_messages ? others : 0;
  // Rings, and chains in both directions: the neighbours on both sides.
  if (uses.all_reduce || uses.reduce_scatter || uses.all_gather) peers += std::min<int64_t>(others, 2);
  return channels_of(communicator.max_ctas) * peers * (kConnectionReceiveBytes + kConnectionSendBytes);
}

// Members on the node of a rank, itself among them.
int64_t members_beside(const Communicator& communicator, int32_t rank, const Target& target) {
  return std::count_if(communicator.ranks.begin(), communicator.ranks.end(),
                       [&](int32_t member) { return target.node_of(member) == target.node_of(rank); });
}

int64_t bytes_over_network(const Communicator& communicator, const CommunicatorUses& uses, int64_t on_node) {
  const auto others = static_cast<int64_t>(communicator.ranks.size()) - 1;
  const int64_t channels = network_channels_of(communicator.max_ctas);
  int64_t bytes = 0;
  if (uses.all_messages) {
    bytes +=
        (on_node - 1) * std::min(channels, kNetworkPeerChannels) * (kConnectionReceiveBytes + kConnectionSendBytes);
    bytes += (on_node + 1) * pool_bytes(communicator.max_ctas);  // receives; sends, and those of its neighbours
  }
  int64_t each_way = 0;
  if (uses.all_reduce || uses.reduce_scatter || uses.all_gather) each_way += 1;
  if (uses.all_reduce) each_way += 4;
  return bytes + channels * 2 * std::min(each_way, others) * kNetworkConnectionBytes;
}

int64_t bytes_on_node(const ChannelUse& use, int32_t max_ctas) {
  return channels_of(max_ctas) * (use.sends ? kConnectionSendBytes : kConnectionReceiveBytes);
}

int64_t calls_with_parts(const Program& program) {
  return std::count_if(program.calls.begin(), program.calls.end(), has_parts);
}

}  // namespace

int64_t communicator_bytes(const RankPlan& plan, const Target& target) {
  return target.device == DeviceKind::kCuda ? communicator_bytes(plan, communication_uses(plan, target.summing), target)
                                            : 0;
}

int64_t communicator_bytes(const RankPlan& plan, const CommunicationUses& uses, const Target& target) {
  if (target.device != DeviceKind::kCuda) return 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < uses.communicators.size(); ++i) {
    const Communicator& of = plan.communicators[i];
    bytes += spans_nodes(of.ranks, target)
                 ? bytes_over_network(of, uses.communicators[i], members_beside(of, plan.rank, target))
                 : bytes_of_connections(of, uses.communicators[i]);
  }
  for (size_t i = 0; i < uses.channels.size(); ++i) {
    const ChannelUse& use = uses.channels[i];
    if (use.stream < 0) continue;
    const int32_t max_ctas = plan.streams[static_cast<size_t>(use.stream)].max_ctas;
    bytes +=
        spans_nodes({plan.rank, plan.channels[i].peer}, target) ? pool_bytes(max_ctas) : bytes_on_node(use, max_ctas);
  }
  return bytes;
}

int64_t least_communicator_bytes(const RankPlan& plan, const Target& target) {
  if (target.device != DeviceKind::kCuda) return 0;
  const CommunicationUses uses = communication_uses(plan, target.summing);
  int64_t bytes = 0;
  for (size_t i = 0; i < uses.communicators.size(); ++i) {
    const Communicator& of = plan.communicators[i];
    bytes +=
        std::min(bytes_over_network(of, uses.communicators[i], 1), bytes_of_connections(of, uses.communicators[i]));
  }
  for (size_t i = 0; i < uses.channels.size(); ++i) {
    const ChannelUse& use = uses.channels[i];
    if (use.stream < 0) continue;
    const int32_t max_ctas = plan.streams[static_cast<size_t>(use.stream)].max_ctas;
    bytes += std::min(pool_bytes(max_ctas), bytes_on_node(use, max_ctas));
  }
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
