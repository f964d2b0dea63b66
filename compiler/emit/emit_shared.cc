#include "compiler/emit/emit_shared.h"

#include <algorithm>
#include <numeric>

#include "schemas/base/check.h"
#include "schemas/plan/chunk_names.h"

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

// Exactly one rank writes each tensor into saved weights: the first that trains it, else the first that reads it, else
// rank 0.
std::vector<int32_t> owners(const EmitRequest& request, std::vector<bool>& unread) {
  const ir::Module& module = *request.module;
  const ir::Graph& graph = *request.variants[0].graph;
  std::vector<int32_t> owner(graph.parameters().size(), 0);
  unread.assign(owner.size(), true);
  for (size_t p = 0; p < owner.size(); ++p)
    if (!module.state.parameter_uses[p].empty()) {
      owner[p] =
          module.distribution.groups[module.state.accumulators[module.state.parameter_uses[p][0].index].group.index]
              .ranks[0];
      unread[p] = false;
    }
  for (const LoweredProgram& program : request.variants[0].lowered->programs)
    for (const SlotHolds& holds : program.holds)
      if (holds.kind == SlotHolds::Kind::kParameter && unread[holds.index]) {
        owner[holds.index] = module.distribution.groups[module.distribution.group(program.chunk, 0).index].ranks[0];
        unread[holds.index] = false;
      }
  return owner;
}

// Devices that run an operator with a state (running statistics) on other samples have other values in theirs. The
// first device of the first microbatch saves its own, as PyTorch does where each replica keeps its statistics.
std::vector<int32_t> state_owners(const EmitRequest& request) {
  const ir::Module& module = *request.module;
  std::vector<int32_t> owner(request.variants[0].graph->buffers().size(), -1);
  for (const LoweredProgram& program : request.variants[0].lowered->programs)
    for (const SlotHolds& holds : program.holds)
      if (holds.kind == SlotHolds::Kind::kBuffer && owner[holds.index] < 0)
        owner[holds.index] = module.distribution.groups[module.distribution.group(program.chunk, 0).index].ranks[0];
  return owner;
}

constexpr size_t kNoVariant = static_cast<size_t>(-1);

size_t variant_for(const EmitRequest& request, const ir::DeviceGroup& group) {
  const int64_t local =
      request.batch / request.module->step.num_microbatches / static_cast<int64_t>(group.ranks.size());
  for (size_t v = 0; v < request.variants.size(); ++v)
    if (request.variants[v].local_batch == local) return v;
  return kNoVariant;
}

// [rank] -> the nodes that it takes part in.
std::vector<std::vector<ir::NodeId>> by_rank(const ir::Module& module) {
  std::vector<std::vector<ir::NodeId>> nodes(module.distribution.world_size);
  for (ir::NodeId id : module.dag.order) {
    const ir::Node& node = module.dag.nodes[id.index];
    const std::vector<int32_t>& ranks = module.distribution.groups[node.group.index].ranks;
    for (int32_t rank : ranks) nodes[rank].push_back(id);
    if (const auto* message = std::get_if<ir::TransferNode>(&node.payload))
      for (int32_t rank : module.distribution.groups[message->to.index].ranks)
        if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) nodes[rank].push_back(id);
  }
  return nodes;
}

}  // namespace

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

EmitShared::EmitShared(const EmitRequest& r)
    : request(r),
      owner(owners(r, unread)),
      state_owner(state_owners(r)),
      nodes_of_rank(by_rank(*r.module)),
      connections(*r.module),
      work_(r.variants.size() * r.module->chunks().size() * ir::kNumPhases) {
  for (const ir::DeviceGroup& group : r.module->distribution.groups) variant_of_.push_back(variant_for(r, group));
  provenance_of_.assign(r.module->provenance.size(), -1);
  for (const ir::Node& node : r.module->dag.nodes)
    if (node.prov.valid() && provenance_of_[node.prov.index] < 0)
      provenance_of_[node.prov.index] = intern_provenance(node.prov);
  std::map<std::string, uint32_t> by_content;
  constant_of_.resize(r.variants.size());
  for (size_t v = 0; v < r.variants.size(); ++v) {
    for (const LoweredProgram& program : r.variants[v].lowered->programs)
      work(v, program.chunk, program.phase).program.lowered = &program;
    for (const LoweredProgram& program : r.variants[v].lowered->repeating)
      work(v, program.chunk, program.phase).repeating.lowered = &program;
    for (const Exchange& exchange : r.variants[v].lowered->exchanges)
      work(v, exchange.chunk, exchange.phase).exchange = &exchange;
    const ir::Graph& graph = *r.variants[v].graph;
    for (const ir::Constant& c : graph.constants()) {
      const ir::TensorType& type = graph.type(c.value);
      const auto [content, fresh] =
          by_content.emplace(content_key(type, c.source), static_cast<uint32_t>(constants_.size()));
      if (fresh) {
        std::string name = graph.value(c.value).name;
        if (v != 0) name += ".b" + std::to_string(r.variants[v].local_batch);
        constants_.push_back({name, weight_tensor(name, type, c.source), false});
      }
      constant_of_[v].push_back(content->second);
    }
  }
}

ir::AccumulatorId EmitShared::primary(uint32_t p, int32_t rank) const {
  for (ir::AccumulatorId use : request.module->state.parameter_uses[p])
    if (connections.position(request.module->state.accumulators[use.index].group, rank) >= 0) return use;
  return {};
}

bool EmitShared::owns(uint32_t p, int32_t rank) const {
  const ir::Accumulator& a = request.module->state.accumulators[primary(p, rank).index];
  const ir::Bucket& bucket = request.module->state.buckets[a.bucket.index];
  if (bucket.sharded != ir::Sharded::kNothing) return a.use == 0;  // the groups of later uses have the same parts
  return bucket.teams.size() > 1 ? request.module->state.team_of(bucket, rank).front() == rank : owner[p] == rank;
}

int32_t EmitShared::intern_program(plan::Program program) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [it, fresh] = program_names_.emplace(program.name, static_cast<int32_t>(programs_.size()));
  if (fresh) programs_.push_back(std::move(program));
  return it->second;
}

const plan::Program& EmitShared::program(int32_t index) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return programs_[index];
}

const LoweredProgram* EmitShared::find(size_t variant, ir::ChunkId chunk, ir::Phase phase, int32_t microbatch) const {
  const Work& asked = work(variant, chunk, phase);
  return (request.module->distribution.repeats(chunk, microbatch) ? asked.repeating : asked.program).lowered;
}

const Exchange& EmitShared::find_exchange(size_t variant, ir::ChunkId chunk, ir::Phase phase) const {
  const Exchange* exchange = work(variant, chunk, phase).exchange;
  PIPER_CHECK(exchange != nullptr, "no exchange in ", request.module->chunks()[chunk.index].name);
  return *exchange;
}

int32_t EmitShared::program_index(size_t variant, ir::ChunkId chunk, ir::Phase phase, int32_t microbatch) {
  const bool repeats = request.module->distribution.repeats(chunk, microbatch);
  Work::Program& asked = repeats ? work(variant, chunk, phase).repeating : work(variant, chunk, phase).program;
  if (const int32_t known = asked.index; known >= 0) return known;
  plan::Program program = asked.lowered->program;
  program.name =
      plan::program_name({request.module->chunks()[chunk.index].name,
                          std::string(ir::phase_name(phase, request.module->distribution.backward_split(chunk))),
                          request.variants[variant].local_batch, repeats});
  return asked.index = intern_program(std::move(program));  // the same whoever comes first
}

const std::string& EmitShared::constant_name(size_t variant, uint32_t constant) {
  NamedConstant& named = constants_[constant_of_[variant][constant]];
  const std::lock_guard<std::mutex> lock(mutex_);
  named.used = true;
  return named.name;
}

size_t EmitShared::variant_of_group(ir::GroupId group) const {
  PIPER_CHECK(variant_of_[group.index] != kNoVariant, "no variant for a group of ",
              request.module->distribution.groups[group.index].ranks.size());
  return variant_of_[group.index];
}

int32_t EmitShared::intern_provenance(ir::ProvId id) {
  const ir::Provenance& table = request.module->provenance;
  const ir::ProvEntry& entry = table.entry(id);
  const std::string text = table.describe(id);
  std::string key;
  if (const auto* model = std::get_if<ir::ModelOrigin>(&entry)) key = model->node;
  else if (const auto* directive = std::get_if<ir::DirectiveOrigin>(&entry)) key = directive->place;
  else if (const auto* unknown = std::get_if<ir::UnknownOrigin>(&entry)) key = unknown->why;
  else {
    const auto& derived = std::get<ir::DerivedOrigin>(entry);
    key = derived.pass;
    for (ir::ProvId parent : derived.parents)
      if (const auto* of = std::get_if<ir::DirectiveOrigin>(&table.entry(parent))) key += "@" + of->place;
  }
  auto [known, first] = provenance_keys_.emplace(key, static_cast<int32_t>(provenance_.size()));
  if (first) provenance_.push_back({key, text});
  return known->second;
}

void EmitShared::finish(Emitted& out) {
  std::vector<int32_t> order(programs_.size()), position(programs_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return programs_[a].name < programs_[b].name; });
  for (size_t i = 0; i < order.size(); ++i) {
    position[order[i]] = static_cast<int32_t>(i);
    out.bundle.programs.push_back(std::move(programs_[order[i]]));
  }
  std::vector<int32_t> place(provenance_.size(), -1);
  for (plan::RankPlan& plan : out.bundle.ranks)
    for (plan::Instruction& instruction : plan.instructions.edit()) {
      if (auto* run = std::get_if<plan::Run>(&instruction.action)) run->program = position[run->program];
      if (instruction.provenance < 0) continue;
      int32_t& at = place[instruction.provenance];
      if (at < 0) {
        at = static_cast<int32_t>(out.bundle.provenance.size());
        out.bundle.provenance.push_back(std::move(provenance_[instruction.provenance]));
      }
      instruction.provenance = at;
    }
  for (NamedConstant& constant : constants_)
    if (constant.used) out.constants.push_back(std::move(constant.tensor));
  std::sort(out.constants.begin(), out.constants.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

}  // namespace piper::emit
