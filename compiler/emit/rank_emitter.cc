#include "compiler/emit/rank_emitter.h"

#include <algorithm>

#include "compiler/emit/sort_declarations.h"
#include "compiler/emit/step_programs.h"
#include "schemas/base/check.h"

namespace piper::emit {

using ir::AccumulatorId;
using ir::ChunkId;
using ir::GroupId;
using ir::Phase;
using ir::ValueId;
using plan::BufferClass;
using plan::BufferRange;

namespace {

Phase phase_of(ir::Pass pass) {
  switch (pass) {
    case ir::Pass::kCount: return Phase::kCount;
    case ir::Pass::kForward: return Phase::kForward;
    case ir::Pass::kBackward: return Phase::kBackward;
    case ir::Pass::kBackwardWeight: return Phase::kBackwardWeight;
  }
  return Phase::kForward;
}

std::string rank_list(const std::vector<int32_t>& ranks) {
  std::string text;
  if (ranks.size() > 8) return std::to_string(ranks.front()) + ".." + std::to_string(ranks.back());
  for (int32_t r : ranks) text += (text.empty() ? "" : ",") + std::to_string(r);
  return text;
}

}  // namespace

// ------------------------------------------------------------------ buffers
int32_t RankEmitter::buffer(const std::string& key, BufferClass cls, int64_t bytes, DType dtype, std::vector<int64_t> shape) {
  auto [it, fresh] = buffers_.emplace(key, static_cast<int32_t>(plan_.buffers.size()));
  if (fresh) {
    plan::Buffer b;
    b.name = key;
    b.cls = cls;
    b.bytes = bytes;
    b.dtype = dtype;
    b.shape = std::move(shape);
    plan_.buffers.push_back(std::move(b));
  }
  return it->second;
}

int32_t RankEmitter::position(GroupId group) const {
  const auto& ranks = dag_.groups[group.index].ranks;
  auto it = std::find(ranks.begin(), ranks.end(), rank_);
  return it == ranks.end() ? -1 : static_cast<int32_t>(it - ranks.begin());
}

int64_t RankEmitter::first_sample(GroupId group, int32_t microbatch) const {
  const int64_t per_microbatch = s_.request.batch / dag_.num_microbatches;
  const int64_t members = static_cast<int64_t>(dag_.groups[group.index].ranks.size());
  return microbatch * per_microbatch + position(group) * (per_microbatch / members);
}

BufferRange RankEmitter::value(ValueId root, int32_t microbatch, size_t variant) {
  const auto key = std::make_tuple(root.index, microbatch, variant);
  auto it = values_.find(key);
  if (it != values_.end()) return it->second;
  const ir::Graph& graph = *s_.request.variants[variant].graph;
  const ir::Value& v = graph.value(root);
  std::string name = v.name;
  if (dag_.split) name += " m" + std::to_string(microbatch);
  if (variant != 0) name += " b" + std::to_string(s_.request.variants[variant].local_batch);
  const BufferRange range{buffer(name, BufferClass::kArena, v.type.bytes(), v.type.dtype, v.type.shape), 0};
  values_.emplace(key, range);
  return range;
}

AccumulatorId RankEmitter::primary(uint32_t p) const {
  for (AccumulatorId use : dag_.parameter_uses[p])
    if (position(dag_.accumulators[use.index].group) >= 0) return use;
  return {};
}

AccumulatorId RankEmitter::accumulator_of(uint32_t p, ChunkId chunk, GroupId group) const {
  for (AccumulatorId use : dag_.parameter_uses[p])
    if (dag_.accumulators[use.index].chunk == chunk && dag_.accumulators[use.index].group == group) return use;
  PIPER_CHECK(false, "no accumulator for parameter ", p);
  return {};
}

int64_t RankEmitter::parameter_bytes(uint32_t p) const {
  const ir::Graph& graph = *s_.request.variants[0].graph;
  return graph.type(graph.parameters()[p].value).bytes();
}

BufferRange RankEmitter::parameter(uint32_t p) {
  const AccumulatorId use = primary(p);
  if (use.valid()) {
    const ir::Accumulator& a = dag_.accumulators[use.index];
    const ir::Bucket& bucket = dag_.buckets[a.bucket.index];
    return {buffer("param " + bucket.name, BufferClass::kParameter, bucket.bytes, DType::kF32, {}), a.offset};
  }
  const ir::Graph& graph = *s_.request.variants[0].graph;
  const ir::Parameter& info = graph.parameters()[p];
  const ir::TensorType& type = graph.type(info.value);
  return {buffer("param " + info.names[0], BufferClass::kParameter, type.bytes(), type.dtype, type.shape), 0};
}

BufferRange RankEmitter::gradient(AccumulatorId id) {
  const ir::Accumulator& a = dag_.accumulators[id.index];
  const ir::Bucket& bucket = dag_.buckets[a.bucket.index];
  return {buffer("grad " + bucket.name, BufferClass::kGradient, bucket.bytes, DType::kF32, {}), a.offset};
}

BufferRange RankEmitter::workspace(int64_t bytes) {
  if (bytes == 0) return {};
  if (workspace_buffer_ < 0) workspace_buffer_ = buffer("workspace", BufferClass::kArena, 0, DType::kF32, {});
  workspace_bytes_ = std::max(workspace_bytes_, bytes);
  return {workspace_buffer_, 0};
}

BufferRange RankEmitter::bind(const SlotHolds& holds, const plan::Slot& slot, size_t variant, ChunkId chunk, int32_t microbatch,
                              GroupId group) {
  using Kind = SlotHolds::Kind;
  const ir::Graph& graph = *s_.request.variants[variant].graph;
  const std::string mark = dag_.split ? " m" + std::to_string(microbatch) : "";
  const std::string batch_mark = variant == 0 ? "" : " b" + std::to_string(s_.request.variants[variant].local_batch);
  switch (holds.kind) {
    case Kind::kInput: {
      const ir::Input& input = graph.inputs()[holds.index];
      const ir::TensorType& type = graph.type(input.value);
      const std::string name = input.name + (input.batched ? mark + batch_mark : "");
      const bool fresh = buffers_.find(name) == buffers_.end();
      const BufferRange where{buffer(name, BufferClass::kInput, type.bytes(), type.dtype, type.shape), 0};
      if (fresh) {
        plan::InputSlice slice;
        slice.input = input.name;
        if (input.batched) {
          slice.first = first_sample(group, microbatch);
          slice.count = s_.request.variants[variant].local_batch;
        }
        slice.where = where;
        plan_.inputs.push_back(std::move(slice));
      }
      return where;
    }
    case Kind::kParameter: return parameter(holds.index);
    case Kind::kGradient: return gradient(accumulator_of(holds.index, chunk, group));
    case Kind::kBuffer: {
      const ir::Parameter& state = graph.buffers()[holds.index];
      const ir::TensorType& type = graph.type(state.value);
      return {buffer("state " + state.names[0], BufferClass::kState, type.bytes(), type.dtype, type.shape), 0};
    }
    case Kind::kConstant: {
      const ir::TensorType& type = graph.type(graph.constants()[holds.index].value);
      const std::string& name = s_.constant_name(variant, holds.index);
      const bool fresh = buffers_.find("const " + name) == buffers_.end();
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
      const int32_t b = buffer(name, BufferClass::kScalar, 8, DType::kI64, {1});
      plan_.buffers[b].init = {first_sample(group, microbatch)};
      return {b, 0};
    }
    case Kind::kValue: return value(holds.value, microbatch, variant);
    case Kind::kSaved: {
      static constexpr const char* kBlock[] = {" saved", " saved for W", " kept for W"};
      const std::string name = dag_.chunks[chunk.index].name + kBlock[holds.index] + mark + batch_mark;
      return {buffer(name, BufferClass::kArena, slot.bytes, DType::kF32, {}), 0};
    }
    case Kind::kCount:
      return {buffer("count " + slot.name, BufferClass::kGradient, slot.bytes, graph.type(holds.value).dtype, {}), 0};
    case Kind::kStepValue:
      return {buffer("step " + slot.name, BufferClass::kArena, slot.bytes, graph.type(holds.value).dtype, {}), 0};
    case Kind::kLoss: return {buffer("loss sum", BufferClass::kGradient, slot.bytes, DType::kF32, {}), 0};
  }
  return {};
}

// ------------------------------------------------------------------ instructions
int32_t RankEmitter::stream(const std::string& name) {
  auto [it, fresh] = streams_.emplace(name, static_cast<int32_t>(plan_.streams.size()));
  if (fresh) plan_.streams.push_back({name});
  return it->second;
}

int32_t RankEmitter::channel(int32_t peer, bool outgoing, uint32_t stream_index) {
  const int32_t from = outgoing ? rank_ : peer, to = outgoing ? peer : rank_;
  const std::string name = dag_.streams[stream_index] + ":" + std::to_string(from) + ">" + std::to_string(to);
  auto [it, fresh] = channels_.emplace(name, static_cast<int32_t>(plan_.channels.size()));
  if (fresh) plan_.channels.push_back({name, static_cast<int32_t>(stream_index)});
  return it->second;
}

int32_t RankEmitter::communicator(const std::string& stream_name, const std::vector<int32_t>& ranks) {
  const std::string name = stream_name + ":" + rank_list(ranks);
  auto [it, fresh] = communicators_.emplace(name, static_cast<int32_t>(plan_.communicators.size()));
  if (fresh) plan_.communicators.push_back({name, ranks});
  return it->second;
}

void RankEmitter::add(int32_t stream_index, plan::Action action, std::vector<Access> accesses, std::string name, int32_t provenance) {
  const int count = used_names_[name]++;
  if (count > 0) name += " #" + std::to_string(count + 1);
  traced_.push_back({{stream_index, std::move(action), provenance}, std::move(accesses), std::move(name)});
}

void RankEmitter::run(int32_t program, std::string arguments_name, Bound bound, int32_t provenance) {
  const plan::Program& p = s_.program(program);
  plan::Run instruction;
  instruction.program = program;
  instruction.arguments = static_cast<int32_t>(plan_.arguments.size());
  instruction.workspace = workspace(p.workspace_bytes);
  for (size_t slot = 0; slot < p.slots.size(); ++slot)
    bound.accesses.push_back({bound.arguments[slot].buffer, p.slots[slot].reads, p.slots[slot].writes});
  if (instruction.workspace.buffer >= 0) bound.accesses.push_back({instruction.workspace.buffer, true, true});
  plan_.arguments.push_back({arguments_name, std::move(bound.arguments)});
  add(stream("compute"), instruction, std::move(bound.accesses), std::move(arguments_name), provenance);
}

void RankEmitter::send(BufferRange data, int64_t bytes, int32_t peer, uint32_t stream_index, int32_t provenance) {
  plan::Send instruction{data, bytes, peer, channel(peer, true, stream_index)};
  const std::string lane = plan_.channels[instruction.channel].name;
  add(stream(lane), instruction, {{data.buffer, true, false}}, "sent " + plan_.buffers[data.buffer].name + " >" + std::to_string(peer), provenance);
}

void RankEmitter::receive(BufferRange data, int64_t bytes, int32_t peer, uint32_t stream_index, int32_t provenance) {
  plan::Recv instruction{data, bytes, peer, channel(peer, false, stream_index)};
  const std::string lane = plan_.channels[instruction.channel].name;
  add(stream(lane), instruction, {{data.buffer, false, true}}, "got " + plan_.buffers[data.buffer].name + " <" + std::to_string(peer), provenance);
}

// ------------------------------------------------------------------ nodes
void RankEmitter::compute(const ir::Node& node, const ir::ComputeNode& n) {
  const size_t variant = s_.variant_of_group(node.group);
  const Phase phase = phase_of(n.pass);
  const LoweredProgram* lowered = s_.find(variant, n.chunk, phase);
  PIPER_CHECK(lowered != nullptr, "no program for ", dag_.chunks[n.chunk.index].name);
  const int32_t index = s_.program_index(variant, n.chunk, phase);
  Bound bound;
  for (size_t slot = 0; slot < lowered->holds.size(); ++slot)
    bound.arguments.push_back(bind(lowered->holds[slot], lowered->program.slots[slot], variant, n.chunk, n.microbatch, node.group));
  std::string name = dag_.chunks[n.chunk.index].name + "." + std::string(ir::pass_name(n.pass, dag_.backward_split[n.chunk.index]));
  if (dag_.split) name += " m" + std::to_string(n.microbatch);
  run(index, std::move(name), std::move(bound), s_.provenance(node.prov));
}

void RankEmitter::step(const ir::Node& node, const ir::StepNode& n) {
  const int32_t provenance = s_.provenance(node.prov);
  const auto num_parameters = static_cast<int64_t>(dag_.parameter_uses.size());
  switch (n.work) {
    case ir::StepWork::kCountFinish: {
      const size_t variant = s_.variant_of_group(dag_.placement[n.chunk.index][0]);
      const LoweredProgram* lowered = s_.find(variant, n.chunk, Phase::kCountFinish);
      PIPER_CHECK(lowered != nullptr, "no count program");
      Bound bound;
      for (size_t slot = 0; slot < lowered->holds.size(); ++slot)
        bound.arguments.push_back(bind(lowered->holds[slot], lowered->program.slots[slot], variant, n.chunk, 0, node.group));
      run(s_.program_index(variant, n.chunk, Phase::kCountFinish), dag_.chunks[n.chunk.index].name + ".count", std::move(bound), provenance);
      return;
    }
    case ir::StepWork::kLossFinish: {
      Bound bound;
      bound.arguments = {{buffer("loss sum", BufferClass::kGradient, 4, DType::kF32, {}), 0},
                         {buffer("loss", BufferClass::kGradient, 4, DType::kF32, {}), 0}};
      plan_.loss = bound.arguments[1];
      run(s_.intern_program(loss_finish_program()), "loss", std::move(bound), provenance);
      return;
    }
    case ir::StepWork::kCombine: {
      const uint32_t p = n.parameter;
      if (combined_[{p, 0}]) return;
      combined_[{p, 0}] = true;
      const ir::Graph& graph = *s_.request.variants[0].graph;
      const ir::Parameter& info = graph.parameters()[p];
      const ir::TensorType& type = graph.type(info.value);
      const auto& uses = dag_.parameter_uses[p];
      std::vector<bool> local;
      size_t target = uses.size();
      Bound bound;
      for (size_t u = 0; u < uses.size(); ++u) {
        const bool here = position(dag_.accumulators[uses[u].index].group) >= 0;
        local.push_back(here);
        if (here && target == uses.size()) target = u;
        bound.arguments.push_back(here ? gradient(uses[u])
                                       : BufferRange{buffer("grad " + info.names[0] + " use " + std::to_string(u), BufferClass::kArena,
                                                            type.bytes(), type.dtype, type.shape), 0});
      }
      run(s_.intern_program(combine_program(info.names[0], type.dtype, type.elements(), local, target)), "combine " + info.names[0],
          std::move(bound), provenance);
      return;
    }
    case ir::StepWork::kNormPart: {
      std::vector<OwnedGradient> owned;
      Bound bound;
      bound.arguments.push_back({buffer("grad norms", BufferClass::kArena, 4 * num_parameters, DType::kF32, {num_parameters}), 0});
      const ir::Graph& graph = *s_.request.variants[0].graph;
      for (uint32_t p = 0; p < dag_.parameter_uses.size(); ++p) {
        if (dag_.parameter_uses[p].empty() || s_.owner[p] != rank_) continue;
        owned.push_back({p, graph.parameters()[p].names[0], graph.type(graph.parameters()[p].value).elements()});
        bound.arguments.push_back(gradient(primary(p)));
      }
      const std::string name = owned.empty() ? "norm.none" : "norm.r" + std::to_string(rank_);
      run(s_.intern_program(norm_part_program(name, num_parameters, owned)), "gradient norms", std::move(bound), provenance);
      return;
    }
    case ir::StepWork::kClip: {
      Bound bound;
      bound.arguments = {{buffer("grad norms", BufferClass::kArena, 4 * num_parameters, DType::kF32, {num_parameters}), 0},
                         {buffer("grad_norm", BufferClass::kGradient, 4, DType::kF32, {}), 0},
                         {buffer("grad_scale", BufferClass::kGradient, 4, DType::kF32, {}), 0}};
      plan_.grad_norm = bound.arguments[1];
      run(s_.intern_program(clip_program(num_parameters, s_.request.strategy->clip_grad_norm)), "clip", std::move(bound), provenance);
      return;
    }
  }
}

Status RankEmitter::transfer(const ir::Node& node, const ir::TransferNode& n) {
  switch (n.cargo) {
    case ir::Cargo::kValue: return transfer_value(node, n);
    case ir::Cargo::kAccumulator: transfer_accumulator(node, n); return Status();
    case ir::Cargo::kLoss: {
      const int32_t from = dag_.groups[node.group.index].ranks[0], to = dag_.groups[n.to.index].ranks[0];
      if (rank_ != from && rank_ != to) return Status();
      const BufferRange loss{buffer("loss", BufferClass::kGradient, 4, DType::kF32, {}), 0};
      plan_.loss = loss;
      if (rank_ == from) send(loss, 4, to, node.stream, s_.provenance(node.prov));
      if (rank_ == to) receive(loss, 4, from, node.stream, s_.provenance(node.prov));
      return Status();
    }
  }
  return Status();
}

// Position j of the larger group exchanges with position floor(j small/large) of the smaller one, which holds
// the samples of large/small members one after the other.
Status RankEmitter::transfer_value(const ir::Node& node, const ir::TransferNode& n) {
  const auto& from = dag_.groups[node.group.index].ranks;
  const auto& to = dag_.groups[n.to.index].ranks;
  const int32_t prov = s_.provenance(node.prov);
  const size_t from_variant = s_.variant_of_group(node.group), to_variant = s_.variant_of_group(n.to);
  const ir::TensorType& from_type = s_.request.variants[from_variant].graph->type(n.value);
  const ir::TensorType& to_type = s_.request.variants[to_variant].graph->type(n.value);
  const auto large = static_cast<int64_t>(std::max(from.size(), to.size())), small = static_cast<int64_t>(std::min(from.size(), to.size()));
  const int64_t ratio = large / small;
  const bool per_sample = from_type.shape != to_type.shape;
  if (ratio > 1 && !per_sample && n.pass == ir::Pass::kBackward)
    return s_.diags.error("P0511") << "the gradient '" << s_.request.variants[0].graph->value(n.value).name
                                   << "' is not per sample and would have to be summed between groups of " << from.size() << " and "
                                   << to.size() << " devices";
  if (per_sample) {
    // Parts must be contiguous: the axis that differs is the outermost in memory.
    const auto& strides = s_.request.variants[from_variant].lowered.layouts[n.value.index].strides;
    for (size_t axis = 0; axis < from_type.shape.size(); ++axis)
      if (from_type.shape[axis] != to_type.shape[axis])
        for (size_t other = 0; other < strides.size(); ++other)
          if (other != axis && from_type.shape[other] > 1 && strides[other] > strides[axis])
            return s_.diags.error("P0510") << "'" << s_.request.variants[0].graph->value(n.value).name
                                           << "' is exchanged between groups of " << from.size() << " and " << to.size()
                                           << " devices, but its samples are not contiguous in memory";
  }
  for (int64_t j = 0; j < large; ++j) {
    const int64_t i = j / ratio;
    const int64_t sender = static_cast<int64_t>(from.size()) == large ? j : i, receiver = static_cast<int64_t>(to.size()) == large ? j : i;
    const int32_t src = from[sender], dst = to[receiver];
    if (src != rank_ && dst != rank_) continue;
    const int64_t bytes = std::min(from_type.bytes(), to_type.bytes());
    const int64_t part = per_sample ? (j % ratio) * bytes : 0;
    // Several identical copies of a value that is the same for every sample: the first one serves.
    if (!per_sample && static_cast<int64_t>(from.size()) == large && j % ratio != 0) continue;
    const int64_t from_offset = static_cast<int64_t>(from.size()) == large ? 0 : part;
    const int64_t to_offset = static_cast<int64_t>(to.size()) == large ? 0 : part;
    if (src == dst) {
      if (from_variant == to_variant) continue;  // the same buffer
      BufferRange a = value(n.value, n.microbatch, from_variant), b = value(n.value, n.microbatch, to_variant);
      a.offset += from_offset;
      b.offset += to_offset;
      Bound bound;
      bound.arguments = {a, b};
      run(s_.intern_program(copy_program(bytes)), "copy " + plan_.buffers[b.buffer].name, std::move(bound), prov);
      continue;
    }
    if (src == rank_) {
      BufferRange a = value(n.value, n.microbatch, from_variant);
      a.offset += from_offset;
      send(a, bytes, dst, node.stream, prov);
    } else {
      BufferRange b = value(n.value, n.microbatch, to_variant);
      b.offset += to_offset;
      receive(b, bytes, src, node.stream, prov);
    }
  }
  return Status();
}

void RankEmitter::transfer_accumulator(const ir::Node& node, const ir::TransferNode& n) {
  const auto& from = dag_.groups[node.group.index].ranks;
  const auto& to = dag_.groups[n.to.index].ranks;
  const ir::Accumulator& a = dag_.accumulators[n.accumulator.index];
  const ir::Parameter& info = s_.request.variants[0].graph->parameters()[a.parameter];
  const ir::TensorType& type = s_.request.variants[0].graph->type(info.value);
  for (size_t j = 0; j < to.size(); ++j) {
    const int32_t dst = to[j], src = from[j % from.size()];
    if (std::find(from.begin(), from.end(), dst) != from.end()) continue;
    if (dst != rank_ && src != rank_) continue;
    bool& done = received_[{n.accumulator.index, dst}];   // a member of two receiving groups gets it once
    if (done) continue;
    done = true;
    if (src == rank_) {
      send(gradient(n.accumulator), type.bytes(), dst, node.stream, s_.provenance(node.prov));
    } else {
      const int32_t b = buffer("grad " + info.names[0] + " use " + std::to_string(a.use), BufferClass::kArena, type.bytes(), type.dtype, type.shape);
      receive({b, 0}, type.bytes(), src, node.stream, s_.provenance(node.prov));
    }
  }
}

void RankEmitter::all_reduce(const ir::Node& node, const ir::AllReduceNode& n) {
  const auto& ranks = dag_.groups[node.group.index].ranks;
  plan::AllReduce instruction;
  std::vector<BufferRange> data;
  std::vector<int64_t> counts;
  switch (n.what) {
    case ir::Reduced::kBucket: {
      const ir::Bucket& bucket = dag_.buckets[n.bucket.index];
      data.push_back({buffer("grad " + bucket.name, BufferClass::kGradient, bucket.bytes, DType::kF32, {}), 0});
      counts.push_back(bucket.bytes / 4);
      break;
    }
    case ir::Reduced::kCount: {
      const size_t variant = s_.variant_of_group(dag_.placement[n.chunk.index][0]);
      const LoweredProgram* finish = s_.find(variant, n.chunk, Phase::kCountFinish);
      for (size_t slot = 0; slot < finish->holds.size(); ++slot)
        if (finish->holds[slot].kind == SlotHolds::Kind::kCount) {
          data.push_back(bind(finish->holds[slot], finish->program.slots[slot], variant, n.chunk, 0, node.group));
          counts.push_back(finish->program.slots[slot].bytes / 4);
        }
      break;
    }
    case ir::Reduced::kLoss:
      data.push_back({buffer("loss", BufferClass::kGradient, 4, DType::kF32, {}), 0});
      counts.push_back(1);
      break;
    case ir::Reduced::kNorm: {
      const auto num = static_cast<int64_t>(dag_.parameter_uses.size());
      data.push_back({buffer("grad norms", BufferClass::kArena, 4 * num, DType::kF32, {num}), 0});
      counts.push_back(num);
      break;
    }
  }
  const std::string& lane = dag_.streams[node.stream];
  for (size_t i = 0; i < data.size(); ++i) {
    plan::AllReduce reduce{data[i], counts[i], DType::kF32, communicator(lane, ranks), plan::Reduction::kSum};
    const std::string stream_name = plan_.communicators[reduce.communicator].name;
    add(stream(stream_name), reduce, {{data[i].buffer, true, true}}, "reduced " + plan_.buffers[data[i].buffer].name, s_.provenance(node.prov));
  }
}

void RankEmitter::update(const ir::Node& node, const ir::UpdateNode& n) {
  const ir::Bucket& bucket = dag_.buckets[n.bucket.index];
  const plan::Optimizer& optimizer = s_.request.optimizer;
  const bool has_m = optimizer.kind != "sgd" || optimizer.momentum != 0, has_v = optimizer.kind != "sgd";
  // Runs of parameters whose weights stand in this bucket and that share a group become one update.
  size_t i = 0;
  while (i < bucket.accumulators.size()) {
    const ir::Accumulator& first = dag_.accumulators[bucket.accumulators[i].index];
    if (primary(first.parameter) != bucket.accumulators[i]) {
      ++i;
      continue;
    }
    const int32_t group = s_.request.decay_group[first.parameter];
    int64_t end = first.offset;
    size_t j = i;
    for (; j < bucket.accumulators.size(); ++j) {
      const ir::Accumulator& a = dag_.accumulators[bucket.accumulators[j].index];
      if (primary(a.parameter) != bucket.accumulators[j] || s_.request.decay_group[a.parameter] != group) break;
      end = a.offset + parameter_bytes(a.parameter);
    }
    plan::Update u;
    u.group = group;
    u.count = (end - first.offset) / 4;
    u.parameter = parameter(first.parameter);
    u.gradient = gradient(bucket.accumulators[i]);
    std::vector<Access> accesses = {{u.parameter.buffer, true, true}, {u.gradient.buffer, true, true}};
    if (has_m) {
      u.m = {buffer("m " + bucket.name, BufferClass::kOptimizer, bucket.bytes, DType::kF32, {}), first.offset};
      accesses.push_back({u.m.buffer, true, true});
    }
    if (has_v) {
      u.v = {buffer("v " + bucket.name, BufferClass::kOptimizer, bucket.bytes, DType::kF32, {}), first.offset};
      accesses.push_back({u.v.buffer, true, true});
    }
    if (s_.request.strategy->clip_grad_norm > 0) {
      u.scale = {buffer("grad_scale", BufferClass::kGradient, 4, DType::kF32, {}), 0};
      accesses.push_back({u.scale.buffer, true, false});
    }
    add(stream("compute"), u, std::move(accesses), "updated " + bucket.name, s_.provenance(node.prov));
    i = j;
  }
}

Status RankEmitter::visit(const ir::Node& node) {
  if (const auto* message = std::get_if<ir::TransferNode>(&node.payload)) {
    if (position(node.group) < 0 && position(message->to) < 0) return Status();
    return transfer(node, *message);
  }
  if (position(node.group) < 0) return Status();
  struct Visitor {
    RankEmitter& e;
    const ir::Node& node;
    void operator()(const ir::ComputeNode& n) { e.compute(node, n); }
    void operator()(const ir::StepNode& n) { e.step(node, n); }
    void operator()(const ir::TransferNode&) {}
    void operator()(const ir::AllReduceNode& n) { e.all_reduce(node, n); }
    void operator()(const ir::UpdateNode& n) { e.update(node, n); }
  };
  std::visit(Visitor{*this, node}, node.payload);
  return Status();
}

void RankEmitter::finish_placements() {
  const ir::Graph& graph = *s_.request.variants[0].graph;
  std::vector<plan::Placement> model;
  for (uint32_t p = 0; p < graph.parameters().size(); ++p) {
    const ir::Parameter& info = graph.parameters()[p];
    const AccumulatorId use = primary(p);
    const bool held = use.valid() || buffers_.count("param " + info.names[0]) > 0;
    if (!held && s_.owner[p] != rank_) continue;
    const ir::TensorType& type = graph.type(info.value);
    const bool owner = s_.owner[p] == rank_;
    plan::Placement placement;
    placement.name = info.names[0];
    placement.dtype = type.dtype;
    placement.shape = type.shape;
    placement.value = {parameter(p), 0, type.elements(), owner};
    if (use.valid()) placement.gradient = {gradient(use), 0, type.elements(), owner};
    model.push_back(std::move(placement));
  }
  for (const ir::Parameter& state : graph.buffers()) {
    auto it = buffers_.find("state " + state.names[0]);
    if (it == buffers_.end()) continue;
    const ir::TensorType& type = graph.type(state.value);
    plan::Placement placement;
    placement.name = state.names[0];
    placement.dtype = type.dtype;
    placement.shape = type.shape;
    placement.value = {{it->second, 0}, 0, type.elements(), true};
    model.push_back(std::move(placement));
  }
  plan_.placements.insert(plan_.placements.begin(), model.begin(), model.end());
}

Result<plan::RankPlan> RankEmitter::emit() {
  plan_.rank = rank_;
  stream("compute");
  for (ir::NodeId id : dag_.order) PIPER_RETURN_IF_ERROR(visit(dag_.nodes[id.index]));
  finish_placements();
  if (workspace_buffer_ >= 0) plan_.buffers[workspace_buffer_].bytes = workspace_bytes_;
  place_buffers(plan_, std::move(traced_));
  sort_declarations(plan_);
  place_persistent(plan_);
  return std::move(plan_);
}

}  // namespace piper::emit
