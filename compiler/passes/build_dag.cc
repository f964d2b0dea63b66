#include "compiler/passes/build_dag.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/tensors/why_converted.h"
#include "schemas/base/check.h"

namespace piper::passes {

using ir::ChunkId;
using ir::ComputeNode;
using ir::NodeId;
using ir::Phase;

namespace {

// The chunks that make some of the values, ascending.
std::vector<ChunkId> producers(const ir::Module& module, const std::vector<ir::ValueId>& values) {
  std::set<ChunkId> chunks;
  for (ir::ValueId value : values) {
    const ir::Value& root = module.graph().value(module.variants[0].lowered.layouts[value.index].root);
    if (root.kind == ir::ValueKind::kOpResult) chunks.insert(module.graph().op(root.producer).chunk);
  }
  return {chunks.begin(), chunks.end()};
}

// [chunk] where its computes come from: what placed it, and the strategy's notes on it.
std::vector<ir::ProvId> origins_of_computes(ir::Module& module) {
  std::vector<ir::ProvId> origins;
  for (const ir::ChunkProperties& row : module.distribution.chunks) {
    std::vector<ir::ProvId> parents = {row.placed_by};
    parents.insert(parents.end(), row.notes.begin(), row.notes.end());
    origins.push_back(row.notes.empty() ? row.placed_by : module.provenance.derived("note", std::move(parents)));
  }
  return origins;
}

NodeId add_all_reduce(ir::Module& module, ir::ScalarId scalar, ir::GroupId group, const ir::Teams& teams,
                      const std::string& stream, ir::ProvId prov) {
  ir::CollectiveNode sum;
  sum.what = ir::ScalarOperand{scalar};
  sum.teams = module.distribution.intern_teams(teams);
  sum.types = module.dag.scalars[scalar.index].dtype;
  sum.reduction = module.dag.scalars[scalar.index].reduction;
  return module.dag.add_node(sum, group, module.distribution.intern_stream(stream), prov);
}

// A device group that holds rank 0 and could hear from `ranks` position by position; rank 0 alone where there is none.
ir::GroupId reporters(ir::Module& module, const std::vector<int32_t>& ranks) {
  for (const ir::ChunkProperties& chunk : module.distribution.chunks)
    for (ir::GroupId id : chunk.groups) {
      const std::vector<int32_t>& group = module.distribution.ranks(id);
      const auto elsewhere = [&](int32_t rank) { return std::find(ranks.begin(), ranks.end(), rank) == ranks.end(); };
      if (group.size() == ranks.size() && module.distribution.has_member(id, 0) &&
          std::all_of(group.begin(), group.end(), elsewhere))
        return id;
    }
  return module.distribution.intern_group({0});
}

// Sends the sum, which is known after `last`, to rank 0 and its replicas.
void report(ir::Module& module, ir::ScalarId scalar, NodeId last, const std::string& stream) {
  const ir::Node& sum = module.dag.nodes[last.index];
  const ir::ProvId prov = sum.prov;
  const std::vector<int32_t> ranks = module.distribution.ranks(sum.group);
  const ir::TransferNode message{ir::ScalarOperand{scalar}, reporters(module, ranks)};
  const bool all = module.distribution.ranks(message.to).size() == ranks.size();
  const ir::GroupId holders = all ? sum.group : module.distribution.intern_group({ranks[0]});
  module.dag.add_edge(last, module.dag.add_node(message, holders, module.distribution.intern_stream(stream), prov));
}

// What forwards add up for the log: a sum over microbatches and chunks on each rank, then over the ranks of each place,
// which have every sample once.
void add_step_sum(ir::Module& module, ir::ScalarId scalar, const ir::StepSum& sum) {
  if (producers(module, sum.addends).empty()) return;
  std::vector<ir::ValueId> made = sum.addends;
  made.insert(made.end(), sum.beside.begin(), sum.beside.end());
  const std::vector<ChunkId> chunks = producers(module, made);
  std::vector<ir::ProvId> parents;
  std::vector<ir::GroupId> groups;
  for (ChunkId c : chunks) {
    const ir::ChunkProperties& row = module.distribution.chunks[c.index];
    parents.push_back(row.placed_by);
    groups.insert(groups.end(), row.groups.begin(), row.groups.end());
  }
  ir::DeviceGroup members = module.distribution.joined(groups);
  ir::Teams teams = members.columns();
  const bool at_reporter = std::find(members.ranks.begin(), members.ranks.end(), 0) != members.ranks.end();
  if (!at_reporter && sum.heard == ir::Heard::kByJoining) {
    teams[0].insert(teams[0].begin(), 0);
    members.ranks.insert(members.ranks.begin(), 0);
    members.places = 1;  // of a rank that has no samples, and those of the sum
  }
  const ir::ProvId prov = module.provenance.derived(sum.title, std::move(parents));
  const ir::GroupId everyone = module.distribution.intern_group(members);
  NodeId last = module.dag.add_node(ir::StepNode{ir::TakeScalar{scalar}}, everyone, 0, prov);
  for (ChunkId c : chunks)
    for (NodeId forward : module.dag.compute[c.index][static_cast<size_t>(Phase::kForward)])
      module.dag.add_edge(forward, last);
  module.distribution.intern_stream(sum.stream);
  if (teams[0].size() > 1) {
    const NodeId reduced = add_all_reduce(module, scalar, everyone, teams, sum.stream, prov);
    module.dag.add_edge(last, reduced);
    last = reduced;
  }
  if (!at_reporter && sum.heard == ir::Heard::kByMessage) report(module, scalar, last, sum.stream);
}

// Counts of mean losses, one row for each step_sum of the chunk, in the order in which its program reads them.
std::vector<ir::ScalarId> add_count_scalars(ir::Module& module, ChunkId chunk) {
  std::vector<ir::ScalarId> added;
  for (const ir::LoweredProgram& program : module.variants[0].lowered.programs) {
    if (program.chunk != chunk || program.phase != Phase::kCountFinish) continue;
    for (const ir::SlotHolds& holds : program.holds) {
      if (holds.kind != ir::SlotHolds::Kind::kCount) continue;
      const ir::Value& value = module.graph().value(holds.value);
      added.emplace_back(module.dag.scalars.size());
      module.dag.scalars.push_back({value.name, "count of a mean loss", "a count", value.type.dtype, value.type.shape,
                                    plan::Reduction::kSum, ir::ScalarReader::kMeanLoss, holds.value});
    }
  }
  return added;
}

// Where a conversion of what a cut has in parts or shares comes from: the line that asks for it, and why.
ir::ProvId origin_of_conversion(ir::Module& module, const ir::Uses& uses, const ir::Exchange& exchange) {
  const ir::OpId conversion = module.graph().value(exchange.to).producer;
  const ir::GroupId group = module.distribution.group(exchange.chunk, 0);
  const std::optional<ir::DirectiveOrigin> line =
      tensors::asked_by(module.graph().provenance(), module.graph().op(conversion).prov);
  const ir::ProvId by =
      line ? module.provenance.directive(*line) : module.distribution.cuts[module.distribution.cut_of(group)].prov;
  const std::string& name = module.chunks()[exchange.chunk.index].name;
  return module.provenance.derived(exchange.phase == Phase::kForward ? name : name + ".B", {by},
                                   tensors::why_converted(module.graph(), uses, conversion));
}

// What a chunk that is a conversion does on a microbatch: among whom, on which stream. `origin`: of a cut's.
NodeId add_exchange(ir::Module& module, const ir::Exchange& exchange, int32_t microbatch, ir::ProvId origin) {
  ir::Distribution& d = module.distribution;
  const ir::GroupId group = d.group(exchange.chunk, microbatch);
  ir::CollectiveNode node;
  node.what = ir::ValueOperand{{exchange.chunk, exchange.phase, microbatch}, exchange.to};
  node.types = module.graph().type(exchange.to).dtype;
  if (exchange.kind == ir::OpKind::kAllToAll) {
    const ir::ExpertGroups& experts = d.expert_groups[module.chunks()[exchange.chunk.index].shard];
    node.kind = ir::CollectiveKind::kAllToAll;
    node.teams = d.intern_teams(experts.groups);
    return module.dag.add_node(node, group, experts.stream, experts.prov);
  }
  const int32_t index = d.cut_of(group);
  PIPER_CHECK(index >= 0, module.chunks()[exchange.chunk.index].name, " sums over devices that share no samples");
  const ir::Cut& cut = d.cuts[index];
  node.kind = exchange.kind == ir::OpKind::kAllGather       ? ir::CollectiveKind::kAllGather
              : exchange.kind == ir::OpKind::kReduceScatter ? ir::CollectiveKind::kReduceScatter
                                                            : ir::CollectiveKind::kAllReduce;
  node.teams = d.intern_teams(d.rows(group));
  const bool adds = node.kind != ir::CollectiveKind::kAllGather;
  if (adds && is_half(node.types.data)) node.types.sum = DType::kF32;
  return module.dag.add_node(node, group, cut.stream, origin);
}

// The passes of all chunks on all microbatches; of chunks that are conversions what ranks send each other.
void add_computes(ir::Module& module) {
  const std::vector<ir::ChunkShape>& shapes = module.shapes;
  const size_t num_chunks = module.chunks().size();
  std::map<std::pair<uint32_t, Phase>, const ir::Exchange*> exchanges;  // by chunk and phase
  for (const ir::Exchange& exchange : module.variants[0].lowered.exchanges)
    exchanges[{exchange.chunk.index, exchange.phase}] = &exchange;
  const std::vector<ir::ProvId> origins = origins_of_computes(module);
  const ir::Uses uses = module.graph().uses();
  const auto add = [&](size_t c, Phase phase) {
    if (!shapes[c].has_phase(phase)) return;
    const ir::Exchange* exchange =
        module.chunks()[c].exchange ? exchanges.at({static_cast<uint32_t>(c), phase}) : nullptr;
    const bool of_cut = exchange != nullptr && exchange->kind != ir::OpKind::kAllToAll;
    const ir::ProvId origin = of_cut ? origin_of_conversion(module, uses, *exchange) : origins[c];
    for (int32_t m = 0; m < module.step.num_microbatches; ++m) {
      NodeId& node = module.dag.compute[c][static_cast<size_t>(phase)][m];
      if (exchange != nullptr) {
        node = add_exchange(module, *exchange, m, origin);
      } else {
        node = module.dag.add_node(ComputeNode{ChunkId(c), phase, m}, module.distribution.group(ChunkId(c), m),
                                   module.distribution.compute_stream(ChunkId(c), phase, m), origin);
      }
    }
  };
  for (size_t c = 0; c < num_chunks; ++c)
    for (Phase phase : {Phase::kCount, Phase::kForward}) add(c, phase);
  for (size_t c = num_chunks; c-- > 0;)
    for (Phase phase : {Phase::kBackward, Phase::kBackwardWeight}) add(c, phase);
}

// Counts: summed over microbatches on each rank, over the ranks of each place by an all_reduce, then inverted once.
void add_counts(ir::Module& module, ChunkId chunk) {
  if (!module.shapes[chunk.index].has_phase(Phase::kCount)) return;
  const int32_t m_count = module.step.num_microbatches;
  const auto node = [&](ChunkId c, Phase phase, int32_t m) { return module.dag.node_of(c, phase, m); };
  const ir::GroupId everyone =
      module.distribution.intern_group(module.distribution.joined(module.distribution.chunks[chunk.index].groups));
  const ir::ProvId counted =
      module.provenance.derived("count of a mean loss", {module.distribution.chunks[chunk.index].placed_by});
  const std::vector<ir::ScalarId> counts = add_count_scalars(module, chunk);
  std::vector<NodeId> summed;
  if (module.distribution.replicas(everyone) > 1)
    for (ir::ScalarId count : counts)
      summed.push_back(add_all_reduce(module, count, everyone, module.distribution.columns(everyone), "loss", counted));
  const NodeId finish = module.dag.add_node(ir::StepNode{ir::FinishCounts{chunk}}, everyone, 0, counted);
  for (int32_t m = 0; m < m_count; ++m) {
    if (summed.empty()) module.dag.add_edge(node(chunk, Phase::kCount, m), finish);
    for (NodeId sum : summed) module.dag.add_edge(node(chunk, Phase::kCount, m), sum);
  }
  for (NodeId sum : summed) module.dag.add_edge(sum, finish);
  for (size_t reader = 0; reader < module.chunks().size(); ++reader) {
    if (module.chunks()[reader].region != module.chunks()[chunk.index].region) continue;
    for (int32_t m = 0; m < m_count; ++m)
      for (Phase phase : {Phase::kForward, Phase::kBackward, Phase::kBackwardWeight})
        if (node(ChunkId(reader), phase, m).valid()) module.dag.add_edge(finish, node(ChunkId(reader), phase, m));
  }
}

// Forward, backward and its weight part of one chunk follow each other on each microbatch.
void add_edges_in_chunks(ir::Module& module) {
  for (size_t c = 0; c < module.chunks().size(); ++c)
    for (int32_t m = 0; m < module.step.num_microbatches; ++m) {
      NodeId before = module.dag.node_of(ChunkId(c), Phase::kForward, m);
      for (Phase phase : {Phase::kBackward, Phase::kBackwardWeight}) {
        const NodeId after = module.dag.node_of(ChunkId(c), phase, m);
        if (!after.valid()) continue;
        if (before.valid()) module.dag.add_edge(before, after);
        before = after;
      }
    }
}

// One edge per pair of chunks, whatever the number of values; transfers look the values up. It leads to the first pass
// of the reader that reads one of them: the backward of a stage may read what the forward of a later one makes, as a
// loss of the first stage's result times weights that the last one computes. Later passes of the reader follow that
// one.
void add_edges_between_chunks(ir::Module& module) {
  std::map<std::tuple<Phase, ChunkId, ChunkId>, Phase> first_readers;
  for (const ir::Crossing& crossing : module.crossings()) {
    const auto [at, fresh] =
        first_readers.emplace(std::tuple(crossing.phase, crossing.from, crossing.to), crossing.read_in);
    if (!fresh) at->second = std::min(at->second, crossing.read_in);
  }
  for (const auto& [crossing, read_in] : first_readers) {
    const auto& [phase, from, to] = crossing;
    for (int32_t m = 0; m < module.step.num_microbatches; ++m)
      module.dag.add_edge(module.dag.node_of(from, phase, m), module.dag.node_of(to, read_in, m));
  }
}

}  // namespace

void build_dag(ir::Module& module) {
  const size_t num_chunks = module.chunks().size();
  module.dag.compute.resize(num_chunks);
  for (auto& chunk : module.dag.compute)
    for (auto& row : chunk) row.assign(module.step.num_microbatches, NodeId());
  const std::vector<ir::StepSum> sums = ir::step_sums(module.graph());
  for (const ir::StepSum& sum : sums)
    module.dag.scalars.push_back(
        {sum.name, sum.title, sum.what, sum.dtype, {}, plan::Reduction::kSum, ir::ScalarReader::kLog, {}});
  add_computes(module);
  for (size_t c = 0; c < num_chunks; ++c) add_counts(module, ChunkId(c));
  add_edges_in_chunks(module);
  add_edges_between_chunks(module);
  for (size_t s = 0; s < sums.size(); ++s) add_step_sum(module, ir::ScalarId(s), sums[s]);
}

}  // namespace piper::passes
