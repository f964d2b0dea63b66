#include "compiler/emit/rank_emitter.h"

#include <algorithm>

#include "compiler/emit/step_programs.h"
#include "schemas/base/check.h"
#include "schemas/plan/chunk_names.h"

namespace piper::emit {

using ir::AccumulatorId;
using ir::ChunkId;
using ir::GroupId;
using ir::Phase;
using ir::ValueId;
using plan::BufferClass;
using plan::BufferRange;

// ------------------------------------------------------------------ buffers
int32_t RankEmitter::find_buffer(std::string_view name) const {
  const auto it = buffers_.find(name);
  return it == buffers_.end() ? -1 : *it;
}

int32_t RankEmitter::buffer(std::string_view name, BufferClass cls, int64_t bytes, DType dtype,
                            const std::vector<int64_t>& shape) {
  if (const int32_t known = find_buffer(name); known >= 0) return known;
  const auto fresh = static_cast<int32_t>(plan_.buffers.size());
  plan::Buffer& b = plan_.buffers.emplace_back();
  b.name = name;
  b.cls = cls;
  b.bytes = bytes;
  b.dtype = dtype;
  b.shape = shape;
  buffers_.insert(fresh);
  return fresh;
}

int32_t RankEmitter::position(GroupId group) const { return s_.connections.position(group, rank_); }

int64_t RankEmitter::first_sample(GroupId group, int32_t microbatch) const {
  const int64_t per_microbatch = s_.request.batch / module_.step.num_microbatches;
  const int64_t members = static_cast<int64_t>(module_.distribution.groups[group.index].ranks.size());
  return microbatch * per_microbatch + position(group) * (per_microbatch / members);
}

BufferRange RankEmitter::value(ValueId root, int32_t microbatch, size_t variant) {
  const uint64_t key = (static_cast<uint64_t>(root.index) << 32) | (static_cast<uint64_t>(microbatch) << 8) | variant;
  const auto [it, fresh] = values_.try_emplace(key);
  if (!fresh) return it->second;
  const ir::Graph& graph = *s_.request.variants[variant].graph;
  const ir::Value& v = graph.value(root);
  name_ = v.name;
  if (module_.step.split) name_.append(" m").append(std::to_string(microbatch));
  if (variant != 0) name_.append(" b").append(std::to_string(s_.request.variants[variant].local_batch));
  return it->second = {buffer(name_, BufferClass::kArena, v.type.bytes(), v.type.dtype, v.type.shape), 0};
}

AccumulatorId RankEmitter::primary(uint32_t p) const { return s_.primary(p, rank_); }

AccumulatorId RankEmitter::accumulator_of(uint32_t p, ChunkId chunk) const {
  const AccumulatorId found = module_.find_accumulator(p, chunk);
  PIPER_CHECK(found.valid(), "no accumulator for parameter ", p);
  return found;
}

int64_t RankEmitter::parameter_bytes(uint32_t p) const {
  const ir::Graph& graph = *s_.request.variants[0].graph;
  return graph.type(graph.parameters()[p].value).bytes();
}

RankEmitter::Team RankEmitter::team_of(const ir::Bucket& bucket) const {
  Team team;
  team.ranks = &module_.state.team_of(bucket, rank_);
  team.position = std::find(team.ranks->begin(), team.ranks->end(), rank_) - team.ranks->begin();
  team.part_bytes = bucket.bytes / static_cast<int64_t>(team.ranks->size());
  return team;
}

int32_t RankEmitter::parameter_buffer(const ir::Bucket& bucket, const ir::ComputeNode* reader) {
  if (bucket.sharded != ir::Sharded::kParameters)
    return buffer("param " + bucket.name, BufferClass::kParameter, bucket.bytes, DType::kF32, {});
  PIPER_CHECK(reader != nullptr, "sharded parameters have no place of their own");
  std::string name = "param " + bucket.name;
  if (bucket.residency == ir::Residency::kUse) name += " for " + compute_name(*reader);
  if (bucket.residency == ir::Residency::kMicrobatch && module_.step.split)
    name += " m" + std::to_string(reader->microbatch);
  return buffer(name, BufferClass::kArena, bucket.bytes, DType::kF32, {});
}

int32_t RankEmitter::parameter_part_buffer(const ir::Bucket& bucket) {
  return buffer("param " + bucket.name + " part", BufferClass::kParameter, team_of(bucket).part_bytes, DType::kF32, {});
}

int32_t RankEmitter::gradient_buffer(const ir::Bucket& bucket, int32_t microbatch) {
  if (bucket.sharded < ir::Sharded::kGradients)
    return buffer("grad " + bucket.name, BufferClass::kGradient, bucket.bytes, DType::kF32, {});
  const std::string mark = module_.step.split ? " m" + std::to_string(microbatch) : "";
  return buffer("grad " + bucket.name + mark, BufferClass::kArena, bucket.bytes, DType::kF32, {});
}

int32_t RankEmitter::gradient_part_buffer(const ir::Bucket& bucket) {
  return buffer("grad " + bucket.name + " part", BufferClass::kGradient, team_of(bucket).part_bytes, DType::kF32, {});
}

// The buffer that the update works on, and the offset in the bucket of its first byte.
BufferRange RankEmitter::update_home(const ir::Bucket& bucket, bool gradient) {
  const Team team = team_of(bucket);
  if (gradient)
    return bucket.sharded >= ir::Sharded::kGradients
               ? BufferRange{gradient_part_buffer(bucket), team.position * team.part_bytes}
               : BufferRange{gradient_buffer(bucket, -1), 0};
  return bucket.sharded == ir::Sharded::kParameters
             ? BufferRange{parameter_part_buffer(bucket), team.position * team.part_bytes}
             : BufferRange{parameter_buffer(bucket, nullptr), 0};
}

int64_t RankEmitter::slice_begin(uint32_t p) const {
  const ir::Graph& graph = *s_.request.variants[0].graph;
  const ir::Parameter& parameter = graph.parameters()[p];
  if (parameter.shard < 0) return 0;
  const std::vector<int32_t>& group = module_.distribution.expert_group_of(parameter.shard, rank_);
  return (std::find(group.begin(), group.end(), rank_) - group.begin()) * graph.type(parameter.value).elements();
}

// What this rank updates of a parameter that it trains.
RankEmitter::Piece RankEmitter::piece_of(uint32_t p) {
  const ir::Accumulator& a = module_.state.accumulators[primary(p).index];
  const ir::Bucket& bucket = module_.state.buckets[a.bucket.index];
  const Team team = team_of(bucket);
  int64_t begin = a.offset, end = a.offset + parameter_bytes(p);
  Piece piece;
  piece.owner = s_.owns(p, rank_);
  if (bucket.sharded != ir::Sharded::kNothing) {
    begin = std::max(begin, team.position * team.part_bytes);
    end = std::min(end, (team.position + 1) * team.part_bytes);
  }
  if (begin >= end) return piece;
  const BufferRange value = update_home(bucket, false), sum = update_home(bucket, true);
  piece.first = slice_begin(p) + (begin - a.offset) / 4;
  piece.count = (end - begin) / 4;
  piece.value = {value.buffer, begin - value.offset};
  piece.gradient = {sum.buffer, begin - sum.offset};
  return piece;
}

// Where a compute reads a parameter, or (reader = nullptr) where the rank keeps it.
BufferRange RankEmitter::parameter(uint32_t p, const ir::ComputeNode* reader) {
  const AccumulatorId use = primary(p);
  if (use.valid()) {
    const ir::Accumulator& a = module_.state.accumulators[use.index];
    return {parameter_buffer(module_.state.buckets[a.bucket.index], reader), a.offset};
  }
  const ir::Graph& graph = *s_.request.variants[0].graph;
  const ir::Parameter& info = graph.parameters()[p];
  const ir::TensorType& type = graph.type(info.value);
  return {buffer("param " + info.names[0], BufferClass::kParameter, type.bytes(), type.dtype, type.shape), 0};
}

BufferRange RankEmitter::gradient(AccumulatorId id, int32_t microbatch) {
  const ir::Accumulator& a = module_.state.accumulators[id.index];
  return {gradient_buffer(module_.state.buckets[a.bucket.index], microbatch), a.offset};
}

// What this rank has of a use's gradient when it is reduced: all of it, or its part where it is sharded, which then
// stands alone in its bucket.
BufferRange RankEmitter::summed_gradient(AccumulatorId id) {
  const ir::Accumulator& a = module_.state.accumulators[id.index];
  const ir::Bucket& bucket = module_.state.buckets[a.bucket.index];
  if (bucket.sharded == ir::Sharded::kNothing) return gradient(id, -1);
  if (bucket.sharded >= ir::Sharded::kGradients) return {gradient_part_buffer(bucket), 0};
  const Team team = team_of(bucket);
  return {gradient_buffer(bucket, -1), team.position * team.part_bytes};
}

// Where the gradient of a use elsewhere arrives.
int32_t RankEmitter::received_gradient(AccumulatorId id) {
  const ir::Accumulator& a = module_.state.accumulators[id.index];
  const ir::Parameter& info = s_.request.variants[0].graph->parameters()[a.parameter];
  return buffer("grad " + info.names[0] + " use " + std::to_string(a.use), BufferClass::kArena, summed_bytes(id),
                DType::kF32, {});
}

// Its size, the same on every rank.
int64_t RankEmitter::summed_bytes(AccumulatorId id) const {
  const ir::Accumulator& a = module_.state.accumulators[id.index];
  const ir::Bucket& bucket = module_.state.buckets[a.bucket.index];
  if (bucket.sharded == ir::Sharded::kNothing) return parameter_bytes(a.parameter);
  return bucket.bytes / static_cast<int64_t>(bucket.teams[0].size());
}

// One workspace a stream: programs of two streams run at the same time.
BufferRange RankEmitter::workspace(int64_t bytes, int32_t stream_index) {
  if (bytes == 0) return {};
  const std::string& name = plan_.streams[stream_index].name;
  const int32_t b =
      buffer(name == "compute" ? "workspace" : "workspace " + name, BufferClass::kArena, 0, DType::kF32, {});
  if (plan_.buffers[b].bytes < bytes) plan_.buffers.edit()[b].bytes = bytes;
  return {b, 0};
}

BufferRange RankEmitter::bind(const SlotHolds& holds, const plan::Slot& slot, size_t variant, const ir::ComputeNode& n,
                              GroupId group) {
  if (holds.kind == SlotHolds::Kind::kValue) return value(holds.value, n.microbatch, variant);
  const ChunkId chunk = n.chunk;
  const int32_t microbatch = n.microbatch;
  using Kind = SlotHolds::Kind;
  const ir::Graph& graph = *s_.request.variants[variant].graph;
  const std::string mark = module_.step.split ? " m" + std::to_string(microbatch) : "";
  const std::string batch_mark = variant == 0 ? "" : " b" + std::to_string(s_.request.variants[variant].local_batch);
  switch (holds.kind) {
    case Kind::kInput: {
      const ir::Input& input = graph.inputs()[holds.index];
      const ir::TensorType& type = graph.type(input.value);
      const std::string name = input.name + (input.batched ? mark + batch_mark : "");
      const bool fresh = find_buffer(name) < 0;
      const BufferRange where{buffer(name, BufferClass::kInput, type.bytes(), type.dtype, type.shape), 0};
      if (fresh) {
        plan::InputSlice slice;
        slice.input = input.name;
        if (input.batched) {
          slice.first = first_sample(group, microbatch);
          slice.count = s_.request.variants[variant].local_batch;
          samples_[name] = {group, microbatch};
        }
        slice.where = where;
        plan_.inputs.push_back(std::move(slice));
      }
      return where;
    }
    case Kind::kParameter: return parameter(holds.index, &n);
    case Kind::kGradient: return gradient(accumulator_of(holds.index, chunk), microbatch);
    case Kind::kBuffer: {
      const ir::Parameter& state = graph.buffers()[holds.index];
      const ir::TensorType& type = graph.type(state.value);
      return {buffer("state " + state.names[0], BufferClass::kState, type.bytes(), type.dtype, type.shape), 0};
    }
    case Kind::kConstant: {
      const ir::TensorType& type = graph.type(graph.constants()[holds.index].value);
      const std::string& name = s_.constant_name(variant, holds.index);
      const bool fresh = find_buffer("const " + name) < 0;
      const BufferRange where{buffer("const " + name, BufferClass::kConstant, type.bytes(), type.dtype, type.shape), 0};
      if (fresh) {
        plan::Placement placement;
        placement.name = name;
        placement.dtype = type.dtype;
        placement.shape = type.shape;
        placement.value = {where, 0, type.elements(), false};
        plan_.placements.push_back(std::move(placement));
      }
      return where;
    }
    case Kind::kSeedStep: {
      plan_.seed_step = {buffer("seed_step", BufferClass::kScalar, 16, DType::kI64, {2}), 0};
      return plan_.seed_step;
    }
    case Kind::kSampleOffset: {
      const std::string name = "sample_offset" + mark + batch_mark;
      const bool fresh = find_buffer(name) < 0;
      const int32_t b = buffer(name, BufferClass::kScalar, 8, DType::kI64, {1});
      if (fresh) {
        plan_.scalars.push_back({b, {first_sample(group, microbatch)}});
        samples_[name] = {group, microbatch};
      }
      return {b, 0};
    }
    case Kind::kValue: break;  // above
    case Kind::kSaved: {
      static constexpr const char* kBlock[] = {" saved", " saved for W", " kept for W"};
      const std::string name = module_.chunks()[chunk.index].name + kBlock[holds.index] + mark + batch_mark;
      return {buffer(name, BufferClass::kArena, slot.bytes, DType::kF32, {}), 0};
    }
    case Kind::kCount:
      return {buffer("count " + slot.name, BufferClass::kGradient, slot.bytes, graph.type(holds.value).dtype, {}), 0};
    case Kind::kStepValue:
      return {buffer("step " + slot.name, BufferClass::kArena, slot.bytes, graph.type(holds.value).dtype, {}), 0};
    case Kind::kLoss: return {buffer("loss sum", BufferClass::kGradient, slot.bytes, DType::kF32, {}), 0};
    case Kind::kDropped: return {buffer("dropped sum", BufferClass::kGradient, slot.bytes, DType::kI64, {}), 0};
  }
  return {};
}

// ------------------------------------------------------------------ instructions
int32_t RankEmitter::stream(const std::string& name) {
  auto [it, fresh] = streams_.emplace(name, static_cast<int32_t>(plan_.streams.size()));
  if (fresh) plan_.streams.push_back({name});
  return it->second;
}

int32_t RankEmitter::stream_of(uint32_t dag_stream) {
  if (dag_stream >= stream_of_.size()) stream_of_.resize(module_.distribution.streams.size(), -1);
  int32_t& known = stream_of_[dag_stream];
  if (known < 0) known = stream(module_.distribution.streams[dag_stream]);
  return known;
}

RankEmitter::Lane RankEmitter::channel(int32_t peer, bool outgoing, uint32_t stream_index) {
  const uint32_t number = s_.connections.channel(stream_index, outgoing ? rank_ : peer, outgoing ? peer : rank_);
  const auto [lane, fresh] = lanes_.try_emplace(number);
  if (fresh) {
    const std::string& name = s_.connections.name(number);
    lane->second = {static_cast<int32_t>(plan_.channels.size()), stream(name)};
    plan_.channels.push_back({name, peer, static_cast<int32_t>(stream_index)});
  }
  return lane->second;
}

// `team` stands in the DAG.
RankEmitter::Lane RankEmitter::communicator(uint32_t dag_stream, const std::vector<int32_t>& team) {
  const uint32_t number = s_.connections.communicator(dag_stream, team);
  const auto [lane, fresh] = lanes_.try_emplace(number);
  if (fresh) {
    const std::string& name = s_.connections.name(number);
    lane->second = {static_cast<int32_t>(plan_.communicators.size()), stream(name)};
    plan_.communicators.push_back({name, team});
  }
  return lane->second;
}

void RankEmitter::add(int32_t stream_index, plan::Action action, std::initializer_list<Access> accesses,
                      int32_t provenance) {
  trace_.instructions.push_back({{stream_index, action, provenance}, static_cast<uint32_t>(trace_.accesses.size())});
  trace_.accesses.insert(trace_.accesses.end(), accesses);
}

void RankEmitter::run(int32_t program, std::string arguments_name, std::vector<BufferRange> arguments,
                      int32_t provenance, int32_t stream_index) {
  const plan::Program& p = s_.program(program);
  plan::Run instruction;
  instruction.program = program;
  instruction.arguments = static_cast<int32_t>(plan_.arguments.size());
  instruction.workspace = workspace(p.workspace_bytes, stream_index);
  add(stream_index, instruction, {}, provenance);
  for (size_t slot = 0; slot < p.slots.size(); ++slot)
    touch({arguments[slot].buffer, p.slots[slot].reads, p.slots[slot].writes});
  if (instruction.workspace.buffer >= 0) touch({instruction.workspace.buffer, true, true});
  plan_.arguments.push_back({std::move(arguments_name), std::move(arguments)});
}

void RankEmitter::send(BufferRange data, int64_t bytes, int32_t peer, uint32_t stream_index, int32_t provenance) {
  const Lane lane = channel(peer, true, stream_index);
  add(lane.stream, plan::Send{data, bytes, lane.index}, {{data.buffer, true, false}}, provenance);
}

void RankEmitter::receive(BufferRange data, int64_t bytes, int32_t peer, uint32_t stream_index, int32_t provenance) {
  const Lane lane = channel(peer, false, stream_index);
  add(lane.stream, plan::Recv{data, bytes, lane.index}, {{data.buffer, false, true}}, provenance);
}

// ------------------------------------------------------------------ nodes
// Whether a buffer of the class is the same for every microbatch of a chunk.
static bool outlives_microbatches(BufferClass cls) {
  return cls == BufferClass::kParameter || cls == BufferClass::kGradient || cls == BufferClass::kState ||
         cls == BufferClass::kConstant;
}

void RankEmitter::compute(const ir::Node& node, const ir::ComputeNode& n) {
  const size_t variant = s_.variant_of_group(node.group);
  const Phase phase = n.phase;
  const LoweredProgram* lowered = s_.find(variant, n.chunk, phase, n.microbatch);
  PIPER_CHECK(lowered != nullptr, "no program for ", module_.chunks()[n.chunk.index].name);
  const int32_t index = s_.program_index(variant, n.chunk, phase, n.microbatch);
  clear_gradients(*lowered, n, node);
  std::vector<BufferRange>& fixed = fixed_arguments_[lowered];
  fixed.resize(lowered->holds.size());
  std::vector<BufferRange> arguments = fixed;
  for (size_t slot = 0; slot < arguments.size(); ++slot) {
    if (arguments[slot].buffer >= 0) continue;
    arguments[slot] = bind(lowered->holds[slot], lowered->program.slots[slot], variant, n, node.group);
    if (outlives_microbatches(plan_.buffers[arguments[slot].buffer].cls)) fixed[slot] = arguments[slot];
  }
  run(index, compute_name(n), std::move(arguments), s_.provenance(node.prov), stream_of(node.stream));
}

std::string RankEmitter::compute_name(const ir::ComputeNode& n) const {
  plan::ChunkRun run{module_.chunks()[n.chunk.index].name,
                     std::string(ir::phase_name(n.phase, module_.distribution.backward_split(n.chunk))),
                     {}};
  if (module_.step.split) run.microbatch = n.microbatch;
  return plan::run_name(run);
}

// Gradients that are reduced after every microbatch start at zero in front of its first backward.
void RankEmitter::clear_gradients(const LoweredProgram& lowered, const ir::ComputeNode& n, const ir::Node& node) {
  for (const SlotHolds& holds : lowered.holds) {
    if (holds.kind != SlotHolds::Kind::kGradient) continue;
    const ir::Accumulator& a = module_.state.accumulators[accumulator_of(holds.index, n.chunk).index];
    const ir::Bucket& bucket = module_.state.buckets[a.bucket.index];
    if (bucket.sharded < ir::Sharded::kGradients || !cleared_.emplace(a.bucket.index, n.microbatch).second) continue;
    clear_gradient(bucket, n.microbatch, s_.provenance(node.prov), stream_of(node.stream));
  }
}

void RankEmitter::clear_gradient(const ir::Bucket& bucket, int32_t microbatch, int32_t provenance,
                                 int32_t stream_index) {
  std::vector<BufferRange> arguments;
  arguments = {{gradient_buffer(bucket, microbatch), 0}};
  std::string name = "clear " + plan_.buffers[arguments[0].buffer].name;
  run(s_.intern_program(clear_program(bucket.bytes)), std::move(name), std::move(arguments), provenance, stream_index);
}

Status RankEmitter::visit(const ir::Node& node) {
  if (const auto* message = std::get_if<ir::TransferNode>(&node.payload)) return transfer(node, *message);
  struct Visitor {
    RankEmitter& e;
    const ir::Node& node;
    void operator()(const ir::ComputeNode& n) { e.compute(node, n); }
    void operator()(const ir::StepNode& n) { e.step(node, n); }
    void operator()(const ir::TransferNode&) {}
    void operator()(const ir::AllReduceNode& n) { e.all_reduce(node, n); }
    void operator()(const ir::UpdateNode& n) { e.update(node, n); }
    void operator()(const ir::ExchangeNode& n) { e.exchange(node, n); }
    void operator()(const ir::ReduceScatterNode& n) { e.reduce_scatter(node, n); }
    void operator()(const ir::AllGatherNode& n) { e.all_gather(node, n); }
  };
  std::visit(Visitor{*this, node}, node.payload);
  return Status();
}

Result<plan::RankPlan> RankEmitter::emit() {
  plan_.rank = rank_;
  stream("compute");
  const size_t some = 2 * s_.nodes_of_rank[rank_].size();  // about as many buffers
  values_.reserve(some);
  buffers_.reserve(some);
  // Streams of one rank keep an order that the strategy asks for by an event.
  std::unordered_map<uint32_t, std::vector<ir::NodeId>> ordered_after;
  const bool several_streams = module_.distribution.has_several_compute_streams();
  if (several_streams)
    for (const ir::Edge& edge : module_.dag.edges)
      if (edge.kind == ir::EdgeKind::kOrder &&
          module_.dag.nodes[edge.from.index].stream != module_.dag.nodes[edge.to.index].stream)
        ordered_after[edge.to.index].push_back(edge.from);
  std::unordered_map<uint32_t, uint32_t> last;  // node -> its last instruction here
  for (ir::NodeId id : s_.nodes_of_rank[rank_]) {
    const auto first = static_cast<uint32_t>(trace_.size());
    PIPER_RETURN_IF_ERROR(visit(module_.dag.nodes[id.index]));
    if (!several_streams || trace_.size() == first) continue;
    for (ir::NodeId from : ordered_after[id.index])
      if (const auto it = last.find(from.index); it != last.end()) trace_.ordered.emplace_back(first, it->second);
    last[id.index] = static_cast<uint32_t>(trace_.size() - 1);
  }
  finish_placements();
  place_buffers(plan_, std::move(trace_), guess_);
  sort_declarations(plan_);
  place_persistent(plan_);
  return std::move(plan_);
}

}  // namespace piper::emit
