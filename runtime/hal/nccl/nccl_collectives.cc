#include "runtime/hal/nccl/nccl_collectives.h"

#include <map>
#include <tuple>
#include <utility>

#include "runtime/hal/group_channels.h"
#include "runtime/hal/nccl/nccl_commands.h"
#include "runtime/hal/nccl/nccl_communicators.h"
#include "schemas/plan/communicator_uses.h"

namespace piper::hal {

namespace {

class NcclGroup : public Group {
 public:
  NcclGroup(NcclPlace place, plan::Summing summing, std::unique_ptr<Group> by_transfers)
      : place_(place), summing_(summing), by_transfers_(std::move(by_transfers)) {}
  MadeCommand all_reduce(const SumOperands& operands) override {
    return plan::added_by_library(operands.types, summing_) ? nccl_all_reduce(place_, operands)
                                                            : by_transfers_->all_reduce(operands);
  }
  MadeCommand reduce_scatter(const SumOperands& operands) override {
    return plan::added_by_library(operands.types, summing_) ? nccl_reduce_scatter(place_, operands)
                                                            : by_transfers_->reduce_scatter(operands);
  }
  MadeCommand all_gather(const GatherOperands& operands) override { return nccl_all_gather(place_, operands); }
  MadeCommand all_to_all(const ExchangeOperands& operands) override { return by_transfers_->all_to_all(operands); }

 private:
  NcclPlace place_;
  plan::Summing summing_;
  std::unique_ptr<Group> by_transfers_;
};

class NcclCollectives : public Collectives {
 public:
  NcclCollectives(const plan::RankPlan& plan, plan::Summing summing, Device& device, GroupKernels kernels)
      : plan_(plan), summing_(summing), device_(device), kernels_(std::move(kernels)) {}

  // The plan's communicators, then its channels.
  Result<std::vector<std::unique_ptr<Group>>> open_groups(const std::vector<plan::Communicator>& communicators,
                                                          ControlChannel& control, const WaitControl& wait) override {
    std::vector<NcclMembership> memberships = teams(communicators);
    add_edges(memberships);
    PIPER_ASSIGN(communicators_, NcclCommunicators::open(std::move(memberships), control, wait));
    std::vector<std::unique_ptr<Group>> groups;
    for (size_t i = 0; i < communicators.size(); ++i) {
      const NcclPlace place{communicators_.get(), &communicators_->at(i)};
      GroupParts parts;
      parts.exchange = [place](const std::vector<DeviceTransfer>& t) { return nccl_transfers(place, t); };
      parts.sum = kernels_.sum;
      parts.convert = kernels_.convert;
      parts.copy = [this](Address to, Address from, int64_t bytes) { return device_.copy(to, from, bytes); };
      parts.exchange_counted = [this, place](const ExchangeOperands& operands) {
        return nccl_counted_exchange(place, device_, operands);
      };
      groups.push_back(std::make_unique<NcclGroup>(
          place, summing_,
          make_position_group(std::move(parts), communicators[i].ranks, place.on->position(), kGroupChannels)));
    }
    return groups;
  }

  MadeCommand send(const plan::Channel& channel, Address data, int64_t bytes) override {
    return message(Direction::kSend, channel, data, bytes);
  }
  MadeCommand recv(const plan::Channel& channel, Address data, int64_t bytes) override {
    return message(Direction::kReceive, channel, data, bytes);
  }
  int64_t buffer_bytes() const override { return communicators_ == nullptr ? 0 : communicators_->device_bytes(); }
  void keep(std::shared_ptr<const void> memory) override { kept_.push_back(std::move(memory)); }
  Status check() override { return communicators_ == nullptr ? Status() : communicators_->check(); }
  void close() override {
    if (communicators_ != nullptr) communicators_->close();
  }
  void abort() override {
    if (communicators_ != nullptr) communicators_->abort();
  }

 private:
  std::vector<NcclMembership> teams(const std::vector<plan::Communicator>& communicators) const {
    std::vector<NcclMembership> memberships;
    const std::vector<plan::CommunicatorUses> uses = plan::communicator_uses(plan_, summing_);
    for (size_t i = 0; i < communicators.size(); ++i) {
      NcclMembership membership{communicators[i].name, communicators[i].ranks, communicators[i].max_ctas, {}};
      membership.uses = {.all_messages = uses.at(i).all_messages,
                         .all_reduce = uses.at(i).all_reduce,
                         .reduce_scatter = uses.at(i).reduce_scatter,
                         .all_gather = uses.at(i).all_gather};
      memberships.push_back(std::move(membership));
    }
    return memberships;
  }

  // One communicator for each channel: a stream's messages from one rank to another. NCCL runs the calls of a
  // communicator one after the other, on whatever streams they are. So the two directions of a pair have one each, or
  // what a rank sends would wait for what it receives. Channels of one direction could share one without deadlock,
  // since all ranks issue in the order of one list; but they are those of different streams, which do not wait for each
  // other in the plan, and would here.
  void add_edges(std::vector<NcclMembership>& memberships) {
    const std::vector<plan::ChannelUse> uses = plan::channel_uses(plan_);
    for (size_t i = 0; i < plan_.channels.size(); ++i) {
      if (uses[i].stream < 0) continue;  // no message
      const plan::Channel& channel = plan_.channels[i];
      const bool sends = uses[i].sends;
      NcclMembership membership;
      const int32_t from = sends ? plan_.rank : channel.peer, to = sends ? channel.peer : plan_.rank;
      // An id is that of a directed pair: both ends have it.
      membership.name =
          "channel " + std::to_string(channel.id) + ", " + std::to_string(from) + ">" + std::to_string(to);
      membership.ranks = {from, to};
      membership.max_ctas = plan_.streams[static_cast<size_t>(uses[i].stream)].max_ctas;
      membership.uses.one_way = true;
      edges_[{sends ? Direction::kSend : Direction::kReceive, channel.peer, channel.id}] = memberships.size();
      memberships.push_back(std::move(membership));
    }
  }

  MadeCommand message(Direction direction, const plan::Channel& channel, Address data, int64_t bytes) {
    PIPER_RETURN_IF_ERROR(check_channel(channel));
    const auto found = edges_.find({direction, channel.peer, channel.id});
    if (found == edges_.end())
      return Status::failure("R0404", "channel '" + channel.name + "' has no message in this direction");
    return nccl_transfers({communicators_.get(), &communicators_->at(found->second)},
                          {{direction, channel.peer, channel.id, data, bytes}});
  }

  const plan::RankPlan& plan_;
  plan::Summing summing_;
  Device& device_;
  GroupKernels kernels_;
  std::vector<std::shared_ptr<const void>> kept_;                    // longer than what reads and writes it
  std::map<std::tuple<Direction, int32_t, int32_t>, size_t> edges_;  // direction, peer, id -> membership
  std::unique_ptr<NcclCommunicators> communicators_;
};

}  // namespace

std::unique_ptr<Collectives> make_nccl_collectives(const plan::RankPlan& plan, plan::Summing summing, Device& device,
                                                   GroupKernels kernels) {
  return std::make_unique<NcclCollectives>(plan, summing, device, std::move(kernels));
}

}  // namespace piper::hal
