#include "compiler/passes/build_dag.h"

#include <algorithm>
#include <set>

namespace piper::passes {

using ir::ChunkId;
using ir::ComputeNode;
using ir::NodeId;
using ir::Phase;

namespace {

// Every group that holds `chunk` for some microbatch, as one list of ranks in order of first use.
std::vector<int32_t> union_of_groups(const ir::Module& module, ChunkId chunk) {
  std::vector<int32_t> ranks;
  for (ir::GroupId group : module.distribution.chunks[chunk.index].groups)
    for (int32_t rank : module.distribution.groups[group.index].ranks)
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  return ranks;
}

// A sum over microbatches and chunks on each rank, then over ranks: the node behind which every rank has it. `also`: a
// rank that joins in, whether or not it has something to add; -1: none.
NodeId add_sum(ir::Module& module, const std::vector<ChunkId>& chunks, ir::StepWork finish, ir::Reduced reduced,
               const std::string& stream, const std::string& what, int32_t also) {
  std::vector<ir::ProvId> parents;
  std::vector<int32_t> ranks;
  for (ChunkId c : chunks) {
    parents.push_back(module.distribution.chunks[c.index].placed_by);
    for (int32_t rank : union_of_groups(module, c))
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
  if (also >= 0 && std::find(ranks.begin(), ranks.end(), also) == ranks.end()) ranks.insert(ranks.begin(), also);
  const ir::ProvId prov = module.provenance.derived(what, std::move(parents));
  const ir::GroupId everyone = module.distribution.intern_group(ranks);
  const NodeId last = module.dag.add_node(ir::StepNode{finish, chunks.back(), 0}, everyone, 0, prov);
  for (ChunkId c : chunks)
    for (NodeId forward : module.dag.compute[c.index][static_cast<size_t>(Phase::kForward)])
      module.dag.add_edge(forward, last);
  const uint32_t lane = module.distribution.intern_stream(stream);
  if (ranks.size() == 1) return last;
  const NodeId sum = module.dag.add_node(ir::AllReduceNode{reduced, {}, chunks.back()}, everyone, lane, prov);
  module.dag.add_edge(last, sum);
  return sum;
}

// The chunks that make some of the values, ascending.
std::vector<ChunkId> producers(const ir::Graph& graph, const std::vector<ir::ValueId>& values) {
  std::set<ChunkId> chunks;
  for (ir::ValueId value : values)
    if (graph.value(value).kind == ir::ValueKind::kOpResult) chunks.insert(graph.op(graph.value(value).producer).chunk);
  return {chunks.begin(), chunks.end()};
}

// The chunks that add to the step's loss.
std::vector<ChunkId> loss_chunks(const ir::Module& module) {
  std::vector<ir::ValueId> roots;
  for (ir::ValueId term : module.graph().all_losses())
    roots.push_back(module.variants[0].lowered.layouts[term.index].root);
  return producers(module.graph(), roots);
}

// The chunks that add to its number of dropped rows.
std::vector<ChunkId> dropping_chunks(const ir::Module& module) {
  return producers(module.graph(), module.graph().dropped);
}

// A device group that holds rank 0 and could hear from `ranks` position by position; rank 0 alone where there is none.
ir::GroupId reporters(ir::Module& module, const std::vector<int32_t>& ranks) {
  for (const ir::ChunkProperties& chunk : module.distribution.chunks)
    for (ir::GroupId id : chunk.groups) {
      const std::vector<int32_t>& group = module.distribution.groups[id.index].ranks;
      const auto elsewhere = [&](int32_t rank) { return std::find(ranks.begin(), ranks.end(), rank) == ranks.end(); };
      if (group.size() == ranks.size() && module.distribution.has_member(id, 0) &&
          std::all_of(group.begin(), group.end(), elsewhere))
        return id;
    }
  return module.distribution.intern_group({0});
}

// Rank 0 reports; its replicas hear the loss as well, so that they do the same work.
void add_loss(ir::Module& module) {
  const std::vector<ChunkId> chunks = loss_chunks(module);
  if (chunks.empty()) return;
  const NodeId last =
      add_sum(module, chunks, ir::StepWork::kLossFinish, ir::Reduced::kLoss, "loss", "loss of the step", -1);
  const std::vector<int32_t> ranks = module.distribution.groups[module.dag.nodes[last.index].group.index].ranks;
  if (std::find(ranks.begin(), ranks.end(), 0) != ranks.end()) return;
  const ir::Node& sum = module.dag.nodes[last.index];
  const ir::ProvId prov = sum.prov;
  ir::TransferNode report;
  report.cargo = ir::Cargo::kLoss;
  report.to = reporters(module, ranks);
  const bool all = module.distribution.groups[report.to.index].ranks.size() == ranks.size();
  const ir::GroupId holders = all ? sum.group : module.distribution.intern_group({ranks[0]});
  module.dag.add_edge(last, module.dag.add_node(report, holders, module.distribution.intern_stream("loss"), prov));
}

void add_dropped(ir::Module& module) {
  const std::vector<ChunkId> chunks = dropping_chunks(module);
  if (chunks.empty()) return;
  add_sum(module, chunks, ir::StepWork::kDroppedFinish, ir::Reduced::kDropped, "dropped", "number of dropped rows", 0);
}

}  // namespace

void build_dag(ir::Module& module) {
  const std::vector<ir::ChunkShape>& shapes = module.shapes;
  const size_t num_chunks = module.chunks().size();
  const int32_t m_count = module.step.num_microbatches;
  module.dag.compute.resize(num_chunks);
  for (size_t c = 0; c < num_chunks; ++c)
    for (auto& row : module.dag.compute[c]) row.assign(m_count, NodeId());

  auto add_computes = [&](size_t c, Phase phase) {
    for (int32_t m = 0; m < m_count; ++m) {
      const ComputeNode at{ChunkId(c), phase, m};
      NodeId& node = module.dag.compute[c][static_cast<size_t>(phase)][m];
      if (module.chunks()[c].exchange) {
        const ir::ExpertGroups& groups = module.distribution.expert_groups[module.chunks()[c].shard];
        node = module.dag.add_node(ir::ExchangeNode{at}, module.distribution.group(ChunkId(c), m), groups.stream,
                                   groups.prov);
      } else {
        node = module.dag.add_node(at, module.distribution.group(ChunkId(c), m),
                                   module.distribution.compute_stream(ChunkId(c), phase, m),
                                   module.distribution.chunks[c].placed_by);
      }
    }
  };
  for (size_t c = 0; c < num_chunks; ++c) {
    if (shapes[c].has_phase(Phase::kCount)) add_computes(c, Phase::kCount);
    if (shapes[c].has_phase(Phase::kForward)) add_computes(c, Phase::kForward);
  }
  for (size_t c = num_chunks; c-- > 0;) {
    if (shapes[c].has_phase(Phase::kBackward)) add_computes(c, Phase::kBackward);
    if (shapes[c].has_phase(Phase::kBackwardWeight)) add_computes(c, Phase::kBackwardWeight);
  }

  auto node = [&](size_t c, Phase phase, int32_t m) { return module.dag.compute[c][static_cast<size_t>(phase)][m]; };
  // Counts: summed over microbatches on each rank, over ranks by an all_reduce, then inverted once.
  for (size_t c = 0; c < num_chunks; ++c) {
    if (!shapes[c].has_phase(Phase::kCount)) continue;
    const ir::GroupId everyone = module.distribution.intern_group(union_of_groups(module, ChunkId(c)));
    const ir::ProvId counted =
        module.provenance.derived("count of a mean loss", {module.distribution.chunks[c].placed_by});
    NodeId summed;
    if (module.distribution.groups[everyone.index].ranks.size() > 1)
      summed = module.dag.add_node(ir::AllReduceNode{ir::Reduced::kCount, {}, ChunkId(c)}, everyone,
                                   module.distribution.intern_stream("loss"), counted);
    const NodeId finish =
        module.dag.add_node(ir::StepNode{ir::StepWork::kCountFinish, ChunkId(c), 0}, everyone, 0, counted);
    for (int32_t m = 0; m < m_count; ++m)
      module.dag.add_edge(node(c, Phase::kCount, m), summed.valid() ? summed : finish);
    if (summed.valid()) module.dag.add_edge(summed, finish);
    for (size_t reader = 0; reader < num_chunks; ++reader) {
      if (module.chunks()[reader].region != module.chunks()[c].region) continue;
      for (int32_t m = 0; m < m_count; ++m)
        for (Phase phase : {Phase::kForward, Phase::kBackward, Phase::kBackwardWeight})
          if (node(reader, phase, m).valid()) module.dag.add_edge(finish, node(reader, phase, m));
    }
  }
  for (size_t c = 0; c < num_chunks; ++c)
    for (int32_t m = 0; m < m_count; ++m) {
      NodeId before = node(c, Phase::kForward, m);
      for (Phase phase : {Phase::kBackward, Phase::kBackwardWeight}) {
        const NodeId after = node(c, phase, m);
        if (!after.valid()) continue;
        if (before.valid()) module.dag.add_edge(before, after);
        before = after;
      }
    }
  // One edge per pair of chunks, whatever the number of values; transfers look the values up.
  size_t last_from = SIZE_MAX, last_to = SIZE_MAX;
  Phase last_phase = Phase::kCount;
  for (const ir::Crossing& crossing : module.crossings()) {
    const size_t from = crossing.from.index, to = crossing.to.index;
    if (from == last_from && to == last_to && crossing.phase == last_phase) continue;
    last_from = from;
    last_to = to;
    last_phase = crossing.phase;
    // A backward value is read by backwards; a forward value by the forward, or by the backward alone where there is no
    // forward. Later passes of the reader follow that one.
    for (int32_t m = 0; m < m_count; ++m) {
      NodeId reader = node(to, crossing.phase, m);
      for (Phase phase : {Phase::kBackward, Phase::kBackwardWeight})
        if (!reader.valid()) reader = node(to, phase, m);
      module.dag.add_edge(node(from, crossing.phase, m), reader);
    }
  }
  add_loss(module);
  add_dropped(module);
}

}  // namespace piper::passes
