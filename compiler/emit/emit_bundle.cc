#include "compiler/emit/emit_bundle.h"

#include <algorithm>
#include <numeric>

#include "compiler/emit/offset_allocator.h"
#include "compiler/emit/rank_emitter.h"
#include "schemas/base/check.h"
#include "schemas/plan/collective_costs.h"
#include "schemas/plan/kernels.h"

namespace piper::emit {
namespace {

std::string content_key(const ir::TensorType& type, const ir::WeightSource& source) {
  std::string key = ir::to_string(type) + "|";
  if (source.data) {
    key.append(reinterpret_cast<const char*>(source.data->data()), source.data->size());
  } else {
    key += source.file + "|" + std::to_string(source.offset) + "|" + std::to_string(source.bytes);
  }
  return key;
}

plan::WeightTensor weight_tensor(const std::string& name, const ir::TensorType& type, const ir::WeightSource& source) {
  plan::WeightTensor w;
  w.name = name;
  w.dtype = type.dtype;
  w.shape = type.shape;
  w.file = source.file;
  w.offset = source.offset;
  w.bytes = source.file.empty() ? static_cast<int64_t>(source.data ? source.data->size() : 0) : source.bytes;
  w.data = source.data ? source.data->data() : nullptr;
  w.permutation = source.permutation;
  return w;
}

std::string phase_name(ir::Phase phase, bool backward_split) {
  switch (phase) {
    case ir::Phase::kCount: return "C";
    case ir::Phase::kCountFinish: return "N";
    case ir::Phase::kForward: return "F";
    case ir::Phase::kBackward: return backward_split ? "BI" : "B";
    case ir::Phase::kBackwardWeight: return "BW";
  }
  return "?";
}

// Exactly one rank writes each tensor into saved weights: the first that trains it, else the first that reads it, else rank 0.
std::vector<int32_t> owners(const EmitRequest& request) {
  const ir::Dag& dag = *request.dag;
  const ir::Graph& graph = *request.variants[0].graph;
  std::vector<int32_t> owner(graph.parameters().size(), 0);
  std::vector<bool> known(owner.size(), false);
  for (size_t p = 0; p < owner.size(); ++p)
    if (!dag.parameter_uses[p].empty()) {
      owner[p] = dag.groups[dag.accumulators[dag.parameter_uses[p][0].index].group.index].ranks[0];
      known[p] = true;
    }
  for (const LoweredProgram& program : request.variants[0].lowered.programs)
    for (const SlotHolds& holds : program.holds)
      if (holds.kind == SlotHolds::Kind::kParameter && !known[holds.index]) {
        owner[holds.index] = dag.groups[dag.placement[program.chunk.index][0].index].ranks[0];
        known[holds.index] = true;
      }
  return owner;
}

plan::Manifest manifest_of(const EmitRequest& request) {
  const strategy::Strategy& strategy = *request.strategy;
  const ir::Graph& graph = *request.variants[0].graph;
  plan::Manifest m;
  m.model_name = request.model_name;
  m.model_sha256 = request.model_sha256;
  m.strategy_name = strategy.file_name;
  m.strategy_sha256 = strategy.sha256;
  m.world_size = request.dag->world_size;
  m.batch = request.batch;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Input& input = graph.inputs()[i];
    plan::InputDecl decl;
    decl.name = input.name;
    decl.dtype = graph.type(input.value).dtype;
    decl.sample_shape = graph.type(input.value).shape;
    if (input.batched) decl.sample_shape.erase(decl.sample_shape.begin());
    decl.batched = input.batched;
    decl.feed = request.feeds[i];
    m.inputs.push_back(std::move(decl));
  }
  auto tensor = [&](const ir::Parameter& p, bool trained) {
    plan::TensorInfo info;
    info.name = p.names[0];
    info.dtype = graph.type(p.value).dtype;
    info.shape = p.whole(graph.type(p.value)).shape;
    info.aliases.assign(p.names.begin() + 1, p.names.end());
    info.trained = trained;
    m.tensors.push_back(std::move(info));
  };
  for (size_t p = 0; p < graph.parameters().size(); ++p) tensor(graph.parameters()[p], !request.dag->parameter_uses[p].empty());
  for (const ir::Parameter& b : graph.buffers()) tensor(b, false);
  m.optimizer = request.optimizer;
  m.lr_schedule = strategy.lr_schedule;
  m.clip_grad_norm = strategy.clip_grad_norm;
  m.run = strategy.run;
  return m;
}

plan::RankSummary summary_of(const plan::RankPlan& plan, const plan::Bundle& bundle) {
  plan::RankSummary s;
  s.arena_bytes = plan.arena_bytes;
  for (const plan::Buffer& b : plan.buffers)
    if (b.cls != plan::BufferClass::kArena) s.persistent_bytes += OffsetAllocator::align(std::max<int64_t>(b.bytes, 1));
  std::vector<bool> used(bundle.programs.size(), false);
  std::vector<int64_t> reduction(plan.streams.size(), 0);   // scratch of each stream's largest reduction
  for (const plan::Instruction& i : plan.instructions) {
    if (const auto* run = std::get_if<plan::Run>(&i.action)) used[run->program] = true;
    s.sent_bytes += plan::sent_bytes(plan, i.action);
    reduction[i.stream] = std::max(reduction[i.stream], plan::collective_scratch_bytes(plan, i.action));
  }
  for (size_t p = 0; p < used.size(); ++p)
    if (used[p])
      for (const plan::KernelCall& call : bundle.programs[p].calls)
        if (const plan::KernelInfo* kernel = plan::find_kernel(call.kernel))
          s.scratch_bytes = std::max(s.scratch_bytes, plan::scratch_bytes(*kernel, call));
  for (int64_t bytes : reduction) s.scratch_bytes += OffsetAllocator::align(bytes);
  s.peak_bytes = s.arena_bytes + s.persistent_bytes + s.scratch_bytes;
  return s;
}

}  // namespace

EmitShared::EmitShared(const EmitRequest& r, plan::Bundle& b, diag::Diagnostics& d) : request(r), diags(d), bundle(b) {
  owner = owners(r);
  for (size_t v = 0; v < r.variants.size(); ++v)
    for (const LoweredProgram& program : r.variants[v].lowered.programs) lowered_[{v, program.chunk.index, program.phase}] = &program;
}

int32_t EmitShared::intern_program(plan::Program program) {
  auto [it, fresh] = program_names_.emplace(program.name, static_cast<int32_t>(bundle.programs.size()));
  if (fresh) bundle.programs.push_back(std::move(program));
  return it->second;
}

const LoweredProgram* EmitShared::find(size_t variant, ir::ChunkId chunk, ir::Phase phase) const {
  auto it = lowered_.find({variant, chunk.index, phase});
  return it == lowered_.end() ? nullptr : it->second;
}

const Exchange& EmitShared::find_exchange(size_t variant, ir::ChunkId chunk, ir::Phase phase) const {
  for (const Exchange& exchange : request.variants[variant].lowered.exchanges)
    if (exchange.chunk == chunk && exchange.phase == phase) return exchange;
  PIPER_CHECK(false, "no exchange in ", request.dag->chunks[chunk.index].name);
  return request.variants[variant].lowered.exchanges.front();
}

int32_t EmitShared::program_index(size_t variant, ir::ChunkId chunk, ir::Phase phase) {
  auto [it, fresh] = program_indices_.emplace(std::make_tuple(variant, chunk.index, phase), -1);
  if (fresh) {
    plan::Program program = find(variant, chunk, phase)->program;
    program.name = request.dag->chunks[chunk.index].name + "." + phase_name(phase, request.dag->backward_split[chunk.index]) + ".b" +
                   std::to_string(request.variants[variant].local_batch);
    it->second = intern_program(std::move(program));
  }
  return it->second;
}

const std::string& EmitShared::constant_name(size_t variant, uint32_t constant) {
  auto [it, fresh] = constant_names_.emplace(std::make_pair(variant, constant), std::string());
  if (fresh) {
    const ir::Graph& graph = *request.variants[variant].graph;
    const ir::Constant& c = graph.constants()[constant];
    const ir::TensorType& type = graph.type(c.value);
    std::string name = graph.value(c.value).name;
    if (variant != 0) name += ".b" + std::to_string(request.variants[variant].local_batch);
    auto [content, first] = constant_by_content_.emplace(content_key(type, c.source), name);
    if (first) constants.push_back(weight_tensor(name, type, c.source));
    it->second = content->second;
  }
  return it->second;
}

size_t EmitShared::variant_of_group(ir::GroupId group) const {
  const auto members = static_cast<int64_t>(request.dag->groups[group.index].ranks.size());
  const int64_t local = request.batch / request.dag->num_microbatches / members;
  for (size_t v = 0; v < request.variants.size(); ++v)
    if (request.variants[v].local_batch == local) return v;
  PIPER_CHECK(false, "no variant for local batch ", local);
  return 0;
}

int32_t EmitShared::provenance(ir::ProvId id) {
  if (!id.valid()) return -1;
  auto [it, fresh] = provenance_index_.emplace(id.index, -1);
  if (!fresh) return it->second;
  const ir::Provenance& table = request.dag->provenance;
  const ir::ProvEntry& entry = table.entry(id);
  const std::string text = table.describe(id);
  std::string key;
  switch (entry.kind) {
    case ir::ProvEntry::Kind::kModel: key = entry.model.node; break;
    case ir::ProvEntry::Kind::kDirective: key = entry.directive.place; break;
    case ir::ProvEntry::Kind::kDerived:
      key = entry.derived.pass;
      for (ir::ProvId parent : entry.derived.parents)
        if (table.entry(parent).kind == ir::ProvEntry::Kind::kDirective) key += "@" + table.entry(parent).directive.place;
      break;
    case ir::ProvEntry::Kind::kUnknown: key = entry.unknown.why; break;
  }
  auto [known, first] = provenance_keys_.emplace(key, static_cast<int32_t>(bundle.provenance.size()));
  if (first) bundle.provenance.push_back({key, text});
  it->second = known->second;
  return it->second;
}

Result<Emitted> emit_bundle(const EmitRequest& request, diag::Diagnostics& diags) {
  Emitted out;
  out.bundle.manifest = manifest_of(request);
  EmitShared shared(request, out.bundle, diags);
  for (int32_t rank = 0; rank < request.dag->world_size; ++rank) {
    PIPER_ASSIGN(plan::RankPlan plan, RankEmitter(shared, rank).emit());
    out.bundle.ranks.push_back(std::move(plan));
  }
  // Programs by name: their order in the bundle does not depend on which rank asked first.
  std::vector<int32_t> order(out.bundle.programs.size()), position(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return out.bundle.programs[a].name < out.bundle.programs[b].name; });
  std::vector<plan::Program> sorted;
  for (size_t i = 0; i < order.size(); ++i) {
    position[order[i]] = static_cast<int32_t>(i);
    sorted.push_back(std::move(out.bundle.programs[order[i]]));
  }
  out.bundle.programs = std::move(sorted);
  for (plan::RankPlan& plan : out.bundle.ranks) {
    for (plan::Instruction& instruction : plan.instructions)
      if (auto* run = std::get_if<plan::Run>(&instruction.action)) run->program = position[run->program];
    out.bundle.manifest.ranks.push_back(summary_of(plan, out.bundle));
  }
  const ir::Graph& graph = *request.variants[0].graph;
  for (const ir::Parameter& p : graph.parameters()) out.parameters.push_back(weight_tensor(p.names[0], p.whole(graph.type(p.value)), p.source));
  for (const ir::Parameter& b : graph.buffers()) out.parameters.push_back(weight_tensor(b.names[0], graph.type(b.value), b.source));
  out.constants = std::move(shared.constants);
  std::sort(out.constants.begin(), out.constants.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

}  // namespace piper::emit
