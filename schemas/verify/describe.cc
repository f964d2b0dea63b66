#include "schemas/verify/describe.h"

#include "schemas/plan/names.h"
#include "schemas/plan/own_part.h"

namespace piper::verify {
namespace {

using namespace plan;

class Describe {
 public:
  Describe(const Bundle& bundle, const RankPlan& plan) : bundle_(bundle), plan_(plan) {}

  std::string operator()(const Run& run) const {
    return "run " + bundle_.programs.at(static_cast<size_t>(run.program)).name + " with " +
           in_quotes(plan_.arguments.at(static_cast<size_t>(run.arguments)).name);
  }
  std::string operator()(const Send& send) const {
    return "send " + range(send.data) + " to rank " + peer(send.channel) + " on channel " + channel(send.channel) +
           ", " + std::to_string(send.bytes()) + " bytes";
  }
  std::string operator()(const Recv& recv) const {
    return "recv " + range(recv.data) + " from rank " + peer(recv.channel) + " on channel " + channel(recv.channel) +
           ", " + std::to_string(recv.bytes()) + " bytes";
  }
  std::string operator()(const AllReduce& reduce) const {
    return "all_reduce " + range(reduce.data) + " over " + communicator(reduce.communicator) + ", " +
           std::to_string(reduce.count) + " " + std::string(dtype_name(reduce.types.data));
  }
  std::string operator()(const ReduceScatter& reduce) const {
    return "reduce_scatter " + range(reduce.data) + " to " + range(own_part(plan_, reduce)) + " over " +
           communicator(reduce.communicator) + ", " + std::to_string(reduce.count) + " " +
           std::string(dtype_name(reduce.types.data)) + " a member";
  }
  std::string operator()(const AllGather& gather) const {
    return "all_gather " + range(own_part(plan_, gather)) + " to " + range(gather.data) + " over " +
           communicator(gather.communicator) + ", " + std::to_string(gather.bytes()) + " bytes a member";
  }
  std::string operator()(const AllToAll& exchange) const {
    return "all_to_all " + range(exchange.send) + " to " + range(exchange.recv) + " over " +
           communicator(exchange.communicator) + ", " + (exchange.send_counts.buffer >= 0 ? "up to " : "") +
           std::to_string(exchange.bytes()) + " bytes a pair";
  }
  std::string operator()(const Record& record) const { return "record " + event(record.event); }
  std::string operator()(const Wait& wait) const { return "wait " + event(wait.event); }
  std::string operator()(const Update& update) const {
    return "update by " + bundle_.programs.at(static_cast<size_t>(update.program)).name + " with " +
           in_quotes(plan_.arguments.at(static_cast<size_t>(update.arguments)).name);
  }

 private:
  std::string peer(int32_t channel) const {
    return std::to_string(plan_.channels.at(static_cast<size_t>(channel)).peer);
  }
  std::string range(const BufferRange& where) const {
    const auto& name = plan_.buffers.at(static_cast<size_t>(where.buffer)).name;
    return in_quotes(where.offset == 0 ? name : name + "+" + std::to_string(where.offset));
  }
  std::string communicator(int32_t index) const {
    return in_quotes(plan_.communicators.at(static_cast<size_t>(index)).name);
  }
  std::string channel(int32_t index) const { return in_quotes(plan_.channels.at(static_cast<size_t>(index)).name); }
  std::string event(int32_t index) const { return in_quotes(plan_.events.at(static_cast<size_t>(index))); }

  const Bundle& bundle_;
  const RankPlan& plan_;
};

}  // namespace

std::string describe_action(const Bundle& bundle, const RankPlan& plan, const Action& action) {
  return std::visit(Describe(bundle, plan), action);
}

std::string describe_instruction(const Bundle& bundle, const RankPlan& plan, size_t index) {
  const auto& instruction = plan.instructions.at(index);
  std::string text = "rank " + std::to_string(plan.rank) + " instruction " + std::to_string(index) + " (" +
                     describe_action(bundle, plan, instruction.action) + ", on stream " +
                     in_quotes(plan.streams.at(static_cast<size_t>(instruction.stream)).name);
  // Ranks of a kind have lost theirs (fold_ranks.h).
  if (static_cast<size_t>(instruction.provenance) < bundle.provenance.size())
    text += "; " + bundle.provenance[static_cast<size_t>(instruction.provenance)].key;
  return text + ")";
}

std::string describe_rank(const RankPlan& plan) { return "rank " + std::to_string(plan.rank); }

const char* describe_kind(PlacementKind kind) {
  switch (kind) {
    case PlacementKind::kFirstMoment: return "first moment";
    case PlacementKind::kSecondMoment: return "second moment";
    case PlacementKind::kGradient: return "gradient";
    case PlacementKind::kMaster: return "master";
    case PlacementKind::kWorking: return "working copy";
    case PlacementKind::kValue:
    case PlacementKind::kState:
    case PlacementKind::kConstant: break;
  }
  return "value";
}

}  // namespace piper::verify
