#include "compiler/directives/resolution.h"

#include <tuple>

namespace piper::directives {

Resolution::Resolution(const ir::Module& module)
    : graph(module.graph()),
      regions(module.chunks()),
      step(module.step),
      selector(regions, step),
      claims(regions.size(), step.num_microbatches),
      replicas(regions.size(), 0),
      provenance(module.provenance),
      halves(regions.size() * step.num_microbatches) {
  distribution.chunks.resize(regions.size());
  for (ir::ChunkProperties& row : distribution.chunks) row.recomputed.assign(step.num_microbatches, false);
}

void Resolution::note_cut(const strategy::Directive& directive) {
  if (!directive.made_by.empty()) return;
  const diag::Span& span = directive.span;
  if (cut_by.line == 0 || std::tie(span.line, span.column) < std::tie(cut_by.line, cut_by.column)) cut_by = span;
}

}  // namespace piper::directives
