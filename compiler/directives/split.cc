#include "compiler/directives/split.h"

#include "compiler/strategy/directive_args.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& split_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "split",
      .summary = "cuts the batch into microbatches",
      .doc =
          "Microbatch m of M is samples [mB/M, (m+1)B/M) of the step. Losses and gradients add up to those "
          "of the unsplit batch: each mean is written as sum x 1/global count, a sum stays a sum.\n\n"
          "In this version there is one split and it matches every forward chunk.",
      .args =
          {
              {"filter", ArgKind::kFilter, false, "{}", "the chunks; must match all of them", {}},
              {"dim_name", ArgKind::kName, false, "MB", "the tag that numbers the microbatches", {}},
              {"num_microbatches", ArgKind::kCount, true, "", "how many; must divide the batch", {}},
          },
      .example = "{op: split, num_microbatches: 4}",
      .filter_forbids = {},
  };
  return spec;
}

Result<SplitArgs> read_split(const strategy::Directive& directive) {
  SplitArgs args;
  args.filter = strategy::arg_or(directive, "filter", args.filter);
  args.dim_name = strategy::arg_or(directive, "dim_name", args.dim_name);
  PIPER_ASSIGN(args.num_microbatches, strategy::required_arg<int64_t>(directive, "num_microbatches"));
  return args;
}

}  // namespace piper::directives
