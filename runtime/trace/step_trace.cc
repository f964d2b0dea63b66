#include "runtime/trace/step_trace.h"

#include <map>
#include <variant>

#include "runtime/trace/digest_values.h"
#include "schemas/base/check.h"
#include "schemas/perfetto/trace_writer.h"
#include "schemas/plan/collective_costs.h"

namespace piper::trace {
namespace {

const char* host_text(live::EventKind kind) {
  using live::EventKind;
  switch (kind) {
    case EventKind::kData: return "waits for samples";
    case EventKind::kStep: return "step";
    case EventKind::kReport: return "logs";
    case EventKind::kAgree: return "agrees with the other ranks";
    case EventKind::kSave: return "copies a checkpoint";
    case EventKind::kEvaluate: return "evaluates";
    case EventKind::kInstruction:
    case EventKind::kStreamDone:
    case EventKind::kStarting:
    case EventKind::kEnding:
    case EventKind::kEnded:
    case EventKind::kRead:
    case EventKind::kWrite:
    case EventKind::kGather:
    case EventKind::kIdle: return nullptr;  // not of the host in a step
  }
  PIPER_CHECK(false, "a kind of event that has no name");
  return nullptr;
}

// A rank's end of a transfer, in the ids that all of its ends compute alike.
struct TransferEnd {
  std::string name;   // of the channel of two ranks, or of the communicator
  bool last = false;  // the end that ends its flow: a message's receiver, a collective's last member
};

struct EndOf {
  const plan::RankPlan& plan;
  TransferEnd message(int32_t from, int32_t to, int32_t id, bool receives) const {
    return {"message " + std::to_string(from) + ' ' + std::to_string(to) + ' ' + std::to_string(id), receives};
  }
  TransferEnd operator()(const plan::Send& a) const {
    const auto& channel = plan.channels.at(static_cast<size_t>(a.channel));
    return message(plan.rank, channel.peer, channel.id, false);
  }
  TransferEnd operator()(const plan::Recv& a) const {
    const auto& channel = plan.channels.at(static_cast<size_t>(a.channel));
    return message(channel.peer, plan.rank, channel.id, true);
  }
  TransferEnd collective(int32_t index) const {
    const auto& communicator = plan.communicators.at(static_cast<size_t>(index));
    return {"collective " + communicator.name, communicator.ranks.back() == plan.rank};
  }
  TransferEnd operator()(const plan::AllReduce& a) const { return collective(a.communicator); }
  TransferEnd operator()(const plan::ReduceScatter& a) const { return collective(a.communicator); }
  TransferEnd operator()(const plan::AllGather& a) const { return collective(a.communicator); }
  TransferEnd operator()(const plan::AllToAll& a) const { return collective(a.communicator); }
  TransferEnd operator()(const plan::Run&) const { return {}; }
  TransferEnd operator()(const plan::Record&) const { return {}; }
  TransferEnd operator()(const plan::Wait&) const { return {}; }
  TransferEnd operator()(const plan::Update&) const { return {}; }
};

}  // namespace

StepTrace::StepTrace(const plan::Bundle& bundle, const plan::RankPlan& plan, std::vector<std::string> names,
                     int64_t first, int64_t last)
    : bundle_(bundle), plan_(plan), names_(std::move(names)), first_(first), last_(last) {}

bool StepTrace::begin_step(int64_t step) {
  step_ = nullptr;
  if (!traced(step)) return false;
  steps_.emplace_back(step, std::vector<Times>(plan_.instructions.size()));
  step_ = &steps_.back().second;
  return true;
}

void StepTrace::host(live::EventKind kind, int64_t step) {
  const auto now = Clock::now();
  if (host_open_) host_.back().times.end = now;
  host_open_ = traced(step) && host_text(kind) != nullptr;
  if (host_open_) host_.push_back({kind, step, {now, now}});
}

std::vector<std::string> StepTrace::transfers() const {
  std::map<std::string, int64_t> so_far;
  std::vector<std::string> names(plan_.instructions.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const TransferEnd end = std::visit(EndOf{plan_}, plan_.instructions[i].action);
    if (!end.name.empty()) names[i] = end.name + ' ' + std::to_string(so_far[end.name]++);
  }
  return names;
}

std::string StepTrace::write(Clock::time_point zero) const {
  const auto ns = [zero](Clock::time_point time) { return (time - zero).count(); };
  perfetto::TraceWriter writer(static_cast<uint32_t>(plan_.rank));
  const uint64_t process = writer.process(plan_.rank + 1, "rank " + std::to_string(plan_.rank));
  const uint64_t host = writer.track(process, "host");
  for (const HostTimes& at : host_)
    writer.slice(host, ns(at.times.begin), ns(at.times.end), host_text(at.kind) + (" " + std::to_string(at.step)));
  std::vector<uint64_t> streams;
  for (const auto& stream : plan_.streams) streams.push_back(writer.track(process, stream.name));
  const std::vector<std::string> transfers = this->transfers();
  for (const auto& [step, times] : steps_) {
    for (size_t i = 0; i < times.size(); ++i) {
      const plan::Instruction& instruction = plan_.instructions[i];
      if (std::holds_alternative<plan::Record>(instruction.action) || times[i].end == Clock::time_point()) continue;
      std::vector<perfetto::Note> notes{{.name = "step", .number = step},
                                        {.name = "instruction", .number = static_cast<int64_t>(i)}};
      if (const int64_t bytes = plan::sent_bytes(plan_, instruction.action); bytes > 0)
        notes.push_back({.name = "bytes", .number = bytes});
      if (instruction.provenance >= 0)
        notes.push_back(
            {.name = "strategy", .text = bundle_.provenance.at(static_cast<size_t>(instruction.provenance)).text});
      perfetto::Flow flow;
      if (!transfers[i].empty()) {
        const std::string text = transfers[i] + ' ' + std::to_string(step);
        flow = {digest_bytes(text.data(), static_cast<int64_t>(text.size())) | 1,
                std::visit(EndOf{plan_}, instruction.action).last};
      }
      writer.slice(streams[static_cast<size_t>(instruction.stream)], ns(times[i].begin), ns(times[i].end), names_[i],
                   flow, notes);
    }
  }
  return writer.take();
}

}  // namespace piper::trace
