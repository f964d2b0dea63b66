#include "compiler/passes/partition_experts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>

#include "compiler/experts/find_expert_parts.h"
#include "compiler/experts/find_grouped_parts.h"
#include "compiler/experts/partition_state.h"
#include "compiler/experts/rewrite_expert_part.h"
#include "compiler/experts/rewrite_grouped_part.h"
#include "compiler/regions/cut_at_exchanges.h"
#include "compiler/regions/refine_variants.h"

namespace piper::passes {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

// A part and the directive that partitions it.
template <class Part>
struct Assigned {
  Part part;
  int32_t shard = 0;
  int64_t devices = 1;
};

class Partitioner {
 public:
  Partitioner(ir::ChunkedGraph& chunked, const std::vector<ShardedChunks>& shards, diag::Diagnostics& diags)
      : state_(chunked), graph_(chunked.graph), shards_(shards), diags_(diags) {}

  Result<std::vector<ir::ChunkId>> run() {
    state_.marks.pass = "partition_experts";
    state_.marks.cut.assign(state_.chunked.chunks.size(), false);
    for (const ir::Chunk& chunk : state_.chunked.chunks) state_.marks.shard.push_back(chunk.shard);
    PIPER_RETURN_IF_ERROR(find());
    for (const ShardedChunks& s : shards_) {
      state_.provs.push_back(graph_.provenance().directive({"shard", diags_.place(s.shard.span)}));
      state_.across.push_back(s.across);
    }
    rewrite();
    redirect();
    return regions::cut_at_exchanges(state_.chunked, state_.marks);
  }

 private:
  // ---------------------------------------------------------------- check
  Status find() {
    const experts::ExpertFacts facts(graph_, state_.chunked.chunks.size());
    for (size_t s = 0; s < shards_.size(); ++s) {
      std::vector<std::pair<ir::TagSet, bool>> regions;  // -> it has experts
      for (ir::ChunkId chunk : shards_[s].chunks) {
        PIPER_ASSIGN(std::vector<experts::GroupedPart> by_rows,
                     experts::find_grouped_parts(facts, chunk, shards_[s].shard.span, diags_));
        std::vector<experts::ExpertPart> parts;
        if (by_rows.empty()) {
          PIPER_ASSIGN(parts, experts::find_expert_parts(facts, chunk, shards_[s].shard.span, diags_));
        }
        const ir::TagSet& tags = state_.chunked.chunks[chunk.index].tags;
        auto region = std::find_if(regions.begin(), regions.end(), [&](const auto& r) { return r.first == tags; });
        if (region == regions.end()) region = regions.insert(regions.end(), {tags, false});
        region->second = region->second || !parts.empty() || !by_rows.empty();
        if (shards_[s].shard.bound && !parts.empty()) return not_grouped(chunk, *shards_[s].shard.bound);
        PIPER_RETURN_IF_ERROR(assign(parts, s, parts_));
        PIPER_RETURN_IF_ERROR(assign(by_rows, s, grouped_));
      }
      for (const auto& [tags, has_experts] : regions)
        if (!has_experts) return no_experts(shards_[s], tags);
    }
    state_.same_for_all = facts.same_for_all;
    return {};
  }

  template <class Part>
  Status assign(std::vector<Part>& found, size_t s, std::vector<Assigned<Part>>& assigned) {
    const int64_t devices = static_cast<int64_t>(shards_[s].shard.groups.at(0).size());
    for (Part& part : found) {
      PIPER_RETURN_IF_ERROR(check_division(part.chunk, part.experts, part.weights[0], devices, shards_[s].shard));
      if (devices > 1 || shards_[s].shard.bound)
        assigned.push_back({std::move(part), static_cast<int32_t>(s), devices});
    }
    return {};
  }

  Status check_division(ir::ChunkId chunk, int64_t experts, ValueId weight, int64_t devices,
                        const ir::ExpertGroups& shard) {
    if (experts % devices == 0) return {};
    std::string good;
    for (int64_t d = 1; d <= experts; ++d)
      if (experts % d == 0) good += (good.empty() ? "" : ", ") + std::to_string(d);
    auto error = diags_.error("P0241", shard.span);
    error << state_.chunked.chunks[chunk.index].name << " has " << experts << " experts, which " << devices
          << " devices cannot share equally";
    error.note("the experts are the first axis of '" + graph_.value(weight).name + "'");
    error.help("use groups of " + good + " devices");
    return error;
  }

  Status not_grouped(ir::ChunkId chunk, const ir::RowBound& bound) {
    auto error = diags_.error("P0242", bound.span);
    error << "'capacity' bounds the rows of experts in the grouped form, and the experts of "
          << state_.chunked.chunks[chunk.index].name << " are not";
    error.note("the model says how many tokens each of them takes: every token, or a capacity of its own");
    error.help("leave 'capacity' out");
    return error;
  }

  Status no_experts(const ShardedChunks& sharded, const ir::TagSet& tags) {
    std::string name, parameters;
    std::set<uint32_t> seen;
    for (ir::ChunkId chunk : sharded.chunks) {
      if (!(state_.chunked.chunks[chunk.index].tags == tags)) continue;
      if (name.empty()) name = state_.chunked.chunks[chunk.index].name;
      for (size_t i = 0; i < graph_.num_ops(); ++i) {
        if (graph_.op(OpId(i)).chunk != chunk) continue;
        for (ValueId v : graph_.op(OpId(i)).operands)
          if (v.valid() && graph_.value(v).kind == ir::ValueKind::kParameter && seen.insert(v.index).second &&
              seen.size() <= 8)
            parameters += (parameters.empty() ? "" : ", ") + graph_.value(v).name + " " + text_of(graph_.type(v).shape);
      }
    }
    auto error = diags_.error("P0225", sharded.shard.span);
    error << name << " has no weights that are indexed by expert";
    error.note(parameters.empty() ? "it reads no parameters"
                                  : "its parameters: " + parameters + (seen.size() > 8 ? ", ..." : ""));
    error.help(
        "the weights of experts must be parameters [experts, ..] with at least three axes, which products use expert "
        "by expert");
    return error;
  }

  // ---------------------------------------------------------------- act
  // Ops of all parts in op order, so that what one part makes is there when another reads it.
  void rewrite() {
    std::vector<std::pair<OpId, std::function<void()>>> steps;
    std::vector<std::unique_ptr<experts::ExpertPartRewriter>> parts;
    std::vector<std::unique_ptr<experts::GroupedPartRewriter>> grouped;
    int32_t units = 0;
    for (const Assigned<experts::ExpertPart>& a : parts_) {
      parts.push_back(std::make_unique<experts::ExpertPartRewriter>(state_, a.part, a.shard, a.devices, units));
      int32_t components = 0;
      for (const experts::PartOp& op : a.part.ops) {
        components = std::max(components, op.component + 1);
        steps.emplace_back(op.op, [rewriter = parts.back().get(), &op] { rewriter->rewrite(op); });
      }
      units += components;
      take(a);
    }
    for (const Assigned<experts::GroupedPart>& a : grouped_) {
      grouped.push_back(std::make_unique<experts::GroupedPartRewriter>(
          state_, a.part, a.shard, a.devices, units++, shards_[static_cast<size_t>(a.shard)].shard.bound,
          shards_[static_cast<size_t>(a.shard)].places));
      steps.emplace_back(a.part.order, [rewriter = grouped.back().get()] { rewriter->rewrite_order(); });
      for (const experts::GroupedOp& op : a.part.ops)
        steps.emplace_back(op.op, [rewriter = grouped.back().get(), &op] { rewriter->rewrite(op); });
      tell_bound(a);
      if (a.devices > 1) take(a);
    }
    std::stable_sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [op, step] : steps) step();
  }

  template <class Part>
  void take(const Assigned<Part>& a) {
    state_.marks.cut[a.part.chunk.index] = true;
    state_.marks.shard[a.part.chunk.index] = a.shard;
    std::string names;
    for (ValueId w : a.part.weights) {
      state_.cut_weight(w, a.devices, a.shard);
      names += (names.empty() ? "" : ", ") + graph_.value(w).name;
    }
    diags_.remark(state_.chunked.chunks[a.part.chunk.index].name + ": " + std::to_string(a.part.experts) +
                      " experts over " + std::to_string(a.devices) + " devices; cut are " + names,
                  shards_[static_cast<size_t>(a.shard)].shard.span);
  }

  void tell_bound(const Assigned<experts::GroupedPart>& a) {
    const std::optional<ir::RowBound>& bound = shards_[static_cast<size_t>(a.shard)].shard.bound;
    if (!bound) return;
    const int64_t rows = a.part.rows / shards_[static_cast<size_t>(a.shard)].places;
    diags_.remark(state_.chunked.chunks[a.part.chunk.index].name + ": an expert takes " +
                      std::to_string(bound->rows_of_expert(rows, a.part.experts)) + " of the " + std::to_string(rows) +
                      " rows of a microbatch on a rank at most; more " +
                      (bound->strict ? "are an error" : "are dropped"),
                  bound->span);
  }

  // ---------------------------------------------------------------- tidy up
  void redirect() {
    std::vector<bool>& dropped = state_.dropped;
    dropped.resize(graph_.num_ops(), false);
    for (size_t i = 0; i < graph_.num_ops(); ++i)
      if (!dropped[i])
        for (ValueId& operand : graph_.op(OpId(i)).operands)
          if (operand.valid()) operand = state_.resolve(operand);
    for (ir::Graph::Output& output : graph_.outputs) output.value = state_.resolve(output.value);
    if (graph_.loss.valid()) graph_.loss = state_.resolve(graph_.loss);
    drop_unread();
    graph_.remove_ops(dropped);
    graph_.sort_ops();
  }
  // Broadcasts that travel no more, and orders of rows that others took the place of.
  void drop_unread() {
    std::vector<bool>& dropped = state_.dropped;
    std::vector<int64_t> readers(graph_.num_values());
    for (size_t i = 0; i < graph_.num_ops(); ++i)
      if (!dropped[i])
        for (ValueId operand : graph_.op(OpId(i)).operands)
          if (operand.valid()) ++readers[operand.index];
    for (const ir::Graph::Output& output : graph_.outputs) ++readers[output.value.index];
    if (graph_.loss.valid()) ++readers[graph_.loss.index];
    for (ValueId number : graph_.dropped) ++readers[number.index];
    for (size_t i = graph_.num_ops(); i-- > 0;) {
      const ir::Op& op = graph_.op(OpId(i));
      const bool candidate = op.kind == OpKind::kReshape || op.kind == OpKind::kPermute || op.kind == OpKind::kExpand ||
                             op.kind == OpKind::kCast || op.kind == OpKind::kDetach || op.kind == OpKind::kExpertOrder;
      const bool read =
          std::any_of(op.results.begin(), op.results.end(), [&](ValueId v) { return readers[v.index] > 0; });
      const bool in_reach = state_.marks.cut[op.chunk.index] || op.kind == OpKind::kExpertOrder;
      if (dropped[i] || !candidate || read || !in_reach) continue;
      dropped[i] = true;
      --readers[op.operands[0].index];
    }
  }

  experts::PartitionState state_;
  ir::Graph& graph_;
  const std::vector<ShardedChunks>& shards_;
  diag::Diagnostics& diags_;
  std::vector<Assigned<experts::ExpertPart>> parts_;
  std::vector<Assigned<experts::GroupedPart>> grouped_;
};

}  // namespace

Result<std::vector<ir::ChunkId>> partition_experts(ir::ChunkedGraph& chunked, const std::vector<ShardedChunks>& shards,
                                                   diag::Diagnostics& diags) {
  return Partitioner(chunked, shards, diags).run();
}

Status partition_experts(ir::Module& module, diag::Diagnostics& diags) {
  std::vector<ShardedChunks> shards;
  for (const ir::ExpertGroups& shard : module.distribution.expert_groups) {
    const int32_t cut = module.distribution.cut_of_experts(static_cast<int32_t>(shards.size()));
    const int64_t places = cut >= 0      ? module.distribution.cuts[static_cast<size_t>(cut)].places()
                           : shard.bound ? shard.bound->places
                                         : 1;
    shards.push_back({shard, {}, cut, places});
  }
  if (shards.empty()) return Status();
  for (size_t c = 0; c < module.distribution.chunks.size(); ++c)
    if (const int32_t shard = module.distribution.chunks[c].shard; shard >= 0)
      shards[static_cast<size_t>(shard)].chunks.push_back(ir::ChunkId(c));
  return regions::refine_variants(module, diags,
                                  [&](ir::ChunkedGraph& chunked) { return partition_experts(chunked, shards, diags); });
}

}  // namespace piper::passes
