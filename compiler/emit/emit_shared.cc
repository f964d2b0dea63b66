#include "compiler/emit/emit_shared.h"

#include <algorithm>
#include <numeric>

#include "schemas/base/check.h"

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

// [rank] -> the nodes that it takes part in.
std::vector<std::vector<ir::NodeId>> by_rank(const ir::Dag& dag) {
  std::vector<std::vector<ir::NodeId>> nodes(dag.world_size);
  for (ir::NodeId id : dag.order) {
    const ir::Node& node = dag.nodes[id.index];
    const std::vector<int32_t>& ranks = dag.groups[node.group.index].ranks;
    for (int32_t rank : ranks) nodes[rank].push_back(id);
    if (const auto* message = std::get_if<ir::TransferNode>(&node.payload))
      for (int32_t rank : dag.groups[message->to.index].ranks)
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

EmitShared::EmitShared(const EmitRequest& r) : request(r), owner(owners(r)), nodes_of_rank(by_rank(*r.dag)) {
  std::map<std::string, uint32_t> by_content;
  constant_of_.resize(r.variants.size());
  for (size_t v = 0; v < r.variants.size(); ++v) {
    for (const LoweredProgram& program : r.variants[v].lowered.programs) lowered_[{v, program.chunk.index, program.phase}] = &program;
    for (const Exchange& exchange : r.variants[v].lowered.exchanges) exchanges_[{v, exchange.chunk.index, exchange.phase}] = &exchange;
    const ir::Graph& graph = *r.variants[v].graph;
    for (const ir::Constant& c : graph.constants()) {
      const ir::TensorType& type = graph.type(c.value);
      const auto [content, fresh] = by_content.emplace(content_key(type, c.source), static_cast<uint32_t>(constants_.size()));
      if (fresh) {
        std::string name = graph.value(c.value).name;
        if (v != 0) name += ".b" + std::to_string(r.variants[v].local_batch);
        constants_.push_back({name, weight_tensor(name, type, c.source), false});
      }
      constant_of_[v].push_back(content->second);
    }
  }
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

const LoweredProgram* EmitShared::find(size_t variant, ir::ChunkId chunk, ir::Phase phase) const {
  const auto it = lowered_.find({variant, chunk.index, phase});
  return it == lowered_.end() ? nullptr : it->second;
}

const Exchange& EmitShared::find_exchange(size_t variant, ir::ChunkId chunk, ir::Phase phase) const {
  const auto it = exchanges_.find({variant, chunk.index, phase});
  PIPER_CHECK(it != exchanges_.end(), "no exchange in ", request.dag->chunks[chunk.index].name);
  return *it->second;
}

int32_t EmitShared::program_index(size_t variant, ir::ChunkId chunk, ir::Phase phase) {
  const auto key = std::make_tuple(variant, chunk.index, phase);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto it = program_indices_.find(key); it != program_indices_.end()) return it->second;
  }
  plan::Program program = find(variant, chunk, phase)->program;
  program.name = request.dag->chunks[chunk.index].name + "." + phase_name(phase, request.dag->backward_split[chunk.index]) + ".b" +
                 std::to_string(request.variants[variant].local_batch);
  const int32_t index = intern_program(std::move(program));
  const std::lock_guard<std::mutex> lock(mutex_);
  program_indices_.emplace(key, index);
  return index;
}

const std::string& EmitShared::constant_name(size_t variant, uint32_t constant) {
  NamedConstant& named = constants_[constant_of_[variant][constant]];
  const std::lock_guard<std::mutex> lock(mutex_);
  named.used = true;
  return named.name;
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
  const std::lock_guard<std::mutex> lock(mutex_);
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
  auto [known, first] = provenance_keys_.emplace(key, static_cast<int32_t>(provenance_.size()));
  if (first) provenance_.push_back({key, text});
  it->second = known->second;
  return it->second;
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
    for (plan::Instruction& instruction : plan.instructions) {
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
