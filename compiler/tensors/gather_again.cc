#include "compiler/tensors/gather_again.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "schemas/base/check.h"

namespace piper::tensors {
namespace {

using ir::ChunkId;
using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;

bool keeps(const ir::ChunkProperties& row) {
  return std::any_of(row.seeds.begin(), row.seeds.end(),
                     [](const ir::CutSeed& seed) { return seed.dim == ir::CutDim::kSequence && seed.keeps_wholes; });
}

class GatherAgain {
 public:
  explicit GatherAgain(ir::ChunkedGraph& chunked) : chunked_(chunked), graph_(chunked.graph) {}

  std::vector<ChunkId> run(const std::vector<ir::ChunkProperties>& rows) {
    find_wholes(rows);
    find_readers();
    std::vector<ChunkId> from = add_chunks();
    for (size_t i = 0; i < num_ops_; ++i) read_again(OpId(i));
    graph_.sort_ops();
    return from;
  }

 private:
  // What is gathered in the forward, and that laid out in another way.
  void find_wholes(const std::vector<ir::ChunkProperties>& rows) {
    gather_.assign(graph_.num_values(), OpId());
    for (size_t i = 0; i < num_ops_; ++i) {
      const ir::Op& op = graph_.op(OpId(i));
      if (op.phase != Phase::kForward || op.results.size() != 1) continue;
      const bool view = op.kind == OpKind::kReshape || op.kind == OpKind::kPermute;
      if (op.kind == OpKind::kAllGather && !keeps(rows[op.chunk.index])) gather_[op.results[0].index] = OpId(i);
      else if (view) gather_[op.results[0].index] = gather_[op.operands[0].index];
    }
  }

  bool is_whole(ValueId v) const { return v.valid() && v.index < gather_.size() && gather_[v.index].valid(); }

  // Backwards run from the last chunk to the first.
  void find_readers() {
    for (size_t i = 0; i < num_ops_; ++i) {
      const ir::Op& op = graph_.op(OpId(i));
      if (op.phase != Phase::kBackward) continue;
      for (const ValueId v : op.operands) {
        if (!is_whole(v)) continue;
        ChunkId& first = first_reader_[gather_[v.index]];
        if (!first.valid() || first < op.chunk) first = op.chunk;
      }
    }
  }

  // A chunk for each gather that has readers, and the gather in it.
  std::vector<ChunkId> add_chunks() {
    std::map<ChunkId, std::vector<OpId>> after;
    for (const auto& [gather, reader] : first_reader_) after[reader].push_back(gather);
    std::set<std::string> names;
    for (const ir::Chunk& chunk : chunked_.chunks) names.insert(chunk.name);
    std::vector<ir::Chunk> chunks;
    std::vector<ChunkId> from, moved;
    std::map<OpId, ChunkId> chunk_of;
    for (size_t c = 0; c < chunked_.chunks.size(); ++c) {
      moved.emplace_back(chunks.size());
      chunks.push_back(chunked_.chunks[c]);
      from.emplace_back(c);
      for (const OpId gather : after[ChunkId(c)]) {
        ir::Chunk chunk = chunked_.chunks[graph_.op(gather).chunk.index];
        const std::string base = chunk.name + ".again";
        chunk.name = base;
        for (int32_t repeat = 2; !names.insert(chunk.name).second; ++repeat)
          chunk.name = base + "." + std::to_string(repeat);
        chunk_of[gather] = ChunkId(chunks.size());
        chunks.push_back(std::move(chunk));
        from.emplace_back(c);
      }
    }
    for (size_t i = 0; i < num_ops_; ++i)
      if (ir::Op& op = graph_.op(OpId(i)); op.chunk.valid()) op.chunk = moved[op.chunk.index];
    chunked_.chunks = std::move(chunks);
    for (const auto& [gather, chunk] : chunk_of)
      wholes_[{graph_.op(gather).results[0].index, 0}] = copy(gather, graph_.op(gather).operands, chunk);
    return from;
  }

  ValueId copy(OpId of, std::vector<ValueId> operands, ChunkId chunk) {
    const ir::Op op = graph_.op(of);  // appending moves the list
    const OpId id = graph_.append(op.kind, op.attrs, std::move(operands), {graph_.type(op.results[0])}, op.scope,
                                  graph_.provenance().derived("recompute", {op.prov}));
    graph_.op(id).phase = Phase::kBackward;
    graph_.op(id).chunk = chunk;
    return graph_.op(id).results[0];
  }

  // The whole that was gathered again, as `v` lays it out, in a chunk.
  ValueId again(ValueId v, ChunkId chunk) {
    const OpId id = graph_.value(v).producer;
    const bool gathered = graph_.op(id).kind == OpKind::kAllGather;
    const std::pair<uint32_t, uint32_t> key(v.index, gathered ? 0 : chunk.index + 1);
    if (const auto found = wholes_.find(key); found != wholes_.end()) return found->second;
    PIPER_CHECK(!gathered, "a whole that is not gathered again");
    const ValueId whole = again(graph_.op(id).operands[0], chunk);
    return wholes_[key] = copy(id, {whole}, chunk);
  }

  void read_again(OpId id) {
    if (graph_.op(id).phase != Phase::kBackward) return;
    for (size_t o = 0; o < graph_.op(id).operands.size(); ++o) {
      const ValueId v = graph_.op(id).operands[o];
      if (!is_whole(v)) continue;
      const ValueId whole = again(v, graph_.op(id).chunk);  // appends
      graph_.op(id).operands[o] = whole;
    }
  }

  ir::ChunkedGraph& chunked_;
  ir::Graph& graph_;
  const size_t num_ops_ = graph_.num_ops();
  std::vector<OpId> gather_;                                 // [value] that it is a layout of; invalid: no whole
  std::map<OpId, ChunkId> first_reader_;                     // of a gather: the chunk whose backward reads it first
  std::map<std::pair<uint32_t, uint32_t>, ValueId> wholes_;  // (value, 0 or a chunk + 1) -> as it is made again
};

}  // namespace

std::vector<ChunkId> gather_again(ir::ChunkedGraph& chunked, const std::vector<ir::ChunkProperties>& rows) {
  return GatherAgain(chunked).run(rows);
}

}  // namespace piper::tensors
