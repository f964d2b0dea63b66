#include "compiler/directives/split.h"

#include "compiler/strategy/directive_args.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& split_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "split",
      .summary = "divides the batch into microbatches",
      .doc =
          "With a batch of B samples, microbatch m of M has the samples [mB/M, (m+1)B/M). Losses and "
          "gradients of the microbatches add up to those of the whole batch. For this, the compiler "
          "rewrites each mean as a sum times 1 / (count over the whole batch). Sums stay sums.\n\nIn this "
          "version, a strategy has at most one `split`, and its filter must match every forward chunk.",
      .args =
          {
              {"filter", ArgKind::kFilter, false, "{}", "the chunks; it must match all of them", {}},
              {"dim_name", ArgKind::kName, false, "MB", "the tag that numbers the microbatches", {}},
              {"num_microbatches",
               ArgKind::kCount,
               true,
               "",
               "the number of microbatches; it must divide "
               "the batch",
               {}},
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
