// What is done once per step: counts, the loss, sums of tied gradients, clipping, updates; and where each tensor of the model stands.
#include <algorithm>

#include "compiler/emit/rank_emitter.h"
#include "compiler/emit/step_programs.h"
#include "schemas/base/check.h"

namespace piper::emit {

using ir::AccumulatorId;
using ir::Phase;
using plan::BufferClass;
using plan::BufferRange;

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
        bound.arguments.push_back(bind(lowered->holds[slot], lowered->program.slots[slot], variant, {n.chunk, ir::Pass::kCount, 0}, node.group));
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
        bound.arguments.push_back(here ? gradient(uses[u], -1)
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
        if (!primary(p).valid()) continue;
        const Piece piece = piece_of(p);
        if (!piece.owner || piece.count == 0) continue;
        owned.push_back({p, graph.parameters()[p].names[0], piece.count});
        bound.arguments.push_back(piece.gradient);
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

// Runs of parameters whose weights stand in this bucket and that share a group become one update, cut to the rank's part.
void RankEmitter::update(const ir::Node& node, const ir::UpdateNode& n) {
  const ir::Bucket& bucket = dag_.buckets[n.bucket.index];
  const plan::Optimizer& optimizer = s_.request.optimizer;
  const bool has_m = optimizer.kind != "sgd" || optimizer.momentum != 0, has_v = optimizer.kind != "sgd";
  const bool sharded = bucket.sharded != ir::Sharded::kNothing;
  const Team team = team_of(bucket);
  const int64_t part_begin = sharded ? team.position * team.part_bytes : 0, part_end = sharded ? part_begin + team.part_bytes : bucket.bytes;
  const BufferRange value = update_home(bucket, false), sum = update_home(bucket, true);
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
    i = j;
    const int64_t begin = std::max(first.offset, part_begin);
    end = std::min(end, part_end);
    if (begin >= end) continue;
    plan::Update u;
    u.group = group;
    u.count = (end - begin) / 4;
    u.parameter = {value.buffer, begin - value.offset};
    u.gradient = {sum.buffer, begin - sum.offset};
    std::vector<Access> accesses = {{u.parameter.buffer, true, true}, {u.gradient.buffer, true, true}};
    if (has_m) {
      u.m = {buffer("m " + bucket.name, BufferClass::kOptimizer, part_end - part_begin, DType::kF32, {}), begin - part_begin};
      accesses.push_back({u.m.buffer, true, true});
    }
    if (has_v) {
      u.v = {buffer("v " + bucket.name, BufferClass::kOptimizer, part_end - part_begin, DType::kF32, {}), begin - part_begin};
      accesses.push_back({u.v.buffer, true, true});
    }
    if (s_.request.strategy->clip_grad_norm > 0) {
      u.scale = {buffer("grad_scale", BufferClass::kGradient, 4, DType::kF32, {}), 0};
      accesses.push_back({u.scale.buffer, true, false});
    }
    add(stream("compute"), u, std::move(accesses), "updated " + bucket.name, s_.provenance(node.prov));
  }
  // Updates clear what they use; the rest of a gradient that every member holds whole is cleared here.
  if (bucket.sharded == ir::Sharded::kOptimizer) {
    Bound bound;
    bound.arguments = {{gradient_buffer(bucket, -1), 0}};
    run(s_.intern_program(clear_program(bucket.bytes)), "clear " + bucket.name, std::move(bound), s_.provenance(node.prov), stream("compute"));
  }
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
    plan::Placement placement;
    placement.name = info.names[0];
    placement.dtype = type.dtype;
    placement.shape = info.whole(type).shape;
    if (use.valid()) {
      const Piece piece = piece_of(p);
      const ir::Bucket& bucket = dag_.buckets[dag_.accumulators[use.index].bucket.index];
      if (bucket.sharded == ir::Sharded::kParameters) {
        placement.value = {piece.value, piece.first, piece.count, piece.owner};
      } else {
        const bool saves = bucket.sharded == ir::Sharded::kNothing ? piece.owner : team_of(bucket).position == 0;
        placement.value = {parameter(p), slice_begin(p), type.elements(), saves};
      }
      placement.gradient = {piece.gradient, piece.first, piece.count, piece.owner};
      if (placement.gradient.count == 0) placement.gradient = {};
      if (placement.value.count == 0) continue;
    } else {
      // A frozen part of the experts is saved by the first group's members, each its own.
      bool saves = s_.owner[p] == rank_;
      if (info.shard >= 0) {
        const std::vector<int32_t>& first = dag_.expert_groups[info.shard].groups[0];
        saves = std::find(first.begin(), first.end(), rank_) != first.end();
      }
      placement.value = {parameter(p), slice_begin(p), type.elements(), saves};
    }
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

}  // namespace piper::emit
