#include "compiler/emit/sort_declarations.h"

#include <algorithm>
#include <memory>
#include <string_view>

namespace piper::emit {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Writes a key that compares byte by byte as names do: "m2" before "m10", so a run of digits is led by its length. At most twice as long
// as the name; returns its end.
char* write_key(std::string_view name, char* at) {
  char* led_at = nullptr;   // where the length of the open run of digits stands
  for (const char c : name) {
    if (!is_digit(c)) {
      led_at = nullptr;
    } else if (led_at == nullptr) {
      led_at = at;
      *at++ = '1';
    } else if (*led_at < '9') {
      ++*led_at;
    }
    *at++ = c;
  }
  return at;
}

// A name's key with its first bytes at hand, which decide most comparisons.
struct Key {
  Key() = default;
  Key(std::string_view text, int32_t i) : rest(text), index(i) {
    for (size_t k = 0; k < 16; ++k) head[k / 8] = head[k / 8] << 8 | (k < text.size() ? static_cast<unsigned char>(text[k]) : 0);
    rest.remove_prefix(std::min<size_t>(16, rest.size()));
  }
  bool operator<(const Key& other) const {
    if (head[0] != other.head[0]) return head[0] < other.head[0];
    if (head[1] != other.head[1]) return head[1] < other.head[1];
    const int order = rest.compare(other.rest);
    return order != 0 ? order < 0 : index < other.index;
  }

  uint64_t head[2] = {};      // bytes 0 to 15, zeros behind a shorter key
  std::string_view rest;
  int32_t index = -1;
};

// Sorts `list` by name; [old index] -> new index. `guess` is the order that another rank's list had (its old indices, sorted), often this
// one's too; it becomes this one's.
template <class T, class Name>
std::vector<int32_t> sort_by_name(std::vector<T>& list, Name name, std::vector<int32_t>& guess) {
  const size_t n = list.size();
  size_t longest = 0;
  for (const T& item : list) longest += 2 * name(item).size();
  const auto keys = std::make_unique_for_overwrite<char[]>(longest);
  std::vector<Key> order(n);
  std::vector<uint32_t> ends(n + 1, 0);
  for (size_t i = 0; i < n; ++i) ends[i + 1] = static_cast<uint32_t>(write_key(name(list[i]), keys.get() + ends[i]) - keys.get());
  const bool guessed = guess.size() == n;
  for (size_t i = 0; i < n; ++i) {
    const int32_t index = guessed ? guess[i] : static_cast<int32_t>(i);
    order[i] = Key({keys.get() + ends[index], ends[index + 1] - ends[index]}, index);
  }
  if (!std::is_sorted(order.begin(), order.end())) std::sort(order.begin(), order.end());
  guess.resize(n);
  for (size_t i = 0; i < n; ++i) guess[i] = order[i].index;
  std::vector<int32_t> position(n);
  std::vector<T> sorted;
  sorted.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    position[guess[i]] = static_cast<int32_t>(i);
    sorted.push_back(std::move(list[guess[i]]));
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

void sort_declarations(plan::RankPlan& plan, DeclarationOrders& guess) {
  auto named = [](const auto& item) { return std::string_view(item.name); };
  Renumbering to;
  to.buffers = sort_by_name(plan.buffers.edit(), named, guess.buffers);
  to.arguments = sort_by_name(plan.arguments.edit(), named, guess.arguments);
  to.events = sort_by_name(plan.events.edit(), [](const std::string& name) { return std::string_view(name); }, guess.events);
  to.streams = sort_by_name(plan.streams.edit(), named, guess.streams);
  to.channels = sort_by_name(plan.channels, named, guess.channels);
  to.communicators = sort_by_name(plan.communicators, named, guess.communicators);
  for (plan::Placement& p : plan.placements) {
    to.range(p.value.where);
    to.range(p.gradient.where);
  }
  for (plan::InputSlice& input : plan.inputs) to.range(input.where);
  for (plan::ScalarValue& scalar : plan.scalars) scalar.buffer = to.buffers[scalar.buffer];
  for (plan::ArgumentList& list : plan.arguments.edit())
    for (plan::BufferRange& r : list.arguments) to.range(r);
  for (plan::Instruction& instruction : plan.instructions.edit()) {
    instruction.stream = to.streams[instruction.stream];
    std::visit(to, instruction.action);
  }
  for (plan::BufferRange* r : {&plan.seed_step, &plan.learning_rate, &plan.loss, &plan.grad_norm, &plan.dropped}) to.range(*r);
  std::stable_sort(plan.inputs.begin(), plan.inputs.end(), [&](const plan::InputSlice& a, const plan::InputSlice& b) {
    return a.where.buffer < b.where.buffer;
  });
  std::sort(plan.scalars.begin(), plan.scalars.end(), [](const plan::ScalarValue& a, const plan::ScalarValue& b) { return a.buffer < b.buffer; });
}

}  // namespace piper::emit
