#include "schemas/timeline/play.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "schemas/base/flat_lists.h"
#include "schemas/plan/actions.h"
#include "schemas/plan/collective_costs.h"
#include "schemas/plan/link_port.h"

namespace piper::timeline {
namespace {

using namespace plan;

static_assert(std::is_same_v<std::variant_alternative_t<static_cast<size_t>(Kind::kAllToAll), Action>, AllToAll>);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<size_t>(Kind::kUpdate), Action>, Update>);
static_assert(std::variant_size_v<Action> == static_cast<size_t>(Kind::kUpdate) + 1);

class Player {
 public:
  Player(const Bundle& bundle, const verify::Matching& matching, const Pricing& pricing)
      : bundle_(bundle), matching_(matching), pricing_(pricing), shares_(pricing.resources()) {
    take_transfers();
    for (size_t p = 0; p < bundle.ranks.size(); ++p) {
      const auto& plan = bundle.ranks[p];
      timeline_.spans.emplace_back();
      timeline_.activities.emplace_back(plan.instructions.size());
      events_.emplace_back(plan.events.size());
      ports_.emplace_back();
      first_stream_.push_back(streams_.size());
      for (size_t s = 0; s < plan.streams.size(); ++s) streams_.push_back({static_cast<int32_t>(p)});
      lists_.emplace_back(plan.streams.size(), [&](const auto& add) {
        for (size_t i = 0; i < plan.instructions.size(); ++i)
          add(static_cast<size_t>(plan.instructions[i].stream), static_cast<int32_t>(i));
      });
    }
  }

  Timeline play() {
    for (size_t s = streams_.size(); s-- > 0;) ready_.push_back(static_cast<int32_t>(s));
    while (true) {
      while (!ready_.empty()) {
        const int32_t stream = ready_.back();
        ready_.pop_back();
        go_on(stream);
      }
      // What begins and ends at one time changes the shares once.
      if (unsettled_ && (queue_.empty() || queue_.top().time > now_)) set_rates();
      if (queue_.empty()) break;
      const Due due = queue_.top();
      queue_.pop();
      if (due.what == What::kFlowEnd && flows_[static_cast<size_t>(due.number)].version != due.version) continue;
      now_ = due.time;
      switch (due.what) {
        case What::kIssued: ready_.push_back(due.number); break;
        case What::kFixedEnd: begin_shared(due.number); break;
        case What::kFlowEnd: end_shared(due.number); break;
        case What::kPassed: pass(due.number), ready_.push_back(due.number); break;
      }
    }
    for (const auto& rank : timeline_.activities)
      for (const Activity& activity : rank) timeline_.step = std::max(timeline_.step, activity.end);
    return std::move(timeline_);
  }

 private:
  struct StreamState {
    int32_t plan = -1;
    uint32_t next = 0;       // place in its list
    double reached = 0;      // when it came to that instruction
    bool counts = false;     // Task::counts of the run that goes on
    Messages messages = {};  // of the transfer that it came to
    double sent = 0;         // when these are out of the rank's port
  };
  struct Ports {
    LinkPort<double> out, in;
  };
  // A run, an update or a transfer that goes on.
  struct Flow {
    int32_t stream = -1, transfer = -1;    // one of them; `stream`: index into streams_
    double left = 0, since = 0, rate = 0;  // of its shared part, at that time; 0: it has no part of resources yet
    std::vector<Use> uses = {};
    uint32_t version = 0;  // an entry of the queue with another one is out of date
  };
  enum class What : uint8_t { kIssued, kFixedEnd, kFlowEnd, kPassed };
  struct Due {
    double time = 0;
    uint64_t sequence = 0;  // first in, first out among equal times
    What what = What::kIssued;
    int32_t number = -1;  // of a flow, or of a stream
    uint32_t version = 0;
    bool operator<(const Due& other) const { return std::tie(time, sequence) > std::tie(other.time, other.sequence); }
  };
  struct EventState {
    bool recorded = false;
    std::vector<int32_t> waiting = {};  // streams
  };

  // The matching's numbers follow communicators; sorted by their first end they do not change with names.
  void take_transfers() {
    const size_t count = matching_.first.size() - 1;
    std::vector<int32_t> order(count);
    for (size_t t = 0; t < count; ++t) order[t] = static_cast<int32_t>(t);
    const auto first_end = [&](int32_t t) {
      const auto& end = matching_.participants[static_cast<size_t>(matching_.first[static_cast<size_t>(t)])];
      return std::tie(end.plan, end.instruction);
    };
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return first_end(a) < first_end(b); });
    number_of_.resize(count);
    for (const int32_t t : order) {
      number_of_[static_cast<size_t>(t)] = static_cast<int32_t>(timeline_.transfers.size());
      Transfer transfer;
      transfer.first = static_cast<uint32_t>(timeline_.ends.size());
      for (auto k = matching_.first[static_cast<size_t>(t)]; k < matching_.first[static_cast<size_t>(t) + 1]; ++k) {
        const auto& end = matching_.participants[static_cast<size_t>(k)];
        timeline_.ends.push_back({end.plan, end.instruction});
      }
      transfer.count = static_cast<uint32_t>(timeline_.ends.size()) - transfer.first;
      const TransferEnd& first = timeline_.ends[transfer.first];
      const auto& plan = bundle_.ranks[static_cast<size_t>(first.plan)];
      transfer.bytes = sent_bytes(plan, plan.instructions[static_cast<size_t>(first.instruction)].action);
      missing_.push_back(static_cast<int32_t>(transfer.count));
      timeline_.transfers.push_back(transfer);
    }
  }

  std::span<const int32_t> list_of(int32_t stream) const {
    const auto plan = static_cast<size_t>(streams_[static_cast<size_t>(stream)].plan);
    return lists_[plan][static_cast<size_t>(stream) - first_stream_[plan]];
  }
  int32_t stream_of(const TransferEnd& end) const {
    const auto plan = static_cast<size_t>(end.plan);
    return static_cast<int32_t>(first_stream_[plan]) +
           bundle_.ranks[plan].instructions[static_cast<size_t>(end.instruction)].stream;
  }

  void schedule(double time, What what, int32_t number, uint32_t version = 0) {
    queue_.push({time, sequence_++, what, number, version});
  }

  // Until the stream must wait for something.
  void go_on(int32_t s) {
    auto& stream = streams_[static_cast<size_t>(s)];
    const auto p = static_cast<size_t>(stream.plan);
    for (const auto list = list_of(s); stream.next < list.size(); pass(s)) {
      const auto i = static_cast<size_t>(list[stream.next]);
      const Instruction& instruction = bundle_.ranks[p].instructions[i];
      if (const double issued = pricing_.issued(p, i); issued > now_) {
        stream.reached = issued;
        return schedule(issued, What::kIssued, s);
      }
      if (const int32_t awaited = awaited_event(instruction.action); awaited >= 0) {
        EventState& event = events_[p][static_cast<size_t>(awaited)];
        if (!event.recorded) return event.waiting.push_back(s);
      } else if (const int32_t recorded = recorded_event(instruction.action); recorded >= 0) {
        EventState& event = events_[p][static_cast<size_t>(recorded)];
        event.recorded = true;
        ready_.insert(ready_.end(), event.waiting.begin(), event.waiting.end());
        event.waiting.clear();
      } else if (const int32_t t = matching_.transfer_of[p][i]; t >= 0) {
        return arrive(number_of_[static_cast<size_t>(t)], s, i);
      } else {
        Task task = pricing_.local(p, i);
        stream.counts = task.counts;
        if (task.fixed > 0 || task.shared > 0) return begin(s, -1, std::move(task));
      }
    }
  }

  // The stream has done its instruction.
  void pass(int32_t s) {
    auto& stream = streams_[static_cast<size_t>(s)];
    const auto p = static_cast<size_t>(stream.plan);
    const int32_t i = list_of(s)[stream.next++];
    const Instruction& instruction = bundle_.ranks[p].instructions[static_cast<size_t>(i)];
    timeline_.activities[p][static_cast<size_t>(i)] = {static_cast<Kind>(instruction.action.index()),
                                                       instruction.stream, stream.reached, now_};
    if (stream.counts) timeline_.spans[p].push_back({i, stream.reached, now_});
    stream.counts = false;
    stream.reached = now_;
  }

  void arrive(int32_t t, int32_t s, size_t i) {
    if (pricing_.has_messages()) {
      auto& stream = streams_[static_cast<size_t>(s)];
      const auto p = static_cast<size_t>(stream.plan);
      stream.messages = pricing_.messages(p, i);
      stream.sent = ports_[p].out.take(now_, stream.messages.out);
    }
    if (--missing_[static_cast<size_t>(t)] > 0) return;
    Transfer& transfer = timeline_.transfers[static_cast<size_t>(t)];
    transfer.begin = now_;
    begin(-1, t, pricing_.transfer(timeline_.ends_of(transfer)));
  }

  void begin(int32_t stream, int32_t transfer, Task task) {
    if (free_.empty()) {
      free_.push_back(static_cast<int32_t>(flows_.size()));
      flows_.emplace_back();
    }
    const int32_t number = free_.back();
    free_.pop_back();
    Flow& flow = flows_[static_cast<size_t>(number)];
    flow.stream = stream;
    flow.transfer = transfer;
    flow.left = task.shared;
    flow.rate = 0;
    flow.uses = std::move(task.uses);
    if (task.fixed > 0) schedule(now_ + task.fixed, What::kFixedEnd, number);
    else begin_shared(number);
  }

  void begin_shared(int32_t number) {
    Flow& flow = flows_[static_cast<size_t>(number)];
    flow.since = now_;
    if (flow.left <= 0) return finish(number);
    if (flow.uses.empty()) return schedule(now_ + flow.left, What::kFlowEnd, number, ++flow.version);
    shares_.add(number, flow.uses);
    unsettled_ = true;
  }

  void end_shared(int32_t number) {
    if (!flows_[static_cast<size_t>(number)].uses.empty()) {
      shares_.remove(number);
      unsettled_ = true;
    }
    finish(number);
  }

  // For the flows whose rates change: what is left by now, and when they end.
  void set_rates() {
    unsettled_ = false;
    shares_.settle();
    for (const int32_t number : shares_.touched()) {
      Flow& flow = flows_[static_cast<size_t>(number)];
      flow.left = std::max(0.0, flow.left - flow.rate * (now_ - flow.since));
      flow.since = now_;
      flow.rate = shares_.rate(number);
      schedule(now_ + flow.left / flow.rate, What::kFlowEnd, number, ++flow.version);
    }
  }

  void finish(int32_t number) {
    Flow& flow = flows_[static_cast<size_t>(number)];
    ++flow.version;
    flow.uses.clear();
    free_.push_back(number);
    if (flow.transfer < 0) {
      pass(flow.stream);
      return ready_.push_back(flow.stream);
    }
    Transfer& transfer = timeline_.transfers[static_cast<size_t>(flow.transfer)];
    transfer.end = now_;
    const auto ends = timeline_.ends_of(transfer);
    const std::vector<double> over = pricing_.has_messages() ? received(ends) : std::vector<double>();
    for (size_t k = 0; k < ends.size(); ++k) {
      const int32_t stream = stream_of(ends[k]);
      if (!over.empty() && over[k] > now_) {
        transfer.end = std::max(transfer.end, over[k]);
        schedule(over[k], What::kPassed, stream);
      } else {
        pass(stream);
        ready_.push_back(stream);
      }
    }
  }

  // When each end of a transfer has what the others sent it; all of them are there.
  std::vector<double> received(std::span<const TransferEnd> ends) {
    std::vector<const Messages*> messages;
    std::vector<double> sent, over(ends.size(), now_);
    for (const TransferEnd& end : ends) {
      const StreamState& stream = streams_[static_cast<size_t>(stream_of(end))];
      messages.push_back(&stream.messages);
      sent.push_back(stream.sent);
    }
    const auto ports = [&](size_t k) -> Ports& { return ports_[static_cast<size_t>(ends[k].plan)]; };
    for (int round = 0; round < messages[0]->rounds; ++round) {
      for (size_t k = 0; k < ends.size() && round > 0; ++k) sent[k] = ports(k).out.take(over[k], messages[k]->out);
      for (size_t k = 0; k < ends.size(); ++k) {
        if (!messages[k]->receives) continue;
        const double there = latest_of_others(sent, k) + messages[k]->latency;
        over[k] = std::max(over[k], ports(k).in.take(there - messages[k]->in, messages[k]->in));
      }
    }
    for (size_t k = 0; k < ends.size(); ++k) over[k] += messages[k]->own;
    return over;
  }

  // For one alone, its own: members that are not loaded are like those that are.
  static double latest_of_others(const std::vector<double>& times, size_t own) {
    if (times.size() == 1) return times[0];
    double latest = times[own == 0 ? 1 : 0];
    for (size_t k = 0; k < times.size(); ++k)
      if (k != own) latest = std::max(latest, times[k]);
    return latest;
  }

  const Bundle& bundle_;
  const verify::Matching& matching_;
  const Pricing& pricing_;
  FairShares shares_;
  bool unsettled_ = false;  // shares_ changed at now_
  Timeline timeline_;
  std::vector<int32_t> number_of_;         // the matching's transfer -> index into Timeline::transfers
  std::vector<int32_t> missing_;           // per transfer: ends that have not come
  std::vector<size_t> first_stream_;       // [loaded rank] -> its first in streams_
  std::vector<FlatLists<int32_t>> lists_;  // [loaded rank][stream] -> instructions
  std::vector<StreamState> streams_;       // of all ranks
  std::vector<std::vector<EventState>> events_;
  std::vector<Ports> ports_;    // by loaded rank
  std::vector<int32_t> ready_;  // streams that may go on now
  std::vector<Flow> flows_;
  std::vector<int32_t> free_;  // flows that are over
  std::priority_queue<Due> queue_;
  uint64_t sequence_ = 0;
  double now_ = 0;
};

}  // namespace

Timeline play(const Bundle& bundle, const verify::Matching& matching, const Pricing& pricing) {
  return Player(bundle, matching, pricing).play();
}

}  // namespace piper::timeline
