#include "compiler/analysis/data_paths.h"

#include <algorithm>

namespace piper::analysis {

DataPaths data_paths(const ir::Dag& dag) {
  DataPaths paths;
  paths.next = FlatLists<uint32_t>(dag.nodes.size(), [&](const auto& add) {
    for (const ir::Edge& e : dag.edges)
      if (e.kind == ir::EdgeKind::kData) add(e.from.index, e.to.index);
  });
  paths.depth.assign(dag.nodes.size(), 0);
  std::vector<uint32_t> waiting(dag.nodes.size(), 0);
  for (const ir::Edge& e : dag.edges)
    if (e.kind == ir::EdgeKind::kData) ++waiting[e.to.index];
  std::vector<uint32_t> ready;
  for (uint32_t n = 0; n < waiting.size(); ++n)
    if (waiting[n] == 0) ready.push_back(n);
  while (!ready.empty()) {
    const uint32_t n = ready.back();
    ready.pop_back();
    for (uint32_t s : paths.next[n]) {
      paths.depth[s] = std::max(paths.depth[s], paths.depth[n] + 1);
      if (--waiting[s] == 0) ready.push_back(s);
    }
  }
  return paths;
}

}  // namespace piper::analysis
