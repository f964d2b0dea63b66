#include "compiler/passes/build_dag.h"

#include <algorithm>

namespace piper::passes {

using ir::ChunkId;
using ir::ComputeNode;
using ir::NodeId;
using ir::Pass;

namespace {

// Every group that holds `chunk` for some microbatch, as one list of ranks in order of first use.
std::vector<int32_t> union_of_groups(const ir::Dag& dag, ChunkId chunk) {
  std::vector<int32_t> ranks;
  for (ir::GroupId group : dag.placement[chunk.index])
    for (int32_t rank : dag.groups[group.index].ranks)
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  return ranks;
}

// A sum over microbatches and chunks on each rank, then over ranks: the node behind which every rank has it. `also`: a
// rank that joins in, whether or not it has something to add; -1: none.
NodeId add_sum(ir::Dag& dag, const std::vector<ChunkId>& chunks, ir::StepWork finish, ir::Reduced reduced,
               const std::string& stream, const std::string& what, int32_t also) {
  std::vector<ir::ProvId> parents;
  std::vector<int32_t> ranks;
  for (ChunkId c : chunks) {
    parents.push_back(dag.chunk_prov[c.index]);
    for (int32_t rank : union_of_groups(dag, c))
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
  if (also >= 0 && std::find(ranks.begin(), ranks.end(), also) == ranks.end()) ranks.insert(ranks.begin(), also);
  const ir::ProvId prov = dag.provenance.derived(what, std::move(parents));
  const ir::GroupId everyone = dag.intern_group(ranks);
  const NodeId last = dag.add_node(ir::StepNode{finish, chunks.back(), 0}, everyone, 0, prov);
  for (ChunkId c : chunks)
    for (NodeId forward : dag.compute[c.index][static_cast<size_t>(Pass::kForward)]) dag.add_edge(forward, last);
  const uint32_t lane = dag.intern_stream(stream);
  if (ranks.size() == 1) return last;
  const NodeId sum = dag.add_node(ir::AllReduceNode{reduced, {}, chunks.back()}, everyone, lane, prov);
  dag.add_edge(last, sum);
  return sum;
}

// A device group that holds rank 0 and could hear from `ranks` position by position; rank 0 alone where there is none.
ir::GroupId reporters(ir::Dag& dag, const std::vector<int32_t>& ranks) {
  for (const auto& row : dag.placement)
    for (ir::GroupId id : row) {
      const std::vector<int32_t>& group = dag.groups[id.index].ranks;
      const auto elsewhere = [&](int32_t rank) { return std::find(ranks.begin(), ranks.end(), rank) == ranks.end(); };
      if (group.size() == ranks.size() && dag.has_member(id, 0) && std::all_of(group.begin(), group.end(), elsewhere))
        return id;
    }
  return dag.intern_group({0});
}

// Rank 0 reports; its replicas hear the loss as well, so that they do the same work.
void add_loss(ir::Dag& dag) {
  if (dag.loss_chunks.empty()) return;
  const NodeId last =
      add_sum(dag, dag.loss_chunks, ir::StepWork::kLossFinish, ir::Reduced::kLoss, "loss", "loss of the step", -1);
  const std::vector<int32_t> ranks = dag.groups[dag.nodes[last.index].group.index].ranks;
  if (std::find(ranks.begin(), ranks.end(), 0) != ranks.end()) return;
  const ir::Node& sum = dag.nodes[last.index];
  const ir::ProvId prov = sum.prov;
  ir::TransferNode report;
  report.cargo = ir::Cargo::kLoss;
  report.to = reporters(dag, ranks);
  const bool all = dag.groups[report.to.index].ranks.size() == ranks.size();
  const ir::GroupId holders = all ? sum.group : dag.intern_group({ranks[0]});
  dag.add_edge(last, dag.add_node(report, holders, dag.intern_stream("loss"), prov));
}

void add_dropped(ir::Dag& dag) {
  if (dag.dropping_chunks.empty()) return;
  add_sum(dag, dag.dropping_chunks, ir::StepWork::kDroppedFinish, ir::Reduced::kDropped, "dropped",
          "number of dropped rows", 0);
}

}  // namespace

void build_dag(ir::Dag& dag, const std::vector<ChunkShape>& shapes) {
  const size_t num_chunks = dag.chunks.size();
  const int32_t m_count = dag.num_microbatches;
  dag.compute.resize(num_chunks);
  for (size_t c = 0; c < num_chunks; ++c)
    for (auto& row : dag.compute[c]) row.assign(m_count, NodeId());

  auto add_pass = [&](size_t c, Pass pass) {
    for (int32_t m = 0; m < m_count; ++m) {
      const ComputeNode at{ChunkId(c), pass, m};
      NodeId& node = dag.compute[c][static_cast<size_t>(pass)][m];
      if (dag.chunks[c].exchange) {
        const ir::ExpertGroups& groups = dag.expert_groups[dag.chunks[c].shard];
        node = dag.add_node(ir::ExchangeNode{at}, dag.placement[c][m], groups.stream, groups.prov);
      } else {
        node = dag.add_node(at, dag.placement[c][m], dag.compute_stream(c, pass, m), dag.chunk_prov[c]);
      }
    }
  };
  for (size_t c = 0; c < num_chunks; ++c) {
    if (shapes[c].has_count) add_pass(c, Pass::kCount);
    if (shapes[c].has_forward) add_pass(c, Pass::kForward);
  }
  for (size_t c = num_chunks; c-- > 0;) {
    if (shapes[c].has_backward) add_pass(c, Pass::kBackward);
    if (shapes[c].has_backward_weight) add_pass(c, Pass::kBackwardWeight);
  }

  auto node = [&](size_t c, Pass pass, int32_t m) { return dag.compute[c][static_cast<size_t>(pass)][m]; };
  // Counts: summed over microbatches on each rank, over ranks by an all_reduce, then inverted once.
  for (size_t c = 0; c < num_chunks; ++c) {
    if (!shapes[c].has_count) continue;
    const ir::GroupId everyone = dag.intern_group(union_of_groups(dag, ChunkId(c)));
    const ir::ProvId counted = dag.provenance.derived("count of a mean loss", {dag.chunk_prov[c]});
    NodeId summed;
    if (dag.groups[everyone.index].ranks.size() > 1)
      summed = dag.add_node(ir::AllReduceNode{ir::Reduced::kCount, {}, ChunkId(c)}, everyone, dag.intern_stream("loss"),
                            counted);
    const NodeId finish = dag.add_node(ir::StepNode{ir::StepWork::kCountFinish, ChunkId(c), 0}, everyone, 0, counted);
    for (int32_t m = 0; m < m_count; ++m) dag.add_edge(node(c, Pass::kCount, m), summed.valid() ? summed : finish);
    if (summed.valid()) dag.add_edge(summed, finish);
    for (size_t reader = 0; reader < num_chunks; ++reader) {
      if (dag.chunks[reader].region != dag.chunks[c].region) continue;
      for (int32_t m = 0; m < m_count; ++m)
        for (Pass pass : {Pass::kForward, Pass::kBackward, Pass::kBackwardWeight})
          if (node(reader, pass, m).valid()) dag.add_edge(finish, node(reader, pass, m));
    }
  }
  for (size_t c = 0; c < num_chunks; ++c)
    for (int32_t m = 0; m < m_count; ++m) {
      NodeId before = node(c, Pass::kForward, m);
      for (Pass pass : {Pass::kBackward, Pass::kBackwardWeight}) {
        const NodeId after = node(c, pass, m);
        if (!after.valid()) continue;
        if (before.valid()) dag.add_edge(before, after);
        before = after;
      }
    }
  // One edge per pair of chunks, whatever the number of values; transfers look the values up.
  size_t last_from = SIZE_MAX, last_to = SIZE_MAX;
  Pass last_pass = Pass::kCount;
  for (const ir::ChunkCrossing& crossing : dag.crossings) {
    const size_t from = crossing.from.index, to = crossing.to.index;
    if (from == last_from && to == last_to && crossing.pass == last_pass) continue;
    last_from = from;
    last_to = to;
    last_pass = crossing.pass;
    // A backward value is read by backwards; a forward value by the forward, or by the backward alone where there is no
    // forward. Later passes of the reader follow that one.
    for (int32_t m = 0; m < m_count; ++m) {
      NodeId reader = node(to, crossing.pass, m);
      for (Pass pass : {Pass::kBackward, Pass::kBackwardWeight})
        if (!reader.valid()) reader = node(to, pass, m);
      dag.add_edge(node(from, crossing.pass, m), reader);
    }
  }
  add_loss(dag);
  add_dropped(dag);
}

}  // namespace piper::passes
