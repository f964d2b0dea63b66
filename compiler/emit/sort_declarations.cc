#include "compiler/emit/sort_declarations.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace piper::emit {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "m2" before "m10": runs of digits compare by value.
bool natural_less(std::string_view a, std::string_view b) {
  const size_t shorter = std::min(a.size(), b.size());
  size_t at = 0;
  while (at < shorter && a[at] == b[at]) ++at;
  size_t run = at;   // where the digits begin in which the two differ
  while (run > 0 && is_digit(a[run - 1])) --run;
  const bool digits = run < at || (at < shorter && is_digit(a[at]) && is_digit(b[at]));
  if (digits) {
    size_t end_a = at, end_b = at;
    while (end_a < a.size() && is_digit(a[end_a])) ++end_a;
    while (end_b < b.size() && is_digit(b[end_b])) ++end_b;
    if (end_a != end_b) return end_a < end_b;
  }
  if (at == shorter) return a.size() < b.size();
  return a[at] < b[at];
}

// Sorts `list` by name; [old index] -> new index.
template <class T, class Name>
std::vector<int32_t> sort_by_name(std::vector<T>& list, Name name) {
  std::vector<int32_t> order(list.size()), position(list.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t x, int32_t y) {
    const std::string_view a = name(list[x]), b = name(list[y]);
    return a != b ? natural_less(a, b) : x < y;
  });
  std::vector<T> sorted;
  sorted.reserve(list.size());
  for (size_t i = 0; i < order.size(); ++i) {
    position[order[i]] = static_cast<int32_t>(i);
    sorted.push_back(std::move(list[order[i]]));
  }
  list = std::move(sorted);
  return position;
}

struct Renumbering {
  std::vector<int32_t> buffers, arguments, events, streams, channels, communicators;

  void range(plan::BufferRange& r) const {
    if (r.buffer >= 0) r.buffer = buffers[r.buffer];
  }
  void operator()(plan::Run& a) const {
    a.arguments = arguments[a.arguments];
    range(a.workspace);
  }
  void operator()(plan::Send& a) const {
    range(a.data);
    a.channel = channels[a.channel];
  }
  void operator()(plan::Recv& a) const {
    range(a.data);
    a.channel = channels[a.channel];
  }
  void operator()(plan::AllReduce& a) const {
    range(a.data);
    a.communicator = communicators[a.communicator];
  }
  void operator()(plan::ReduceScatter& a) const {
    range(a.data);
    range(a.out);
    a.communicator = communicators[a.communicator];
  }
  void operator()(plan::AllGather& a) const {
    range(a.part);
    range(a.data);
    a.communicator = communicators[a.communicator];
  }
  void operator()(plan::AllToAll& a) const {
    for (plan::BufferRange* r : {&a.send, &a.recv, &a.send_counts, &a.recv_counts}) range(*r);
    a.communicator = communicators[a.communicator];
  }
  void operator()(plan::Record& a) const { a.event = events[a.event]; }
  void operator()(plan::Wait& a) const { a.event = events[a.event]; }
  void operator()(plan::Update& a) const {
    for (plan::BufferRange* r : {&a.parameter, &a.gradient, &a.m, &a.v, &a.scale}) range(*r);
  }
};

}  // namespace

void sort_declarations(plan::RankPlan& plan) {
  auto named = [](const auto& item) { return std::string_view(item.name); };
  Renumbering to;
  to.buffers = sort_by_name(plan.buffers, named);
  to.arguments = sort_by_name(plan.arguments, named);
  to.events = sort_by_name(plan.events, [](const std::string& name) { return std::string_view(name); });
  to.streams = sort_by_name(plan.streams, named);
  to.channels = sort_by_name(plan.channels, named);
  to.communicators = sort_by_name(plan.communicators, named);
  for (plan::Placement& p : plan.placements) {
    to.range(p.value.where);
    to.range(p.gradient.where);
  }
  for (plan::InputSlice& input : plan.inputs) to.range(input.where);
  for (plan::ArgumentList& list : plan.arguments)
    for (plan::BufferRange& r : list.arguments) to.range(r);
  for (plan::Instruction& instruction : plan.instructions) {
    instruction.stream = to.streams[instruction.stream];
    std::visit(to, instruction.action);
  }
  for (plan::BufferRange* r : {&plan.seed_step, &plan.learning_rate, &plan.loss, &plan.grad_norm}) to.range(*r);
  std::stable_sort(plan.inputs.begin(), plan.inputs.end(), [&](const plan::InputSlice& a, const plan::InputSlice& b) {
    return a.where.buffer < b.where.buffer;
  });
}

}  // namespace piper::emit
