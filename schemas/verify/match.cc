#include "schemas/verify/match.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "schemas/plan/actions.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/order.h"
#include "schemas/verify/rules.h"

namespace piper::verify {
namespace {

using namespace plan;

// What the members of a collective must agree on. A count of the exchanged rows is known at run time only.
struct Collective {
  size_t kind = 0;    // of the Action
  int64_t count = 0;  // elements
  SumTypes types;
  Reduction reduction = Reduction::kSum;
  int64_t row = 0;            // > 0: counted rows of so many elements travel
  int32_t communicator = -1;  // each rank's own index: not compared
  bool operator==(const Collective& other) const {
    const auto agreed = [](const Collective& c) {
      return std::tie(c.kind, c.count, c.types.data, c.types.message, c.types.sum, c.reduction, c.row);
    };
    return agreed(*this) == agreed(other);
  }
};

std::optional<Collective> collective_of(const Action& action) {
  using Found = std::optional<Collective>;
  const size_t kind = action.index();
  return std::visit(
      Cases{[&](const IsSum auto& a) { return Found({kind, a.count, a.types, a.reduction, 0, a.communicator}); },
            [&](const AllGather& a) { return Found({kind, a.count, a.dtype, Reduction::kSum, 0, a.communicator}); },
            [&](const AllToAll& a) { return Found({kind, a.count, a.dtype, Reduction::kSum, a.row, a.communicator}); },
            [](const IsOneOf<Run, Update, Send, Recv, Record, Wait> auto&) { return Found(); }},
      action);
}

// The ranges whose elements an action takes to be of a type; buffer -1: none.
struct Typed {
  BufferRange first, second;
  DType dtype = DType::kF32;
};
Typed typed_ranges(const Action& action) {
  return std::visit(Cases{[](const IsOneOf<Send, Recv> auto& a) { return Typed{a.data, {}, a.dtype}; },
                          [](const AllReduce& a) { return Typed{a.data, {}, a.types.data}; },
                          [](const ReduceScatter& a) { return Typed{a.data, a.out, a.types.data}; },
                          [](const AllGather& a) { return Typed{a.part, a.data, a.dtype}; },
                          [](const AllToAll& a) { return Typed{a.send, a.recv, a.dtype}; },
                          [](const IsLaunch auto&) { return Typed{}; }, [](const IsEvent auto&) { return Typed{}; }},
                    action);
}

// One end of a message. Sorted by (src, dst, channel, end, place in the issue order).
struct End {
  int32_t src, dst, channel;
  bool receives;
  int32_t plan, instruction;
  int64_t count;
  DType dtype;
  auto key() const { return std::tie(src, dst, channel); }
  auto order() const { return std::tie(src, dst, channel, receives, instruction); }
};

class Matcher {
 public:
  explicit Matcher(const Bundle& bundle)
      : bundle_(bundle), plan_of_(static_cast<size_t>(bundle.manifest.world_size), -1) {}

  Result<Matching> match() {
    for (size_t p = 0; p < bundle_.ranks.size(); ++p) {
      const auto& plan = bundle_.ranks[p];
      PIPER_CHECK(plan.rank >= 0 && static_cast<size_t>(plan.rank) < plan_of_.size());
      plan_of_[static_cast<size_t>(plan.rank)] = static_cast<int32_t>(p);
      matching_.transfer_of.emplace_back(plan.instructions.size(), -1);
    }
    for (size_t p = 0; p < bundle_.ranks.size(); ++p) PIPER_RETURN_IF_ERROR(collect(static_cast<int32_t>(p)));
    PIPER_RETURN_IF_ERROR(messages());
    PIPER_RETURN_IF_ERROR(collectives());
    matching_.first.push_back(static_cast<int64_t>(matching_.participants.size()));
    return std::move(matching_);
  }

 private:
  std::string name(int32_t plan, int32_t instruction) const {
    return describe_instruction(bundle_, bundle_.ranks[static_cast<size_t>(plan)], static_cast<size_t>(instruction));
  }
  bool loaded(int32_t rank) const {
    return rank >= 0 && static_cast<size_t>(rank) < plan_of_.size() && plan_of_[static_cast<size_t>(rank)] >= 0;
  }

  // The last operation on a channel or communicator of this rank, to fix the order of the next.
  struct Last {
    Moment moment;
    int32_t instruction = -1;
  };
  Status follow(const VectorClocks& clocks, Last& last, const Moment& moment, int32_t plan, int32_t index, Rule rule) {
    if (last.instruction >= 0 && !clocks.before(last.moment, moment.stream))
      return violates(rule, "nothing orders " + name(plan, last.instruction) + " and " + name(plan, index));
    last = {moment, index};
    return {};
  }

  // Floating sums may be taken, and travel, as other floating types; numbers of other types as what they are.
  static bool are_sums(const SumTypes& types) {
    if (!is_floating(types.data)) return types == SumTypes(types.data);
    return is_floating(types.message) && is_floating(types.sum);
  }
  Status check_types(int32_t p, int32_t index) const {
    const auto& plan = bundle_.ranks[static_cast<size_t>(p)];
    const Action& action = plan.instructions[static_cast<size_t>(index)].action;
    if (const auto collective = collective_of(action); collective && !are_sums(collective->types))
      return violates(Rule::kCollectives, name(p, index) + " adds " + std::string(dtype_name(collective->types.data)) +
                                              " as elements of another kind");
    const Typed typed = typed_ranges(action);
    for (const BufferRange* where : {&typed.first, &typed.second}) {
      if (where->buffer < 0) continue;
      const Buffer& buffer = plan.buffers[static_cast<size_t>(where->buffer)];
      if (buffer.dtype != typed.dtype)
        return violates(Rule::kMessages, name(p, index) + " takes elements of \"" + buffer.name + "\" for " +
                                             std::string(dtype_name(typed.dtype)) + ", which are " +
                                             std::string(dtype_name(buffer.dtype)));
    }
    return {};
  }

  Status collect(int32_t p) {
    const auto& plan = bundle_.ranks[static_cast<size_t>(p)];
    VectorClocks clocks(plan);
    std::map<std::tuple<bool, int32_t, int32_t>, Last> channels;
    std::vector<Last> communicators(plan.communicators.size());
    std::vector<std::vector<int32_t>*> operations(plan.communicators.size());  // in groups_
    std::vector<char> recorded(plan.events.size());
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const auto& instruction = plan.instructions[i];
      const auto index = static_cast<int32_t>(i);
      if (const int32_t event = recorded_event(instruction.action); event >= 0)
        if (recorded[static_cast<size_t>(event)]++)
          return violates(Rule::kEvents, name(p, index) + " records an event that is already recorded");
      PIPER_RETURN_IF_ERROR(check_types(p, index));
      const Moment moment = clocks.advance(instruction);
      const auto send_or_recv = [&](const auto& message, bool receives) -> Status {
        const Channel& channel = plan.channels[static_cast<size_t>(message.channel)];
        PIPER_RETURN_IF_ERROR(
            follow(clocks, channels[{receives, channel.peer, channel.id}], moment, p, index, Rule::kMessages));
        if (!loaded(channel.peer)) return {};
        const auto [src, dst] = receives ? std::pair(channel.peer, plan.rank) : std::pair(plan.rank, channel.peer);
        ends_.push_back({src, dst, channel.id, receives, p, index, message.count, message.dtype});
        return {};
      };
      const auto collective = [&](int32_t communicator) -> Status {
        const auto c = static_cast<size_t>(communicator);
        PIPER_RETURN_IF_ERROR(follow(clocks, communicators[c], moment, p, index, Rule::kCollectives));
        if (operations[c] == nullptr)
          operations[c] = &groups_[{plan.communicators[c].name, plan.communicators[c].ranks}][p];
        operations[c]->push_back(index);
        return {};
      };
      PIPER_RETURN_IF_ERROR(
          std::visit(Cases{[&](const Send& send) { return send_or_recv(send, false); },
                           [&](const Recv& recv) { return send_or_recv(recv, true); },
                           [&](const IsCollective auto& a) { return collective(a.communicator); },
                           [](const IsLaunch auto&) { return Status(); }, [](const IsEvent auto&) { return Status(); }},
                     instruction.action));
    }
    for (size_t i = 0; i < plan.instructions.size(); ++i)
      if (const int32_t event = awaited_event(plan.instructions[i].action); event >= 0)
        if (!recorded[static_cast<size_t>(event)])
          return violates(Rule::kEvents, name(p, static_cast<int32_t>(i)) + " waits for an event that nothing records");
    return {};
  }

  const std::string& channel_name(const End& end) const {
    const auto& plan = bundle_.ranks[static_cast<size_t>(end.plan)];
    const auto& action = plan.instructions[static_cast<size_t>(end.instruction)].action;
    const int32_t channel = end.receives ? std::get<Recv>(action).channel : std::get<Send>(action).channel;
    return plan.channels[static_cast<size_t>(channel)].name;
  }

  int32_t new_transfer() {
    matching_.first.push_back(static_cast<int64_t>(matching_.participants.size()));
    return static_cast<int32_t>(matching_.first.size() - 1);
  }
  void join(int32_t transfer, int32_t plan, int32_t instruction) {
    matching_.participants.push_back({plan, instruction});
    matching_.transfer_of[static_cast<size_t>(plan)][static_cast<size_t>(instruction)] = transfer;
  }

  Status messages() {
    std::sort(ends_.begin(), ends_.end(), [](const End& a, const End& b) { return a.order() < b.order(); });
    for (size_t begin = 0; begin < ends_.size();) {
      size_t middle = begin, end = begin;
      while (end < ends_.size() && ends_[end].key() == ends_[begin].key()) end += 1;
      while (middle < end && !ends_[middle].receives) middle += 1;
      for (size_t k = 0; begin + k < middle || middle + k < end; ++k) {
        if (begin + k == middle)
          return violates(Rule::kMessages, "nothing on rank " + std::to_string(ends_[begin].src) + " sends what " +
                                               name(ends_[middle + k].plan, ends_[middle + k].instruction) +
                                               " receives");
        const End& send = ends_[begin + k];
        if (middle + k == end)
          return violates(Rule::kMessages, "nothing on rank " + std::to_string(send.dst) + " receives what " +
                                               name(send.plan, send.instruction) + " sends");
        const End& recv = ends_[middle + k];
        const auto meets = [&] {
          return name(send.plan, send.instruction) + " meets " + name(recv.plan, recv.instruction);
        };
        if (send.count != recv.count || send.dtype != recv.dtype)
          return violates(Rule::kMessages, meets() + ": the sizes or element types differ");
        if (channel_name(send) != channel_name(recv))
          return violates(Rule::kMessages, meets() + ": the channels have one id and two names");
        const int32_t transfer = new_transfer();
        join(transfer, send.plan, send.instruction);
        join(transfer, recv.plan, recv.instruction);
        ++matching_.num_messages;
      }
      begin = end;
    }
    return {};
  }

  Status collectives() {
    for (const auto& [group, by_plan] : groups_) {
      const auto& [group_name, members] = group;
      const auto& [first_plan, sequence] = *by_plan.begin();
      for (const int32_t member : members)
        if (loaded(member) && by_plan.count(plan_of_[static_cast<size_t>(member)]) == 0)
          return violates(Rule::kCollectives, "rank " + std::to_string(member) + " is a member of communicator \"" +
                                                  group_name + "\" with the same members, but takes no part in " +
                                                  name(first_plan, sequence.front()));
      PIPER_RETURN_IF_ERROR(equal_sequences(by_plan));
      for (size_t k = 0; k < sequence.size(); ++k) {
        const int32_t transfer = new_transfer();
        for (const auto& [plan, indices] : by_plan) join(transfer, plan, indices[k]);
        ++matching_.num_collectives;
      }
    }
    return {};
  }

  const Action& action_at(int32_t plan, int32_t index) const {
    return bundle_.ranks[static_cast<size_t>(plan)].instructions[static_cast<size_t>(index)].action;
  }
  Status equal_sequences(const std::map<int32_t, std::vector<int32_t>>& by_plan) const {
    const auto& [first_plan, sequence] = *by_plan.begin();
    for (const auto& [plan, indices] : by_plan) {
      for (size_t k = 0; k < std::min(sequence.size(), indices.size()); ++k) {
        if (collective_of(action_at(first_plan, sequence[k])) != collective_of(action_at(plan, indices[k])))
          return violates(Rule::kCollectives, name(first_plan, sequence[k]) + " meets " + name(plan, indices[k]) +
                                                  ": kind, count, dtype or reduction differ");
      }
      if (sequence.size() == indices.size()) continue;
      const bool longer = indices.size() > sequence.size();
      const int32_t alone = longer ? indices[sequence.size()] : sequence[indices.size()];
      return violates(Rule::kCollectives,
                      "rank " + std::to_string(bundle_.ranks[static_cast<size_t>(longer ? first_plan : plan)].rank) +
                          " takes no part in " + name(longer ? plan : first_plan, alone));
    }
    return {};
  }

  const Bundle& bundle_;
  std::vector<int32_t> plan_of_;  // rank -> index into Bundle::ranks, -1 where not loaded
  Matching matching_;
  std::vector<End> ends_;
  // (name, members) -> index into Bundle::ranks -> instructions
  std::map<std::pair<std::string, std::vector<int32_t>>, std::map<int32_t, std::vector<int32_t>>> groups_;
};

}  // namespace

Result<Matching> match(const Bundle& bundle) { return Matcher(bundle).match(); }

}  // namespace piper::verify
