#include "compiler/emit/emit_bundle.h"

#include <algorithm>
#include <map>

#include "compiler/emit/bind_rank.h"
#include "compiler/emit/emit_shared.h"
#include "compiler/emit/pack.h"
#include "compiler/emit/role.h"
#include "compiler/emit/role_emitter.h"
#include "compiler/emit/settle_evaluation.h"
#include "schemas/base/parallel.h"
#include "schemas/plan/collective_costs.h"
#include "schemas/plan/device_memory.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/read_ahead.h"
#include "schemas/plan/kernel_scratch.h"

namespace piper::emit {
namespace {

std::vector<plan::Chunk> chunks_of(const std::vector<ir::Chunk>& chunks) {
  std::map<int32_t, int> pieces;  // of each region
  for (const ir::Chunk& chunk : chunks) ++pieces[chunk.region];
  std::vector<plan::Chunk> result;
  for (size_t c = 0; c < chunks.size(); ++c) {
    const ir::Chunk& chunk = chunks[c];
    plan::Chunk made{chunk.name, chunk.name, {}};
    for (const ir::TagValue& tag : chunk.tags) made.tags.push_back({tag.tag, tag.index});
    // Pieces follow one another. One that was fused with what follows may have lost its tags, and stays where it was.
    const bool again = c > 0 && chunk.region >= 0 && chunk.region == chunks[c - 1].region &&
                       (chunk.tags.empty() || chunk.tags == chunks[c - 1].tags);
    if (again) made.region = result.back().region;
    // cut_segments calls the pieces of a region REGION/1, REGION/2.
    else if (chunk.region >= 0 && pieces[chunk.region] > 1) made.region = chunk.name.substr(0, chunk.name.rfind('/'));
    result.push_back(std::move(made));
  }
  return result;
}

// A cut is called like its stream; of several on one stream later ones have a number, too.
std::string unused_name(const std::string& stream, const std::vector<plan::Cut>& cuts) {
  const auto used = [&](const std::string& name) {
    return std::any_of(cuts.begin(), cuts.end(), [&](const plan::Cut& cut) { return cut.name == name; });
  };
  std::string name = stream;
  for (int32_t number = 2; used(name); ++number) name = stream + "." + std::to_string(number);
  return name;
}

plan::Manifest manifest_of(const EmitRequest& request) {
  const ir::Graph& graph = request.module->graph();
  const ir::Training& training = request.module->training;
  plan::Manifest m;
  m.target = request.target;
  m.model = request.model;
  m.strategy = request.strategy;
  m.world_size = request.module->distribution.world_size;
  m.batch = request.module->step.batch;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Input& input = graph.inputs()[i];
    plan::InputDecl decl;
    decl.name = input.name;
    decl.dtype = graph.type(input.value).dtype;
    decl.sample_shape = graph.type(input.value).shape;
    if (input.batched) decl.sample_shape.erase(decl.sample_shape.begin());
    decl.batched = input.batched;
    decl.feed = training.feeds[i];
    m.inputs.push_back(std::move(decl));
  }
  auto tensor = [&](const ir::Parameter& p, bool trained) {
    plan::TensorInfo info;
    info.name = p.names[0];
    const ir::TensorType& read = graph.type(p.value);
    info.dtype = (trained ? p.trained(read) : read).dtype;
    info.shape = p.whole(graph.type(p.value)).shape;
    info.aliases.assign(p.names.begin() + 1, p.names.end());
    info.trained = trained;
    if (p.cut) {
      const bool equal = p.cut->extents.empty();
      info.cut = plan::TensorCut{p.cut->cut, p.cut->axis, equal ? p.cut->segments : 1, p.cut->extents};
    }
    m.tensors.push_back(std::move(info));
  };
  for (size_t p = 0; p < graph.parameters().size(); ++p) {
    const bool trained = !request.module->state.parameter_uses[p].empty();
    tensor(graph.parameters()[p], trained);
    if (trained) m.tensors.back().group = training.group_of[p];
    m.tensors.back().buffer = graph.parameters()[p].buffer;
  }
  for (const ir::Parameter& b : graph.buffers()) tensor(b, false);
  const ir::Distribution& distribution = request.module->distribution;
  for (const ir::Cut& cut : distribution.cuts)
    m.cuts.push_back({unused_name(distribution.streams[cut.stream], m.cuts), cut.groups});
  m.chunks = chunks_of(request.module->chunks());
  m.optimizer = training.optimizer;
  m.lr_schedule = training.lr_schedule;
  m.clip_grad_norm = training.clip_grad_norm;
  const ir::Precision& precision = request.module->precision;
  if (precision.scales()) m.loss_scale = precision.loss_scale;
  m.run = training.run;
  m.evaluates = request.module->evaluates;
  return m;
}

// Library scratch of each program's hungriest kernel.
std::vector<int64_t> scratch_of_programs(const plan::Bundle& bundle) {
  std::vector<int64_t> scratch;
  for (const plan::Program& program : bundle.programs) {
    int64_t most = 0;
    for (const plan::KernelCall& call : program.calls)
      if (const plan::KernelInfo* kernel = plan::find_kernel(call.kernel))
        most = std::max(most, plan::scratch_bytes(*kernel, call, bundle.manifest.target.device));
    scratch.push_back(most);
  }
  return scratch;
}

// Without the communicators, whose memory depends on the nodes of their members.
plan::RankSummary summary_of(const plan::RankPlan& plan, const plan::Bundle& bundle,
                             const std::vector<int64_t>& program_scratch) {
  const plan::Target& target = bundle.manifest.target;
  const int64_t alignment = plan::buffer_alignment(target.device);
  plan::RankSummary s;
  s.arena_bytes = plan.arena_bytes;
  for (const plan::Buffer& b : plan.buffers)
    if (b.cls != plan::BufferClass::kArena) s.persistent_bytes += align_up(std::max<int64_t>(b.bytes, 1), alignment);
  std::vector<int64_t> reduction(plan.streams.size(), 0);  // scratch of each stream's largest reduction
  for (const plan::Instruction& i : plan.instructions) {
    if (const auto* run = std::get_if<plan::Run>(&i.action))
      s.scratch_bytes = std::max(s.scratch_bytes, program_scratch[run->program]);
    if (const auto* update = std::get_if<plan::Update>(&i.action))
      s.scratch_bytes = std::max(s.scratch_bytes, program_scratch[update->program]);
    s.sent_bytes += plan::sent_bytes(plan, i.action);
    reduction[i.stream] = std::max(reduction[i.stream], plan::collective_scratch_bytes(plan, i.action));
  }
  for (int64_t bytes : reduction) s.scratch_bytes += align_up(bytes, alignment);
  s.peak_bytes =
      s.arena_bytes + s.persistent_bytes + s.scratch_bytes + plan::kernel_part_bytes(bundle.programs, plan, target);
  if (target.device == plan::DeviceKind::kCpu) s.peak_bytes += plan::read_ahead_bytes(bundle.manifest, plan);
  return s;
}

}  // namespace

Result<Emitted> emit_bundle(const EmitRequest& request, diag::Diagnostics& diags) {
  Emitted out;
  out.bundle.manifest = manifest_of(request);
  const ir::Module& module = *request.module;
  EmitShared shared(request);
  Roles roles = find_roles(module, shared.connections, module.training.group_of);
  std::vector<RolePlan> plans(roles.roles.size());
  std::vector<Status> statuses(roles.roles.size());
  parallel_for(roles.roles.size(), [&](size_t role) {
    auto plan = RoleEmitter(shared, roles.roles[role], roles.first[role]).emit();
    if (plan.ok()) plans[role] = std::move(plan).value();
    else statuses[role] = plan.take_status();
  });
  for (const Status& status : statuses)
    if (!status.ok()) return diags.error(status.error().code) << status.error().message;
  shared.finish(out, plans);
  if (request.training != nullptr)
    settle_evaluation(plans, roles, *request.training, plan::buffer_alignment(request.target.device));
  const std::vector<int64_t> scratch = scratch_of_programs(out.bundle);
  const auto world = static_cast<size_t>(module.distribution.world_size);
  std::vector<plan::RankSummary>& summaries = out.bundle.manifest.ranks;
  std::vector<plan::RankSummary> of_roles(plans.size());
  summaries.resize(world);
  out.bundle.ranks.resize(world);
  std::vector<plan::CommunicationUses> uses(plans.size());
  if (request.target.device == plan::DeviceKind::kCuda)
    parallel_for(plans.size(),
                 [&](size_t role) { uses[role] = plan::communication_uses(plans[role].plan, request.target.summing); });
  parallel_for(world, [&](size_t rank) {
    const uint32_t role = roles.role_of[rank];
    out.bundle.ranks[rank] = bind_rank(module, shared.connections, plans[role], roles.bindings[rank]);
    if (roles.first[role] == static_cast<int32_t>(rank))
      of_roles[role] = summary_of(out.bundle.ranks[rank], out.bundle, scratch);
  });
  for (size_t rank = 0; rank < world; ++rank) {
    const uint32_t role = roles.role_of[rank];
    summaries[rank] = of_roles[role];
    summaries[rank].peak_bytes += plan::communicator_bytes(out.bundle.ranks[rank], uses[role], request.target);
  }
  const ir::Graph& graph = request.module->graph();
  for (const ir::Parameter& p : graph.parameters()) {
    out.parameters.push_back(weight_tensor(p.names[0], p.in_source(graph.type(p.value)), p.source));
    out.parameters.back().buffer = p.buffer != plan::ModelBuffer::kNone;
  }
  for (const ir::Parameter& b : graph.buffers())
    out.parameters.push_back(weight_tensor(b.names[0], graph.type(b.value), b.source));
  return out;
}

}  // namespace piper::emit
