#include "compiler/directives/recompute.h"

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
          "functions of counters, so the repetition gives the same values.",
      .args =
          {
              {"filter", ArgKind::kFilter, true, "",
               "the chunks", {}},
          },
      .example = "{op: recompute, filter: {PP: \"*\"}}",
      .filter_forbids = {"PASS"},
  };
  return spec;
}

Result<RecomputeArgs> read_recompute(const strategy::Directive& directive) {
  RecomputeArgs args;
  PIPER_ASSIGN(args.filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  return args;
}

}  // namespace piper::directives
