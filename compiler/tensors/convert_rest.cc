#include "compiler/tensors/convert_rest.h"

#include <map>
#include <set>
#include <tuple>

#include "compiler/ir/shapes.h"
#include "schemas/base/check.h"

namespace piper::tensors {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;
using Shape = std::vector<int64_t>;

// The axis that is cut as several: segments, where there are some, places, what a place has of a segment.
Shape with_places(Shape whole, PartAlong along, int64_t places) {
  const auto at = whole.begin() + along.axis;
  *at /= along.segments * places;
  whole.insert(at, places);
  if (along.segments > 1) whole.insert(whole.begin() + along.axis, along.segments);
  return whole;
}

// The axis of places of these first.
Shape places_first(size_t rank, PartAlong along) {
  const int64_t places = along.axis + (along.segments > 1 ? 1 : 0);
  Shape dims{places};
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (d != places) dims.push_back(d);
  return dims;
}

// [places, part..] of the whole.
ValueId by_places(ir::GraphBuilder& b, ValueId whole, PartAlong along, int64_t places) {
  const Shape all = with_places(b.type(whole).shape, along, places);
  Shape part = b.type(whole).shape;
  part[static_cast<size_t>(along.axis)] /= places;
  part.insert(part.begin(), places);
  return b.reshape(b.permute(b.reshape(whole, all), places_first(all.size(), along)), part);
}

ir::PartsAttrs parts_of(const ChunkCut& cut) { return {cut.places, cut.cut}; }

ValueId gather(ir::GraphBuilder& b, ValueId part, PartAlong along, const ChunkCut& cut, bool same, Ways& ways) {
  Shape whole = b.type(part).shape;
  whole[static_cast<size_t>(along.axis)] *= cut.places;
  std::vector<ValueId> operands{part};
  if (same) operands.push_back(b.graph().place());
  const std::string name = b.graph().value(part).name;
  ValueId x = b.add1(OpKind::kAllGather, std::move(operands), parts_of(cut), name + ".whole");
  ways[x.index] = "gather";
  const Shape all = with_places(whole, along, cut.places), dims = places_first(all.size(), along);
  Shape first;
  for (const int64_t d : dims) first.push_back(all[static_cast<size_t>(d)]);
  return b.reshape(b.permute(b.reshape(x, first), ir::inverse_permutation(dims)), whole);
}

}  // namespace

ValueId scatter(ir::GraphBuilder& b, ValueId share, PartAlong along, const ChunkCut& cut, Ways& ways) {
  const std::string name = b.graph().value(share).name;
  const ValueId sum =
      b.add1(OpKind::kReduceScatter, {by_places(b, share, along, cut.places)}, parts_of(cut), name + ".part");
  ways[sum.index] = "scatter";
  return sum;
}

std::vector<ir::ChunkId> take_own_parts(ir::Graph& graph, const std::vector<OwnRead>& own, ir::CutDim dim,
                                        const std::vector<ChunkCut>& chunks, const BuilderAt& builder_at, Ways& ways) {
  std::vector<ir::ChunkId> cut;
  std::map<std::tuple<uint32_t, uint32_t, int32_t, int32_t>, ValueId> parts;  // (whole, chunk, along)
  for (const OwnRead& read : own) {
    const ir::Op op = graph.op(read.op);
    const ValueId whole = op.operands[read.operand];
    ValueId& part = parts[{whole.index, op.chunk.index, read.along.axis, read.along.segments}];
    if (!part.valid()) {
      ir::GraphBuilder b = builder_at(op, dim);
      const ChunkCut& places = chunks[op.chunk.index];
      part = b.add1(OpKind::kOwnPart, {by_places(b, whole, read.along, places.places), graph.place()}, parts_of(places),
                    graph.value(whole).name + ".part");
      PIPER_CHECK(b.status().ok(), "a part");
      if (read.trained) ways[part.index] = "part";
      cut.push_back(op.chunk);
    }
    graph.op(read.op).operands[read.operand] = part;
  }
  return cut;
}

std::vector<ir::ChunkId> convert_rest(ir::ChunkedGraph& chunked, const Rest& rest, const std::vector<ChunkCut>& chunks,
                                      const BuilderAt& builder_at, Ways& ways) {
  ir::Graph& graph = chunked.graph;
  std::vector<ir::ChunkId> cut;
  const auto cut_of = [&](ir::ChunkId chunk) { return chunks[chunk.index]; };
  // A value is converted once for all readers of a chunk. What a chunk without cuts reads is whole where it leaves.
  std::map<std::tuple<uint32_t, uint32_t, bool>, ValueId> wholes;  // (part, chunk, read by columns)
  const auto whole_of = [&](const ir::Op& op, ValueId part, PartAlong along, bool inside) {
    const ir::Op& made = graph.op(graph.value(part).producer);
    const ir::ChunkId chunk = cut_of(op.chunk).cut == cut_of(made.chunk).cut ? op.chunk : made.chunk;
    ValueId& whole = wholes[{part.index, chunk.index, inside}];
    if (!whole.valid()) {
      ir::GraphBuilder b = builder_at(chunk == op.chunk ? op : made, ir::CutDim::kSequence);
      whole = gather(b, part, along, cut_of(chunk), !inside, ways);
      PIPER_CHECK(b.status().ok(), "a gather");
      cut.push_back(chunk);
    }
    return whole;
  };
  std::set<OpId> whole_entered;
  for (const bool inside : {true, false})
    for (const Rest::Read& read : inside ? rest.inside : rest.whole) {
      const ir::Op op = graph.op(read.op);
      const ValueId part = op.operands[read.operand];
      const OpId maker = graph.value(part).producer;
      if (graph.op(maker).kind != OpKind::kEnter) {
        graph.op(read.op).operands[read.operand] = whole_of(op, part, read.along, inside);
      } else if (whole_entered.insert(maker).second) {
        // The whole of what another cut has in parts enters for the columns of this one.
        const ValueId whole = whole_of(op, graph.op(maker).operands[0], read.along, inside);
        graph.op(maker).operands[0] = whole;
        graph.value(part).type = graph.type(whole);
      }
    }
  for (const ir::ChunkId chunk : take_own_parts(graph, rest.own, ir::CutDim::kSequence, chunks, builder_at, ways))
    cut.push_back(chunk);
  for (const auto& [value, along] : rest.outputs)
    for (ir::Graph::Output& output : graph.outputs)
      if (output.value == value) output.value = whole_of(graph.op(graph.value(value).producer), value, along, false);
  return cut;
}

}  // namespace piper::tensors
