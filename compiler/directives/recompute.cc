#include "compiler/directives/recompute.h"

#include "compiler/directives/select.h"
#include "compiler/strategy/directive_args.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& recompute_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "recompute",
      .summary = "drops what the forward saves and computes it again for the backward",
      .doc =
          "The saved values of the matched chunks are dropped after the forward; the chunk's inputs are "
          "kept and the forward is repeated at the start of the matched backward. Random masks are "
          "functions of counters, so the repetition gives the same values.\n\n"
          "Chunks that are replicated are cut into segments as large as a bucket, and each segment repeats itself: "
          "what "
          "crosses from one to the next is kept. Repeated chunks are therefore cut only where little crosses, between "
          "layers and not inside of an MLP, and their segments may use more than a bucket.\n\n"
          "A filter may name microbatches: the others of the chunk keep what they save.",
      .args =
          {
              {"filter", ArgKind::kFilter, true, "", "the chunks; may name microbatches, not passes", {}},
          },
      .example = "{op: recompute, filter: {PP: \"*\"}}",
      .filter_forbids = {"PASS"},
  };
  return spec;
}

Status resolve_recompute(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags) {
  PIPER_ASSIGN(const auto filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  PIPER_ASSIGN(const Selection selection, draft.selector.select(filter, diags));
  for (ir::ChunkId region : selection.chunks)
    for (int32_t m : selection.microbatches) draft.properties(region).recomputed[m] = true;
  return Status();
}

}  // namespace piper::directives
