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

Status resolve_split(const strategy::Directive& directive, ir::Step& step, diag::Diagnostics& diags) {
  const auto* filter = strategy::find_arg<strategy::Filter>(directive, "filter");
  const bool of_a_part = filter != nullptr && (!filter->terms.empty() || filter->pass);
  PIPER_ASSIGN(const auto num_microbatches, strategy::required_arg<int64_t>(directive, "num_microbatches"));
  if (step.split || of_a_part || strategy::arg_or_default<std::string>(directive, "dim_name") != "MB") {
    auto error = diags.error("P0224", directive.span);
    error << (step.split ? "a second `split`" : "a `split` of a part of the model");
    error.help("write one {op: split, num_microbatches: N}, without a filter, with dim_name MB");
    return error;
  }
  step.num_microbatches = static_cast<int32_t>(num_microbatches);
  step.split = true;
  if (num_microbatches > 1) step.cut_by = directive.span;
  return Status();
}

}  // namespace piper::directives
