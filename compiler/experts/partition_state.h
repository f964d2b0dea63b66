// State that the rewriters of partition_experts share: the graph that they append to, the value that replaces an old
// one, and what cut_at_exchanges is given. Old ops stay in place until the end, so that their values and types can be
// read meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/experts/expert_marks.h"
#include "compiler/ir/chunks.h"
#include "compiler/regions/cut_at_exchanges.h"
#include "schemas/base/check.h"

namespace piper::experts {

// What the chunk of an all_to_all is called after.
inline constexpr const char* kToExperts = "to_experts";
inline constexpr const char* kFromExperts = "from_experts";
inline constexpr const char* kCounts = "counts";  // of the rows that will travel

class PartitionState {
 public:
  explicit PartitionState(ir::ChunkedGraph& chunked)
      : chunked(chunked), graph(chunked.graph), dropped(graph.num_ops(), false) {}

  ir::ChunkedGraph& chunked;
  ir::Graph& graph;
  std::vector<bool> same_for_all;           // [value of the graph as given] it is the same on every rank
  std::vector<ir::ProvId> provs;            // [shard]
  std::vector<int32_t> across;              // [shard] the cut across whose places rows travel; -1: none
  std::map<uint32_t, ir::ValueId> inside;   // old value -> what it is between the exchanges
  std::map<uint32_t, ir::ValueId> outside;  // old value of a part -> what others read instead
  std::vector<bool> dropped;                // [op of the graph as given]
  regions::ExchangeMarks marks;

  // What an op outside of all parts reads for v.
  ir::ValueId resolve(ir::ValueId v) const {
    const auto found = outside.find(v.index);
    return found == outside.end() ? v : found->second;
  }
  // The operand that an op of a part reads in place of an old value; a weight is the old value, with another type.
  ir::ValueId local(ir::ValueId v) const {
    const auto found = inside.find(v.index);
    return found == inside.end() ? v : found->second;
  }

  ir::GraphBuilder builder(const ir::Op& op, int32_t shard) {
    const ir::ProvId prov =
        graph.provenance().derived("partition_experts", {op.prov, provs[static_cast<size_t>(shard)]});
    ir::GraphBuilder b(graph, op.scope, prov);
    b.set_chunk(op.chunk);
    return b;
  }
  // Attributes of `op` that hold the shape of its result take that on a rank, `made`.
  static ir::Attrs local_attrs(const ir::Op& op, const std::vector<int64_t>& made) {
    ir::Attrs attrs = op.attrs;
    if (auto* reshape = std::get_if<ir::ReshapeAttrs>(&attrs)) reshape->shape = made;
    if (auto* expand = std::get_if<ir::ExpandAttrs>(&attrs)) expand->shape = made;
    if (auto* rows = std::get_if<ir::RowsAttrs>(&attrs)) rows->rows = made[0];
    return attrs;
  }
  // `operands`: what is sent; where counts are data, also the rows sent to and received from each member.
  // `way`: what the exchange's chunk is called after.
  ir::ValueId exchange(ir::GraphBuilder& b, int32_t shard, std::vector<ir::ValueId> operands, const std::string& name,
                       const char* way) {
    const ir::ExchangeAttrs attrs{across[static_cast<size_t>(shard)]};
    const ir::ValueId received = b.add1(ir::OpKind::kAllToAll, std::move(operands), attrs, name);
    marks.way[received.index] = way;
    return received;
  }
  // Runs `make`; the ops that it appends belong to the unit.
  template <class Make>
  ir::ValueId in_unit(ir::GraphBuilder& b, int32_t unit, const Make& make) {
    const size_t before = graph.num_ops();
    const ir::ValueId result = make();
    PIPER_CHECK(b.status().ok(), "an op of an expert part: ", b.status().ok() ? "" : b.status().error().message);
    for (size_t i = before; i < graph.num_ops(); ++i) marks.unit[graph.op(ir::OpId(i)).results[0].index] = unit;
    return result;
  }
  // The first axis of a parameter is cut.
  void cut_weight(ir::ValueId w, int64_t devices, int32_t shard) {
    ir::Value& value = graph.value(w);
    value.type.shape[0] /= devices;
    ir::Parameter& parameter = graph.parameters()[value.payload];
    parameter.shards = static_cast<int32_t>(devices);
    parameter.shard = shard;
    parameter.share = across[static_cast<size_t>(shard)];
  }
};

}  // namespace piper::experts
