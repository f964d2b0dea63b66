// What is done once per step: counts, the loss, sums of tied gradients, clipping, updates; and where each tensor of the
// model stands.
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
  const auto num_parameters = static_cast<int64_t>(module_.state.parameter_uses.size());
  switch (n.work) {
    case ir::StepWork::kCountFinish: {
      const size_t variant = s_.variant_of_group(module_.distribution.group(n.chunk, 0));
      const LoweredProgram* lowered = s_.find(variant, n.chunk, Phase::kCountFinish, 0);
      PIPER_CHECK(lowered != nullptr, "no count program");
      std::vector<BufferRange> arguments;
      for (size_t slot = 0; slot < lowered->holds.size(); ++slot)
        arguments.push_back(bind(lowered->holds[slot], lowered->program.slots[slot], variant,
                                 {n.chunk, ir::Phase::kCount, 0}, node.group));
      run(s_.program_index(variant, n.chunk, Phase::kCountFinish, 0), module_.chunks()[n.chunk.index].name + ".count",
          std::move(arguments), provenance);
      return;
    }
    case ir::StepWork::kLossFinish: {
      std::vector<BufferRange> arguments;
      arguments = {{buffer("loss sum", BufferClass::kGradient, 4, DType::kF32, {}), 0},
                   {buffer("loss", BufferClass::kGradient, 4, DType::kF32, {}), 0}};
      plan_.loss = arguments[1];
      run(s_.intern_program(finish_program("loss", DType::kF32)), "loss", std::move(arguments), provenance);
      return;
    }
    case ir::StepWork::kDroppedFinish: {
      std::vector<BufferRange> arguments;
      arguments = {{buffer("dropped sum", BufferClass::kGradient, 8, DType::kI64, {}), 0},
                   {buffer("dropped", BufferClass::kGradient, 8, DType::kI64, {}), 0}};
      plan_.dropped = arguments[1];
      run(s_.intern_program(finish_program("dropped", DType::kI64)), "dropped", std::move(arguments), provenance);
      return;
    }
    case ir::StepWork::kCombine: {
      const uint32_t p = n.parameter;
      if (combined_[{p, 0}]) return;
      combined_[{p, 0}] = true;
      const ir::Graph& graph = *s_.request.variants[0].graph;
      const ir::Parameter& info = graph.parameters()[p];
      const ir::TensorType& type = graph.type(info.value);
      const auto& uses = module_.state.parameter_uses[p];
      std::vector<bool> local;
      size_t target = uses.size();
      std::vector<BufferRange> arguments;
      for (size_t u = 0; u < uses.size(); ++u) {
        const bool here = position(module_.state.accumulators[uses[u].index].group) >= 0;
        local.push_back(here);
        if (here && target == uses.size()) target = u;
        arguments.push_back(here ? summed_gradient(uses[u]) : BufferRange{received_gradient(uses[u]), 0});
      }
      const int64_t elements = summed_bytes(uses[0]) / dtype_bytes(type.dtype);
      run(s_.intern_program(combine_program(info.names[0], type.dtype, elements, local, target)),
          "combine " + info.names[0], std::move(arguments), provenance);
      return;
    }
    case ir::StepWork::kNormPart: {
      std::vector<OwnedGradient> owned;
      std::vector<BufferRange> arguments;
      arguments.push_back(
          {buffer("grad norms", BufferClass::kArena, 4 * num_parameters, DType::kF32, {num_parameters}), 0});
      const ir::Graph& graph = *s_.request.variants[0].graph;
      for (uint32_t p = 0; p < module_.state.parameter_uses.size(); ++p) {
        if (!primary(p).valid()) continue;
        const Piece piece = piece_of(p);
        if (!piece.owner || piece.count == 0) continue;
        owned.push_back({p, graph.parameters()[p].names[0], piece.count});
        arguments.push_back(piece.gradient);
      }
      const std::string name = owned.empty() ? "norm.none" : "norm.r" + std::to_string(rank_);
      run(s_.intern_program(norm_part_program(name, num_parameters, owned)), "gradient norms", std::move(arguments),
          provenance);
      return;
    }
    case ir::StepWork::kClip: {
      std::vector<BufferRange> arguments;
      arguments = {{buffer("grad norms", BufferClass::kArena, 4 * num_parameters, DType::kF32, {num_parameters}), 0},
                   {buffer("grad_norm", BufferClass::kGradient, 4, DType::kF32, {}), 0},
                   {buffer("grad_scale", BufferClass::kGradient, 4, DType::kF32, {}), 0}};
      plan_.grad_norm = arguments[1];
      run(s_.intern_program(clip_program(num_parameters, s_.request.strategy->clip_grad_norm)), "clip",
          std::move(arguments), provenance);
      return;
    }
  }
}

// Runs of parameters whose weights stand in this bucket and that share a group become one update, cut to the rank's
// part.
void RankEmitter::update(const ir::Node& node, const ir::UpdateNode& n) {
  const ir::Bucket& bucket = module_.state.buckets[n.bucket.index];
  const plan::Optimizer& optimizer = s_.request.optimizer;
  const bool has_m = optimizer.kind != "sgd" || optimizer.momentum != 0, has_v = optimizer.kind != "sgd";
  const bool sharded = bucket.sharded != ir::Sharded::kNothing;
  const Team team = team_of(bucket);
  const int64_t part_begin = sharded ? team.position * team.part_bytes : 0,
                part_end = sharded ? part_begin + team.part_bytes : bucket.bytes;
  // Without weights of its own, a bucket of later uses has no place for them.
  const bool holds_weights = std::any_of(bucket.accumulators.begin(), bucket.accumulators.end(), [&](AccumulatorId id) {
    return primary(module_.state.accumulators[id.index].parameter) == id;
  });
  const BufferRange value = holds_weights ? update_home(bucket, false) : BufferRange(), sum = update_home(bucket, true);
  size_t i = 0;
  while (i < bucket.accumulators.size()) {
    const ir::Accumulator& first = module_.state.accumulators[bucket.accumulators[i].index];
    if (primary(first.parameter) != bucket.accumulators[i]) {
      ++i;
      continue;
    }
    const int32_t group = s_.request.decay_group[first.parameter];
    int64_t end = first.offset;
    size_t j = i;
    for (; j < bucket.accumulators.size(); ++j) {
      const ir::Accumulator& a = module_.state.accumulators[bucket.accumulators[j].index];
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
    if (has_m)
      u.m = {buffer("m " + bucket.name, BufferClass::kOptimizer, part_end - part_begin, DType::kF32, {}),
             begin - part_begin};
    if (has_v)
      u.v = {buffer("v " + bucket.name, BufferClass::kOptimizer, part_end - part_begin, DType::kF32, {}),
             begin - part_begin};
    if (s_.request.strategy->clip_grad_norm > 0)
      u.scale = {buffer("grad_scale", BufferClass::kGradient, 4, DType::kF32, {}), 0};
    add(stream("compute"), u, {{u.parameter.buffer, true, true}, {u.gradient.buffer, true, true}},
        s_.provenance(node.prov));
    for (const BufferRange& moment : {u.m, u.v})
      if (moment.buffer >= 0) touch({moment.buffer, true, true});
    if (u.scale.buffer >= 0) touch({u.scale.buffer, true, false});
  }
  // Updates clear what they use; the rest of a gradient that every member holds whole is cleared here.
  if (bucket.sharded == ir::Sharded::kOptimizer) {
    std::vector<BufferRange> arguments;
    arguments = {{gradient_buffer(bucket, -1), 0}};
    run(s_.intern_program(clear_program(bucket.bytes)), "clear " + bucket.name, std::move(arguments),
        s_.provenance(node.prov), stream("compute"));
  }
}

void RankEmitter::finish_placements() {
  const ir::Graph& graph = *s_.request.variants[0].graph;
  std::vector<plan::Placement> model;
  for (uint32_t p = 0; p < graph.parameters().size(); ++p) {
    const ir::Parameter& info = graph.parameters()[p];
    const AccumulatorId use = primary(p);
    const bool held = use.valid() || find_buffer("param " + info.names[0]) >= 0;
    if (!held && s_.owner[p] != rank_) continue;
    const ir::TensorType& type = graph.type(info.value);
    plan::Placement placement;
    placement.name = info.names[0];
    placement.dtype = type.dtype;
    placement.shape = info.whole(type).shape;
    if (use.valid()) {
      const Piece piece = piece_of(p);
      const ir::Bucket& bucket = module_.state.buckets[module_.state.accumulators[use.index].bucket.index];
      if (bucket.sharded == ir::Sharded::kParameters) {
        placement.value = {piece.value, piece.first, piece.count, piece.owner};
      } else {
        const bool saves = bucket.sharded == ir::Sharded::kNothing
                               ? piece.owner
                               : team_of(bucket).position == 0 && module_.state.accumulators[use.index].use == 0;
        placement.value = {parameter(p), slice_begin(p), type.elements(), saves};
      }
      placement.gradient = {piece.gradient, piece.first, piece.count, piece.owner};
      if (placement.gradient.count == 0) placement.gradient = {};
      if (placement.value.count == 0) continue;
    } else {
      // A frozen part of the experts is saved by the first group's members, each its own.
      bool saves = s_.owner[p] == rank_;
      if (info.shard >= 0) {
        const std::vector<int32_t>& first = module_.distribution.expert_groups[info.shard].groups[0];
        saves = std::find(first.begin(), first.end(), rank_) != first.end();
      }
      placement.value = {parameter(p), slice_begin(p), type.elements(), saves};
    }
    model.push_back(std::move(placement));
  }
  for (size_t b = 0; b < graph.buffers().size(); ++b) {
    const ir::Parameter& state = graph.buffers()[b];
    const int32_t held = find_buffer("state " + state.names[0]);
    if (held < 0) continue;
    const ir::TensorType& type = graph.type(state.value);
    plan::Placement placement;
    placement.name = state.names[0];
    placement.dtype = type.dtype;
    placement.shape = type.shape;
    placement.value = {{held, 0}, 0, type.elements(), s_.state_owner[b] == rank_};
    model.push_back(std::move(placement));
  }
  plan_.placements.insert(plan_.placements.begin(), model.begin(), model.end());
}

}  // namespace piper::emit
