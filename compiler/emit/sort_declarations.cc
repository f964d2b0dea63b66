#include "compiler/emit/sort_declarations.h"

#include <algorithm>
#include <string_view>

#include "compiler/emit/natural_order.h"

namespace piper::emit {
namespace {

// Sorts `list` by name; [old index] -> new index.
template <class T, class Name>
std::vector<int32_t> sort_by_name(std::vector<T>& list, Name name) {
  std::vector<std::string_view> names;
  names.reserve(list.size());
  for (const T& item : list) names.push_back(name(item));
  const std::vector<int32_t> order = natural_order(names);
  std::vector<int32_t> position(list.size());
  std::vector<T> sorted;
  sorted.reserve(list.size());
  for (const int32_t index : order) {
    position[index] = static_cast<int32_t>(sorted.size());
    sorted.push_back(std::move(list[index]));
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
    range(a.workspace);
    a.arguments = arguments[a.arguments];
  }
};

}  // namespace

SortedDeclarations sort_declarations(plan::RankPlan& plan) {
  auto named = [](const auto& item) { return std::string_view(item.name); };
  Renumbering to;
  to.buffers = sort_by_name(plan.buffers.edit(), named);
  to.arguments = sort_by_name(plan.arguments.edit(), named);
  to.events = sort_by_name(plan.events.edit(), [](const std::string& name) { return std::string_view(name); });
  to.streams = sort_by_name(plan.streams.edit(), named);
  to.channels = sort_by_name(plan.channels, named);
  to.communicators = sort_by_name(plan.communicators, named);
  for (plan::Placement& p : plan.placements) to.range(p.part.where);
  for (plan::InputSlice& input : plan.inputs) to.range(input.where);
  for (plan::Mean& mean : plan.means) {
    to.range(mean.sum);
    to.range(mean.count);
  }
  for (plan::ScalarValue& scalar : plan.scalars) scalar.buffer = to.buffers[scalar.buffer];
  for (plan::ArgumentList& list : plan.arguments.edit())
    for (plan::BufferRange& r : list.arguments) to.range(r);
  for (plan::Instruction& instruction : plan.instructions.edit()) {
    instruction.stream = to.streams[instruction.stream];
    std::visit(to, instruction.action);
  }
  for (plan::BufferRange* r : {&plan.seed_step, &plan.learning_rate, &plan.loss, &plan.grad_norm, &plan.grad_squares,
                               &plan.dropped, &plan.loss_scale, &plan.overflow})
    to.range(*r);
  std::stable_sort(plan.inputs.begin(), plan.inputs.end(), [&](const plan::InputSlice& a, const plan::InputSlice& b) {
    return a.where.buffer < b.where.buffer;
  });
  std::sort(plan.scalars.begin(), plan.scalars.end(),
            [](const plan::ScalarValue& a, const plan::ScalarValue& b) { return a.buffer < b.buffer; });
  return {std::move(to.buffers), std::move(to.arguments)};
}

}  // namespace piper::emit
