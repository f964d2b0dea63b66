#include "runtime/exec/load_rank.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "runtime/hal/host_collectives.h"
#include "runtime/hal/cpu/position_sum.h"
#include "schemas/plan/collective_costs.h"

namespace piper::exec {

namespace {

constexpr auto kNumClasses = static_cast<size_t>(plan::kNumBufferClasses);

int64_t aligned(const LoadedRank& rank, int64_t bytes) {
  const int64_t alignment = plan::buffer_alignment(rank.bundle->manifest.target.device);
  return (bytes + alignment - 1) / alignment * alignment;
}

// One region for the arena; one for all persistent classes, class after class.
Status allocate_buffers(LoadedRank& rank) {
  std::array<int64_t, kNumClasses> class_bytes{};
  for (const plan::Buffer& buffer : rank.plan->buffers) {
    int64_t& bytes = class_bytes[static_cast<size_t>(buffer.cls)];
    bytes = std::max(bytes, aligned(rank, buffer.offset + buffer.bytes));
  }
  const auto arena_class = static_cast<size_t>(plan::BufferClass::kArena);
  class_bytes[arena_class] = std::max(class_bytes[arena_class], rank.plan->arena_bytes);
  std::array<int64_t, kNumClasses> class_offset{};
  int64_t persistent = 0;
  for (size_t c = 0; c < kNumClasses; ++c) {
    if (c == arena_class) continue;
    class_offset[c] = persistent;
    persistent += class_bytes[c];
  }
  PIPER_ASSIGN(rank.arena, rank.device->allocate(class_bytes[arena_class]));
  PIPER_ASSIGN(rank.persistent, rank.device->allocate(persistent));
  for (const plan::Buffer& buffer : rank.plan->buffers) {
    const auto c = static_cast<size_t>(buffer.cls);
    std::byte* region = c == arena_class ? rank.arena->data() : rank.persistent->data() + class_offset[c];
    rank.buffer_base.push_back(region + buffer.offset);
  }
  return {};
}

Status fill_buffers(LoadedRank& rank, const checkpoint::WeightSource* weights) {
  for (const plan::ScalarValue& scalar : rank.plan->scalars)
    std::memcpy(rank.at({scalar.buffer, 0}), scalar.values.data(), scalar.values.size() * sizeof(int64_t));
  for (const plan::Placement& placement : rank.plan->placements) {
    if (weights == nullptr || !checkpoint::is_weight(placement)) continue;
    const plan::Part& part = placement.part;
    PIPER_ASSIGN(const plan::TensorView view, weights->find(placement));
    const int64_t element = dtype_bytes(placement.dtype), bytes = part.count * element;
    if (bytes == 0) continue;
    const std::byte* const from = view.data + part.first * element;
    PIPER_RETURN_IF_ERROR(weights->check(from, bytes).with_context("tensor '" + placement.name + "'"));
    std::memcpy(rank.at(part.where), from, static_cast<size_t>(bytes));
  }
  return {};
}

std::string group_key(const plan::Communicator& group) {
  std::string key = group.name;
  for (int32_t rank : group.ranks) key += "\t" + std::to_string(rank);
  return key;
}

// The ranks number their communicators by themselves: the channels of a group come from its
// place in the sorted list of all groups of the run, which is the same everywhere.
Result<std::vector<int32_t>> agree_on_group_channels(const plan::RankPlan& plan, hal::Transport& transport,
                                                     const hal::WaitControl& control) {
  std::string mine;
  for (const plan::Communicator& group : plan.communicators) mine += group_key(group) + "\n";
  PIPER_ASSIGN(const std::vector<std::string> all, hal::host_allgather(transport, mine, control));
  std::set<std::string> keys;
  for (const std::string& text : all)
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      keys.insert(text.substr(at, end - at));
      at = end + 1;
    }
  std::vector<int32_t> channels;
  for (const plan::Communicator& group : plan.communicators) {
    const auto index = std::distance(keys.begin(), keys.find(group_key(group)));
    channels.push_back(hal::kGroupChannels + 2 * static_cast<int32_t>(index));
  }
  return channels;
}

// One block per stream, as large as its largest collective needs.
Result<std::vector<std::byte*>> allocate_group_scratch(LoadedRank& rank) {
  std::vector<int64_t> bytes(rank.plan->streams.size(), 0);
  for (const plan::Instruction& instruction : rank.plan->instructions) {
    int64_t& most = bytes.at(static_cast<size_t>(instruction.stream));
    most = std::max(most, plan::collective_scratch_bytes(*rank.plan, instruction.action));
  }
  int64_t total = 0;
  for (int64_t stream_bytes : bytes) total += aligned(rank, stream_bytes);
  PIPER_ASSIGN(rank.group_scratch, rank.device->allocate(total));
  std::vector<std::byte*> scratch;
  int64_t offset = 0;
  for (int64_t stream_bytes : bytes) {
    scratch.push_back(rank.group_scratch->data() + offset);
    offset += aligned(rank, stream_bytes);
  }
  return scratch;
}

struct PrepareAction {
  int32_t stream;
  PrepareContext& context;
  Prepared operator()(const plan::Run& a) const { return prepare_run(a, stream, context); }
  Prepared operator()(const plan::Send& a) const { return prepare_send(a, stream, context); }
  Prepared operator()(const plan::Recv& a) const { return prepare_recv(a, stream, context); }
  Prepared operator()(const plan::AllReduce& a) const { return prepare_all_reduce(a, stream, context); }
  Prepared operator()(const plan::ReduceScatter& a) const { return prepare_reduce_scatter(a, stream, context); }
  Prepared operator()(const plan::AllGather& a) const { return prepare_all_gather(a, stream, context); }
  Prepared operator()(const plan::AllToAll& a) const { return prepare_all_to_all(a, stream, context); }
  Prepared operator()(const plan::Record& a) const { return prepare_record(a, stream, context); }
  Prepared operator()(const plan::Wait& a) const { return prepare_wait(a, stream, context); }
  Prepared operator()(const plan::Update& a) const { return prepare_update(a, stream, context); }
};

struct ActionText {
  const plan::Bundle& bundle;
  const plan::RankPlan& plan;
  std::string operator()(const plan::Run& a) const {
    return "run " + bundle.programs.at(static_cast<size_t>(a.program)).name + " on " +
           plan.arguments.at(static_cast<size_t>(a.arguments)).name;
  }
  std::string operator()(const plan::Send& a) const { return "send to rank " + peer(a.channel); }
  std::string operator()(const plan::Recv& a) const { return "recv from rank " + peer(a.channel); }
  std::string peer(int32_t channel) const {
    return std::to_string(plan.channels.at(static_cast<size_t>(channel)).peer);
  }
  std::string on(const char* kind, int32_t communicator) const {
    return kind + (" on " + plan.communicators.at(static_cast<size_t>(communicator)).name);
  }
  std::string operator()(const plan::AllReduce& a) const { return on("all_reduce", a.communicator); }
  std::string operator()(const plan::ReduceScatter& a) const { return on("reduce_scatter", a.communicator); }
  std::string operator()(const plan::AllGather& a) const { return on("all_gather", a.communicator); }
  std::string operator()(const plan::AllToAll& a) const { return on("all_to_all", a.communicator); }
  std::string operator()(const plan::Record& a) const {
    return "record " + plan.events.at(static_cast<size_t>(a.event));
  }
  std::string operator()(const plan::Wait& a) const { return "wait " + plan.events.at(static_cast<size_t>(a.event)); }
  std::string operator()(const plan::Update& a) const {
    return plan.arguments.at(static_cast<size_t>(a.arguments)).name;
  }
};

// An event is a step number: a second record in a step would release a wait meant for the first.
Status check_events(const plan::RankPlan& plan) {
  std::vector<int32_t> recorded(plan.events.size(), 0);
  for (const plan::Instruction& instruction : plan.instructions)
    if (const auto* record = std::get_if<plan::Record>(&instruction.action))
      if (++recorded.at(static_cast<size_t>(record->event)) == 2)
        return Status::failure(
            "R0404", "event '" + plan.events[static_cast<size_t>(record->event)] + "' is recorded twice in a step");
  return {};
}

}  // namespace

Result<const plan::Communicator*> group_of(int32_t communicator, const PrepareContext& context) {
  const plan::Communicator& group = context.plan->communicators.at(static_cast<size_t>(communicator));
  if (std::find(group.ranks.begin(), group.ranks.end(), context.plan->rank) != group.ranks.end()) return &group;
  return Status::failure("R0404", "communicator '" + group.name + "' does not contain this rank");
}

Result<DType> summed_type(const plan::SumTypes& types) {
  if (types == plan::SumTypes(types.data) && hal::can_sum(types.data)) return types.data;
  return Status::failure("R0404", "CPU ranks cannot sum " + std::string(dtype_name(types.message)) + " as " +
                                      std::string(dtype_name(types.sum)) + " into " +
                                      std::string(dtype_name(types.data)));
}

std::string action_text(const plan::Bundle& bundle, const plan::RankPlan& plan, int32_t index) {
  return std::visit(ActionText{bundle, plan}, plan.instructions.at(static_cast<size_t>(index)).action);
}

std::string describe_instruction(const plan::Bundle& bundle, const plan::RankPlan& plan, int32_t index) {
  const plan::Instruction& instruction = plan.instructions.at(static_cast<size_t>(index));
  std::string text = "instr " + std::to_string(index) + " " + action_text(bundle, plan, index);
  if (instruction.provenance >= 0 && static_cast<size_t>(instruction.provenance) < bundle.provenance.size())
    text += " (" + bundle.provenance[static_cast<size_t>(instruction.provenance)].text + ")";
  return text;
}

Result<std::unique_ptr<LoadedRank>> load_rank(const plan::Bundle& bundle, const plan::RankPlan& plan,
                                              const checkpoint::WeightSource* weights, hal::Transport& transport,
                                              const LoadOptions& options) {
  auto rank = std::make_unique<LoadedRank>();
  rank->bundle = &bundle;
  rank->plan = &plan;
  rank->device = hal::make_cpu_device(options.device);
  PIPER_RETURN_IF_ERROR(check_events(plan));
  PIPER_RETURN_IF_ERROR(allocate_buffers(*rank));
  PIPER_RETURN_IF_ERROR(fill_buffers(*rank, weights));
  rank->events = std::make_unique<hal::Counter[]>(plan.events.size());
  if (options.save_gradients) rank->gradients = std::make_unique<GradientCapture>(plan);

  PrepareContext context;
  context.bundle = &bundle;
  context.plan = &plan;
  context.buffer_base = rank->buffer_base;
  context.transport = &transport;
  context.events = rank->events.get();
  context.programs = &rank->programs;
  context.gradients = rank->gradients.get();
  PIPER_ASSIGN(context.group_channels, agree_on_group_channels(plan, transport, options.wait));
  PIPER_ASSIGN(context.group_scratch, allocate_group_scratch(*rank));
  for (const auto& region : {rank->arena, rank->persistent, rank->group_scratch}) transport.keep(region);

  rank->streams.resize(plan.streams.size());
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const plan::Instruction& instruction = plan.instructions[i];
    Prepared prepared = std::visit(PrepareAction{instruction.stream, context}, instruction.action);
    if (!prepared.ok())
      return prepared.take_status().with_context(describe_instruction(bundle, plan, static_cast<int32_t>(i)));
    rank->streams.at(static_cast<size_t>(instruction.stream))
        .push_back({static_cast<int32_t>(i), std::move(prepared).value()});
  }
  return rank;
}

}  // namespace piper::exec
