// What is done once per step: scalars are taken, mean losses counted, tied gradients added up, gradients clipped,
// parameters updated.
#include <algorithm>

#include "compiler/emit/role_emitter.h"
#include "compiler/emit/step_programs.h"
#include "schemas/base/check.h"

namespace piper::emit {

using ir::AccumulatorId;
using ir::Phase;
using plan::BufferRange;

void RoleEmitter::log(ir::ScalarId id) {
  const ir::StepSum& sum = s_.sums.at(id.index);
  if (module_.evaluates) {
    plan_.means.resize(graph().means.size());
    plan::Mean& mean = plan_.means[static_cast<size_t>(sum.term)];
    (sum.number == plan::StepNumber::kLoss ? mean.sum : mean.count) = scalar(id);
  } else {
    (sum.number == plan::StepNumber::kLoss ? plan_.loss : plan_.dropped) = scalar(id);
  }
}

void RoleEmitter::emit(const Visit& at, const ir::TakeScalar& work) {
  const ir::StepScalar& taken = module_.dag.scalars[work.scalar.index];
  log(work.scalar);
  run(s_.intern_program(finish_program(taken.name, taken.dtype)), taken.name,
      {start_of({BufferKind::kScalarSum, work.scalar.index}), scalar(work.scalar)}, at.provenance);
}

void RoleEmitter::emit(const Visit& at, const ir::FinishCounts& work) {
  const size_t variant = s_.variant_of_group(module_.distribution.group(work.chunk, 0));
  const ir::LoweredProgram* lowered = s_.find(variant, work.chunk, Phase::kCountFinish, 0);
  PIPER_CHECK(lowered != nullptr, "no count program");
  std::vector<BufferRange> arguments;
  for (size_t slot = 0; slot < lowered->holds.size(); ++slot)
    arguments.push_back(
        bind(lowered->holds[slot], lowered->program.slots[slot], variant, {work.chunk, Phase::kCount, 0}, at));
  run(s_.program_index(variant, work.chunk, Phase::kCountFinish, 0), module_.chunks()[work.chunk.index].name + ".count",
      std::move(arguments), at.provenance);
}

void RoleEmitter::emit(const Visit& at, const ir::CombineUses& work) {
  if (!combined_.insert(work.parameter).second) return;
  const ir::Parameter& info = graph().parameters()[work.parameter];
  const auto& uses = module_.state.parameter_uses[work.parameter];
  std::vector<bool> local;
  size_t target = uses.size();
  std::vector<BufferRange> arguments;
  for (size_t u = 0; u < uses.size(); ++u) {
    const bool here = role_.is_member(module_.state.accumulators[uses[u].index].group);
    local.push_back(here);
    if (here && target == uses.size()) target = u;
    arguments.push_back(here ? summed_gradient(uses[u]) : start_of({BufferKind::kUse, uses[u].index}));
  }
  const ir::Bucket& b = module_.state.bucket_of(uses[0]);
  const int64_t elements = b.elements(module_.state.summed_bytes(uses[0]));
  run(s_.intern_program(combine_program(info.names[0], elements, b.dtype, local, target)), "combine " + info.names[0],
      std::move(arguments), at.provenance);
}

// The gradients that the role counts in the norm of all; their buffers are appended to `arguments`.
std::vector<OwnedGradient> RoleEmitter::owned_gradients(std::vector<BufferRange>& arguments) {
  std::vector<OwnedGradient> owned;
  for (uint32_t p : role_.measures) {
    const ir::Accumulator& a = module_.state.accumulators[primary(p).index];
    const ir::Bucket& b = bucket(a.bucket);
    const ir::Stretch here = b.moments == ir::Kept::kPart ? own_part(b) : ir::Stretch{0, b.bytes};
    const int64_t begin = std::max(a.offset, here.begin), end = std::min(a.offset + a.bytes, here.end);
    if (begin >= end) continue;
    owned.push_back({p, graph().parameters()[p].names[0], b.elements(end - begin), b.dtype});
    arguments.push_back({buffer(summed_of(a.bucket)), begin - (b.summed() == ir::Kept::kPart ? here.begin : 0)});
  }
  const auto list = static_cast<int32_t>(plan_.arguments.size());
  for (const MeasuredPiece& piece : role_.measured_pieces) {
    const ir::Bucket& b = bucket(piece.bucket);
    const std::string& first = graph().parameters()[piece.parameter].names[0];
    const std::string at = piece.stretch.begin == 0 ? "" : "+" + std::to_string(piece.stretch.begin);
    owned.push_back({piece.parameter, first + at, b.elements(piece.stretch.bytes()), b.dtype});
    // Each member counts its own part of a sum that all hold whole.
    if (b.summed() == ir::Kept::kWhole) out_.parts.push_back({list, arguments.size(), b.teams, b.part_bytes()});
    arguments.push_back({buffer(summed_of(piece.bucket)), piece.stretch.begin});
  }
  return owned;
}

void RoleEmitter::emit(const Visit& at, const ir::MeasureGradients& work) {
  std::vector<BufferRange> arguments = {scalar(work.norms)};
  const std::vector<OwnedGradient> owned = owned_gradients(arguments);
  const std::string name = owned.empty() ? "norm.none" : "norm.r" + std::to_string(number_);
  run(s_.intern_program(norm_part_program(name, module_.dag.scalars[work.norms.index].elements(), owned)),
      "gradient norms", std::move(arguments), at.provenance);
}

void RoleEmitter::emit(const Visit& at, const ir::CheckGradients& work) {
  std::vector<BufferRange> arguments = {scalar(work.overflow)};
  const std::vector<OwnedGradient> owned = owned_gradients(arguments);
  const std::string name = owned.empty() ? "overflow.none" : "overflow.r" + std::to_string(number_);
  run(s_.intern_program(check_program(name, owned)), "overflow", std::move(arguments), at.provenance);
}

void RoleEmitter::emit(const Visit& at, const ir::UnscaleGradients& work) {
  run(s_.intern_program(unscale_program()), "unscale", {start_of({BufferKind::kLossScale}), scalar(work.scale)},
      at.provenance);
}

void RoleEmitter::emit(const Visit& at, const ir::ClipGradients& work) {
  plan_.grad_norm = scalar(work.norm);
  if (s_.reports_norms()) plan_.grad_squares = scalar(work.norms);
  const int64_t num = module_.dag.scalars[work.norms.index].elements();
  const bool scaled = module_.precision.scales();
  std::vector<BufferRange> arguments = {scalar(work.norms), scalar(work.norm), scalar(work.scale)};
  if (scaled) arguments.push_back(start_of({BufferKind::kLossScale}));
  run(s_.intern_program(clip_program(num, scaled)), "clip", std::move(arguments), at.provenance);
}

void RoleEmitter::emit(const Visit& at, const ir::AdvanceOptimizer&) {
  const BufferRange step = start_of({BufferKind::kOptimizerStep});
  if (!module_.precision.scales()) {
    run(s_.intern_program(advance_program()), "advance", {step}, at.provenance);
    return;
  }
  plan_.loss_scale = start_of({BufferKind::kLossScale});
  plan_.overflow = scalar(s_.overflow());
  run(s_.intern_program(advance_program(module_.precision)), "advance",
      {step, plan_.loss_scale, start_of({BufferKind::kGoodSteps}), plan_.overflow}, at.provenance);
}

void RoleEmitter::emit(const Visit& at, const ir::UpdateNode& n) {
  const ir::Bucket& b = bucket(n.bucket);
  for (const UpdatePiece& piece : at.updates) update(at, n, piece);
  // An update clears the gradients that it uses. Of a gradient that every member holds whole, the other members' parts
  // are cleared here.
  if (b.moments == ir::Kept::kPart && b.gradients == ir::Kept::kWhole)
    run(s_.intern_program(clear_program(b.bytes, b.dtype)), "clear " + b.name,
        {start_of(s_.buffers.gradients(n.bucket, -1))}, at.provenance, stream_of(0));
}

void RoleEmitter::update(const Visit& at, const ir::UpdateNode& n, const UpdatePiece& piece) {
  const ir::Bucket& b = bucket(n.bucket);
  const auto list = static_cast<int32_t>(plan_.arguments.size());
  const int64_t begin = piece.stretch.begin;
  std::vector<BufferRange> arguments;
  // For what is kept whole, the piece lies in the device's own part.
  const auto add = [&](const BufferKey& key, ir::Kept kept, int64_t offset, int64_t part_bytes) {
    if (b.moments == ir::Kept::kPart && kept == ir::Kept::kWhole)
      out_.parts.push_back({list, arguments.size(), b.teams, part_bytes});
    arguments.push_back({buffer(key), offset});
  };
  add(parameters_of(n.bucket), b.trained(), begin, b.part_bytes());
  add(summed_of(n.bucket), b.summed(), begin, b.part_bytes());
  const plan::GroupUpdate by = s_.update_of(b);
  for (int32_t which = 0; which < by.num_moments(); ++which)
    add(moment_of(n.bucket, which), b.moments, begin, b.part_bytes());
  plan_.learning_rate = start_of({BufferKind::kLearningRate});
  arguments.push_back(plan_.learning_rate);
  arguments.push_back(start_of({BufferKind::kOptimizerStep}));
  const bool skips = module_.precision.scales(), scales = module_.training.clips() || skips;
  if (scales) arguments.push_back(scalar(s_.gradient_scale()));
  if (skips) arguments.push_back(scalar(s_.overflow()));
  if (b.working) add(read_of(n.bucket), b.parameters, b.read_offset(begin), b.read_offset(b.part_bytes()));
  plan::Update action;
  action.program = s_.intern_program(
      update_program({by.numbers.kind, piece.shape(b), b.dtype, b.working, by.num_moments(), scales, skips}));
  action.group = piece.group;
  std::string name = "update " + plan_.buffers[arguments[0].buffer].name;
  if (begin != 0) name += "+" + std::to_string(begin);
  launch(action, std::move(name), std::move(arguments), at.provenance, stream_of(0));
}

}  // namespace piper::emit
