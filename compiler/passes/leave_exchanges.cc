#include "compiler/passes/leave_exchanges.h"

#include "compiler/ir/op_traits.h"
#include "schemas/base/check.h"

namespace piper::passes {
namespace {

void leave_exchanges(ir::ChunkedGraph& chunked) {
  ir::Graph& graph = chunked.graph;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    ir::Op& op = graph.op(ir::OpId(i));
    if (ir::is_conversion(op.kind) || !op.chunk.valid() || !chunked.chunks[op.chunk.index].exchange) continue;
    // Backwards run from the last chunk to the first: the lowest chunk makes its operand last.
    ir::ChunkId last;
    for (ir::ValueId v : op.operands) {
      if (!v.valid() || graph.value(v).kind != ir::ValueKind::kOpResult) continue;
      const ir::ChunkId made = graph.op(graph.value(v).producer).chunk;
      if (made != op.chunk && (!last.valid() || made < last)) last = made;
    }
    PIPER_CHECK(last.valid(), "an operator of an exchange reads nothing that is made elsewhere");
    op.chunk = last;
  }
}

}  // namespace

void leave_exchanges(ir::Module& module) {
  for (ir::ModelVariant& variant : module.variants) leave_exchanges(variant.chunked);
}

}  // namespace piper::passes
