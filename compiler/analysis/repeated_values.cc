#include "compiler/analysis/repeated_values.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/analysis/repeatable_ops.h"
#include "compiler/ir/op_traits.h"

namespace piper::analysis {

using ir::OpId;
using ir::ValueId;
using ir::ValueKind;

namespace {

bool is_slice(ir::OpKind kind) { return ir::axis_rule(kind) == ir::AxisRule::kSlice; }

bool is_view_of_all(ir::OpKind kind) {
  const ir::AxisRule rule = ir::axis_rule(kind);
  return rule == ir::AxisRule::kReshape || rule == ir::AxisRule::kPermute || rule == ir::AxisRule::kExpand ||
         kind == ir::OpKind::kDetach;
}

bool is_any_view(ir::OpKind kind) { return is_slice(kind) || is_view_of_all(kind); }

// What a reader in another segment keeps, where it reads `v`: that of which it is a view, but only the elements of a
// slice.
ValueId kept_for(const ir::Graph& graph, ValueId v) {
  for (bool first = true; graph.value(v).kind == ValueKind::kOpResult; first = false) {
    const ir::Op& op = graph.op(graph.value(v).producer);
    if (!is_any_view(op.kind) || (first && is_slice(op.kind))) break;
    v = op.operands[0];
  }
  return v;
}

// [op] whether its backward, or one that follows it in its chunk, may read what it reads: sums and views hand it on.
std::vector<bool> read_by_backward(const ir::Graph& graph) {
  std::vector<bool> read(graph.num_ops(), false);
  const ir::Uses readers = graph.uses();
  for (size_t i = graph.num_ops(); i-- > 0;) {
    const ir::Op& op = graph.op(OpId(i));
    const bool hands_on = is_any_view(op.kind) || op.kind == ir::OpKind::kAdd || op.kind == ir::OpKind::kSub ||
                          op.kind == ir::OpKind::kCast || op.kind == ir::OpKind::kSum;
    read[i] = !hands_on || std::any_of(op.results.begin(), op.results.end(), [&](ValueId result) {
      return std::any_of(readers[result.index].begin(), readers[result.index].end(),
                         [&](OpId id) { return graph.op(id).chunk == op.chunk && read[id.index]; });
    });
  }
  return read;
}

}  // namespace

RepeatedValues::RepeatedValues(const ir::ChunkedGraph& chunked, const std::vector<ir::ChunkProperties>& rows)
    : graph_(chunked.graph),
      repeated_(graph_.num_ops(), false),
      last_reader_(graph_.num_values(), -1),
      read_last_(graph_.num_ops()),
      received_first_(graph_.num_ops()),
      received_last_(graph_.num_ops()) {
  const RepeatableOps repeatable(chunked, rows);
  const std::vector<bool> needed = read_by_backward(graph_);
  std::vector<bool> kept_anyway(graph_.num_values(), false);
  std::map<std::pair<ir::ChunkId, ValueId>, Received> received;
  for (size_t i = 0; i < graph_.num_ops(); ++i) {
    const ir::Op& op = graph_.op(OpId(i));
    if (op.phase != ir::Phase::kForward || !op.chunk.valid()) continue;
    const ir::ChunkProperties& row = rows[op.chunk.index];
    repeated_[i] = (row.recomputed_always() || row.recomputed_sometimes()) && repeatable.has(graph_, op);
    for (ValueId v : op.operands) {
      if (!v.valid()) continue;
      const ValueId kept = kept_for(graph_, v);
      if (graph_.value(kept).kind != ValueKind::kOpResult) continue;
      const OpId producer = graph_.value(kept).producer;
      const ir::ChunkId from = graph_.op(producer).chunk;
      if (from == op.chunk && (repeated_[producer.index] || repeated_[i]))
        last_reader_[kept.index] = static_cast<int64_t>(i);
      if (from.valid() && from != op.chunk && chunked.chunks[from.index].exchange) {
        const Received first{i, i, graph_.type(kept).bytes()};
        received.try_emplace({op.chunk, kept}, first).first->second.last = i;
      }
      // Another chunk of the same devices that repeats its reader keeps it for that.
      if (from.valid() && from != op.chunk && repeated_[i] && needed[i] && !chunked.chunks[op.chunk.index].exchange &&
          rows[from.index].groups == row.groups)
        kept_anyway[kept.index] = true;
    }
  }
  for (const auto& [of, value] : received) {
    received_first_[value.first].push_back(value);
    received_last_[value.last].push_back(value);
  }
  for (size_t v = 0; v < graph_.num_values(); ++v) {
    if (kept_anyway[v]) last_reader_[v] = -1;
    if (last_reader_[v] >= 0) read_last_[static_cast<size_t>(last_reader_[v])].push_back(ValueId(v));
  }
}

int64_t RepeatedValues::made(size_t op) const {
  int64_t bytes = 0;
  if (repeated_[op] && !is_view_of_all(graph_.op(OpId(op)).kind))
    for (ValueId result : graph_.op(OpId(op)).results) bytes += graph_.type(result).bytes();
  return bytes;
}

void RepeatedValues::pass(size_t op, size_t last, KeptBytes& kept) const {
  for (ValueId v : read_last_[op]) {
    kept.all += graph_.type(v).bytes();
    if (repeated_[graph_.value(v).producer.index]) kept.crossing += graph_.type(v).bytes();
  }
  for (const Received& value : received_last_[op]) {
    kept.all += value.bytes;
    kept.crossing += value.bytes;
  }
  for (const Received& value : received_first_[op]) {
    if (value.last > last) continue;
    kept.all -= value.bytes;
    kept.crossing -= value.bytes;
  }
  if (!repeated_[op]) return;
  for (ValueId result : graph_.op(OpId(op)).results) {
    if (last_reader_[result.index] < 0 || last_reader_[result.index] > static_cast<int64_t>(last)) continue;
    kept.all -= graph_.type(result).bytes();
    kept.crossing -= graph_.type(result).bytes();
  }
}

}  // namespace piper::analysis
