#include "compiler/frontend/aten/trained_values.h"

#include <cstdint>
#include <set>
#include <vector>

namespace piper::frontend {

bool depends_on_trained(const ir::Graph& graph, ir::ValueId value) {
  std::vector<ir::ValueId> work{value};
  std::set<uint32_t> seen;
  while (!work.empty()) {
    const ir::ValueId v = work.back();
    work.pop_back();
    if (!v.valid() || !seen.insert(v.index).second) continue;
    const ir::Value& made = graph.value(v);
    if (made.kind == ir::ValueKind::kParameter && graph.parameters()[made.payload].trainable) return true;
    if (made.kind != ir::ValueKind::kOpResult || !is_floating(made.type.dtype)) continue;
    const ir::Op& op = graph.op(made.producer);
    if (op.kind != ir::OpKind::kDetach) work.insert(work.end(), op.operands.begin(), op.operands.end());
  }
  return false;
}

}  // namespace piper::frontend
