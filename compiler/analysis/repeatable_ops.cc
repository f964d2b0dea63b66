#include "compiler/analysis/repeatable_ops.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "compiler/ir/layer_of.h"
#include "schemas/base/glob.h"

namespace piper::analysis {

RepeatableOps::RepeatableOps(const ir::ChunkedGraph& chunked, const std::vector<ir::ChunkProperties>& rows)
    : chunks_(chunked.chunks), rows_(rows) {
  if (std::all_of(rows.begin(), rows.end(), [](const ir::ChunkProperties& row) { return row.repeats.layers >= 1; }))
    return;
  const ir::Graph& graph = chunked.graph;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    if (op.phase != ir::Phase::kForward || !op.chunk.valid()) continue;
    const std::string_view layer = ir::layer_of(graph.scope(op.scope));
    std::vector<std::string>& known = layers_[region_of(op)];
    if (!layer.empty() && std::find(known.begin(), known.end(), layer) == known.end()) known.emplace_back(layer);
  }
}

bool RepeatableOps::has(const ir::Graph& graph, const ir::Op& op) const {
  const ir::Repeats& asked = rows_[op.chunk.index].repeats;
  if (asked == ir::Repeats()) return true;
  const std::string& scope = graph.scope(op.scope);
  const bool of_modules =
      asked.modules.empty() || std::any_of(asked.modules.begin(), asked.modules.end(),
                                           [&](const std::string& glob) { return glob_covers(glob, scope); });
  return of_modules && ir::is_among(op.kind, asked.ops) && is_in_first_layers(op, scope, asked.layers);
}

int32_t RepeatableOps::region_of(const ir::Op& op) const {
  const int32_t cut_from = chunks_[op.chunk.index].region;
  return cut_from >= 0 ? cut_from : static_cast<int32_t>(op.chunk.index);
}

bool RepeatableOps::is_in_first_layers(const ir::Op& op, const std::string& scope, double share) const {
  if (share >= 1) return true;
  const std::vector<std::string>& layers = layers_.at(region_of(op));
  const auto place = std::find(layers.begin(), layers.end(), ir::layer_of(scope)) - layers.begin();
  // A share is of one layer at least: else nothing would be repeated, in silence.
  const auto chosen = std::max(std::llround(share * static_cast<double>(layers.size())), 1LL);
  return place < std::ssize(layers) && place < chosen;
}

}  // namespace piper::analysis
