#include "compiler/tensors/cut_tables.h"

#include "schemas/base/check.h"

namespace piper::tensors {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

// Each place looks its own rows up, and has zeros for those of others.
void look_up_own_rows(ir::Graph& graph, OpId id, int64_t rows, FollowedCuts& found) {
  const ValueId place = graph.place();
  ir::Op& op = graph.op(id);
  op.operands.push_back(place);
  std::get<ir::EmbeddingAttrs>(op.attrs).whole = rows;
  found.share[op.results[0].index] = true;
}

// The loss of rows whose classes the places have in parts.
void merge_loss(ir::Graph& graph, OpId id, int64_t places, const BuilderAt& builder, FollowedCuts& found) {
  const ValueId place = graph.place();
  const std::vector<ValueId> operands = graph.op(id).operands;
  const int64_t classes = graph.type(operands[0]).shape[1];
  auto& attrs = std::get<ir::CrossEntropyAttrs>(graph.op(id).attrs);
  attrs.whole = classes;
  ir::GraphBuilder b = builder(graph.op(id), ir::CutDim::kVocabulary);
  const ir::RowLseAttrs of_part{attrs.ignore_index, classes, places};
  const ValueId stats =
      b.add1(OpKind::kRowLse, {operands[0], operands[1], place}, of_part, graph.value(operands[0]).name + ".rows");
  PIPER_CHECK(b.status().ok(), "the statistics of rows of logits");
  ir::Op& op = graph.op(id);
  op.operands = {operands[0], operands[1], ValueId(), stats, place};
  graph.value(op.results[1]).type.dtype = graph.type(stats).dtype;
  found.part.resize(graph.num_values());
  found.share.resize(graph.num_values(), false);
  found.share[stats.index] = true;
}

}  // namespace

void cut_tables(ir::Graph& graph, const std::vector<Table>& tables, const std::vector<ChunkCut>& chunks,
                const BuilderAt& builder, FollowedCuts& found) {
  for (const Table& table : tables) {
    const int64_t rows = graph.type(table.parameter).shape[0];
    for (const OpId look_up : table.look_ups) look_up_own_rows(graph, look_up, rows, found);
    found.weights.push_back({table.parameter, {0, 1}, table.chunk, false, true});
  }
  for (const OpId loss : found.losses)
    merge_loss(graph, loss, chunks[graph.op(loss).chunk.index].places, builder, found);
}

}  // namespace piper::tensors
