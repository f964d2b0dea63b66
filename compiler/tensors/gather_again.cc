#include "compiler/tensors/gather_again.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "compiler/ir/op_traits.h"

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

// Vectors, one of each row that travels.
bool brings_vectors(const ir::Graph& graph, const ir::Op& op) {
  return op.kind == OpKind::kAllToAll && graph.type(op.results[0]).shape.size() > 2 &&
         is_floating(graph.type(op.results[0]).dtype);
}

class GatherAgain {
 public:
  GatherAgain(ir::ChunkedGraph& chunked, const std::vector<ir::ChunkProperties>& rows, const Repeatable& repeats)
      : chunked_(chunked), graph_(chunked.graph), rows_(rows), repeats_(repeats) {}

  GatheredAgain run(const std::function<bool(OpId)>& reads_later) {
    find_wholes();
    find_readers(reads_later);
    find_parts();
    GatheredAgain found;
    found.from = add_chunks();
    for (const auto& [op, wholes] : reads_) read_again(op, wholes);
    for (const Gather& gather : gathers_) found.wholes[graph_.op(gather.op).results[0]] = gather.whole;
    found.made = std::move(made_);
    graph_.sort_ops();
    return found;
  }

 private:
  struct Gather {
    OpId op;                  // or an exchange; or an enter, which marks a whole and sends nothing
    ChunkId first_reader;     // whose backward reads it first
    std::vector<OpId> parts;  // that make its part again, in their order; empty: the part is kept
    ValueId whole;            // what is gathered again
    std::set<OpId> before;    // exchanges that its part reads, which are repeated before
  };

  // What is gathered or exchanged in the forward, and that laid out in another way.
  void find_wholes() {
    gathered_.assign(graph_.num_values(), OpId());
    for (size_t i = 0; i < num_ops_; ++i) {
      const ir::Op& op = graph_.op(OpId(i));
      if (op.phase != Phase::kForward || op.results.size() != 1) continue;
      const bool view = op.kind == OpKind::kReshape || op.kind == OpKind::kPermute;
      const bool whole = op.kind == OpKind::kEnter ||
                         (op.kind == OpKind::kAllGather && !keeps(rows_[op.chunk.index])) ||
                         (brings_vectors(graph_, op) && repeats_(op, op.kind));
      if (whole) gathered_[op.results[0].index] = OpId(i);
      else if (view) gathered_[op.results[0].index] = gathered_[op.operands[0].index];
    }
  }

  bool is_whole(ValueId v) const { return v.valid() && v.index < gathered_.size() && gathered_[v.index].valid(); }

  // Other devices have the whole from a message of the forward, and no part.
  bool on_its_devices(ChunkId chunk, OpId gather) const {
    return chunk.valid() && rows_[chunk.index].groups == rows_[graph_.op(gather).chunk.index].groups;
  }

  // Backwards run from the last chunk to the first.
  void find_readers(const std::function<bool(OpId)>& reads_later) {
    std::map<OpId, ChunkId> first;
    for (size_t i = 0; i < num_ops_; ++i) {
      const ir::Op& op = graph_.op(OpId(i));
      if (op.phase != Phase::kBackward && !reads_later(OpId(i))) continue;
      for (const ValueId v : op.operands) {
        if (!is_whole(v) || !on_its_devices(op.chunk, gathered_[v.index])) continue;
        if (op.phase == Phase::kBackward) reads_[OpId(i)].insert(v);
        ChunkId& reader = first[gathered_[v.index]];
        if (!reader.valid() || reader < op.chunk) reader = op.chunk;
      }
    }
    for (const auto& [op, reader] : first) gathers_.push_back({op, reader, {}, {}});
  }

  // A part is made again from what its chunk hands to later ones and from what others have handed to it.
  void find_parts() {
    const ir::Uses uses = graph_.uses();
    for (Gather& gather : gathers_) {
      std::set<OpId> making;
      bool can = true;
      std::vector<ValueId> open{graph_.op(gather.op).operands[0]};
      const ChunkId chunk = chunk_of(open[0]);
      if (!on_its_devices(chunk, gather.op)) continue;
      while (!open.empty() && can) {
        const ValueId v = open.back();
        open.pop_back();
        if (!chunk.valid() || chunk_of(v) != chunk) continue;
        const bool goes_on = std::any_of(uses[v.index].begin(), uses[v.index].end(), [&](OpId id) {
          const ir::Op& op = graph_.op(id);
          return op.phase == Phase::kForward && op.chunk != chunk && op.kind != OpKind::kAllGather &&
                 op.kind != OpKind::kAllToAll && op.kind != OpKind::kEnter;
        });
        const OpId maker = graph_.value(v).producer;
        if (goes_on || !making.insert(maker).second) continue;
        const ir::Op& op = graph_.op(maker);
        can = repeats_(op, graph_.op(gather.op).kind);
        for (const ValueId operand : op.operands) {
          if (is_whole(operand)) can = can && reads_sent_again(gather, gathered_[operand.index]);
          else if (operand.valid()) open.push_back(operand);
        }
      }
      if (can) gather.parts.assign(making.begin(), making.end());
    }
    repeat_before();
    // What entered, or was exchanged, is kept where it, or what was sent, is not made again.
    std::set<OpId> kept;
    std::erase_if(gathers_, [&](const Gather& gather) {
      const bool is_kept = graph_.op(gather.op).kind != OpKind::kAllGather && gather.parts.empty();
      if (is_kept) kept.insert(gather.op);
      return is_kept;
    });
    for (OpId& gather : gathered_)
      if (kept.count(gather) > 0) gather = OpId();
  }
  // What experts return is made of what they received. Longer ways would make all layers again at once.
  bool reads_sent_again(Gather& gather, OpId other) {
    const auto found = std::find_if(gathers_.begin(), gathers_.end(), [&](const Gather& g) { return g.op == other; });
    const bool both = graph_.op(gather.op).kind == OpKind::kAllToAll && graph_.op(other).kind == OpKind::kAllToAll;
    if (!both || found == gathers_.end() || found->parts.empty() || !found->before.empty()) return false;
    gather.before.insert(other);
    return true;
  }
  void repeat_before() {
    for (const Gather& gather : gathers_)
      for (Gather& other : gathers_)
        if (!gather.parts.empty() && gather.before.count(other.op) > 0)
          other.first_reader = std::max(other.first_reader, gather.first_reader);
  }

  // The chunk of a value of the forward; invalid: no operator made it.
  ChunkId chunk_of(ValueId v) const {
    if (graph_.value(v).kind != ir::ValueKind::kOpResult) return ChunkId();
    const ir::Op& op = graph_.op(graph_.value(v).producer);
    return op.phase == Phase::kForward ? op.chunk : ChunkId();
  }

  // For each gather that has readers a chunk, and one for what makes its part again.
  std::vector<ChunkId> add_chunks() {
    std::map<ChunkId, std::vector<Gather*>> after;
    for (Gather& gather : gathers_) after[gather.first_reader].push_back(&gather);
    for (auto& [chunk, gathers] : after)  // backwards run from the last chunk to the first
      std::stable_sort(gathers.begin(), gathers.end(),
                       [](const Gather* a, const Gather* b) { return !a->before.empty() && b->before.empty(); });
    for (const ir::Chunk& chunk : chunked_.chunks) names_.insert(chunk.name);
    const std::vector<ir::Chunk> before = std::move(chunked_.chunks);
    chunked_.chunks.clear();
    std::vector<ChunkId> from, moved;
    const auto add = [&](ChunkId like, ChunkId place) {
      ir::Chunk chunk = before[like.index];
      const std::string base = chunk.name + ".again";
      chunk.name = base;
      chunk.again = true;
      for (int32_t repeat = 2; !names_.insert(chunk.name).second; ++repeat)
        chunk.name = base + "." + std::to_string(repeat);
      chunked_.chunks.push_back(std::move(chunk));
      from.push_back(place);
      return ChunkId(chunked_.chunks.size() - 1);
    };
    std::map<const Gather*, std::pair<ChunkId, ChunkId>> added;
    for (size_t c = 0; c < before.size(); ++c) {
      moved.emplace_back(chunked_.chunks.size());
      chunked_.chunks.push_back(before[c]);
      from.emplace_back(c);
      for (Gather* gather : after[ChunkId(c)]) {
        const bool travels = ir::is_communication(graph_.op(gather->op).kind);
        const ChunkId whole = travels ? add(graph_.op(gather->op).chunk, ChunkId(c)) : ChunkId();
        const ChunkId part = gather->parts.empty() ? ChunkId() : add(graph_.op(gather->parts[0]).chunk, ChunkId(c));
        added[gather] = {whole, part};
      }
    }
    for (size_t i = 0; i < num_ops_; ++i)
      if (ir::Op& op = graph_.op(OpId(i)); op.chunk.valid()) op.chunk = moved[op.chunk.index];
    for (Gather& gather : gathers_) {
      const auto [whole, part] = added.at(&gather);
      std::map<ValueId, ValueId> again;
      for (const OpId id : gather.parts) {
        for (const ValueId v : std::vector<ValueId>(graph_.op(id).operands))
          if (is_whole(v)) again[v] = this->again(v, part);
        copy(id, again, part);
        if (gather.before.empty()) continue;
        for (const ValueId result : graph_.op(id).results) made_[result] = again.at(result);
      }
      gather.whole = whole.valid() ? copy(gather.op, again, whole) : again.at(graph_.op(gather.op).operands[0]);
    }
    return from;
  }

  // Results of the copy are those of the operator in `again`. Returns the first.
  ValueId copy(OpId of, std::map<ValueId, ValueId>& again, ChunkId chunk) {
    const ir::Op op = graph_.op(of);  // appending moves the list
    std::vector<ValueId> operands = op.operands;
    for (ValueId& v : operands)
      if (const auto made = again.find(v); made != again.end()) v = made->second;
    std::vector<ir::TensorType> types;
    for (const ValueId result : op.results) types.push_back(graph_.type(result));
    const OpId id = graph_.append(op.kind, op.attrs, std::move(operands), std::move(types), op.scope,
                                  graph_.provenance().derived("recompute", {op.prov}));
    graph_.op(id).phase = Phase::kBackward;
    graph_.op(id).chunk = chunk;
    for (size_t r = 0; r < op.results.size(); ++r) again[op.results[r]] = graph_.op(id).results[r];
    return graph_.op(id).results[0];
  }

  // The whole that was gathered again, as `v` lays it out, in a chunk.
  ValueId again(ValueId v, ChunkId chunk) {
    const OpId id = graph_.value(v).producer;
    if (id == gathered_[v.index])
      return std::find_if(gathers_.begin(), gathers_.end(), [&](const Gather& g) { return g.op == id; })->whole;
    const std::pair key(v, chunk);
    if (const auto found = layouts_.find(key); found != layouts_.end()) return found->second;
    const ValueId read = graph_.op(id).operands[0];
    std::map<ValueId, ValueId> whole{{read, again(read, chunk)}};
    return layouts_[key] = copy(id, whole, chunk);
  }

  void read_again(OpId id, const std::set<ValueId>& wholes) {
    for (size_t o = 0; o < graph_.op(id).operands.size(); ++o) {
      const ValueId v = graph_.op(id).operands[o];
      if (wholes.count(v) == 0 || !is_whole(v)) continue;
      const ValueId whole = again(v, graph_.op(id).chunk);  // appends
      graph_.op(id).operands[o] = whole;
    }
  }

  ir::ChunkedGraph& chunked_;
  ir::Graph& graph_;
  const std::vector<ir::ChunkProperties>& rows_;  // [chunk] of before
  const Repeatable& repeats_;
  const size_t num_ops_ = graph_.num_ops();
  std::vector<OpId> gathered_;  // [value] the gather that it is a layout of; invalid: none
  std::vector<Gather> gathers_;
  std::map<OpId, std::set<ValueId>> reads_;  // by a backward, the wholes that it reads where they are gathered
  std::set<std::string> names_;              // of chunks
  std::map<std::pair<ValueId, ChunkId>, ValueId> layouts_;
  std::map<ValueId, ValueId> made_;
};

}  // namespace

GatheredAgain gather_again(ir::ChunkedGraph& chunked, const std::vector<ir::ChunkProperties>& rows,
                           const Repeatable& repeats, const std::function<bool(OpId)>& reads_later) {
  return GatherAgain(chunked, rows, repeats).run(reads_later);
}

}  // namespace piper::tensors
