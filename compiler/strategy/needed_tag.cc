#include "compiler/strategy/needed_tag.h"

#include <algorithm>

#include "compiler/strategy/directive_args.h"

namespace piper::strategy {
namespace {

// Microbatches are no regions: each has operators of every tag, and such without one.
bool matches_untagged(const Directive& directive) {
  const auto* filter = find_arg<Filter>(directive, "filter");
  return filter == nullptr || std::all_of(filter->terms.begin(), filter->terms.end(),
                                          [](const FilterTerm& term) { return term.absent || term.tag == "MB"; });
}

}  // namespace

std::optional<std::string> needed_tag(const Strategy& strategy) {
  if (strategy.schedule) return strategy.schedule->stages_tag;
  bool any = false, untagged_have_devices = false, of_all_experts = false;
  for (const Directive& directive : strategy.directives) {
    if (!directive.spec->gives_devices) continue;
    const bool divides = directive.spec->name == "shard";
    // Weights and activations are divided over devices that others give.
    if (divides && arg_or_default<std::string>(directive, "dim") != "expert") continue;
    any = true;
    (divides ? of_all_experts : untagged_have_devices) |= matches_untagged(directive);
  }
  if (of_all_experts || (any && !untagged_have_devices)) return "";
  return std::nullopt;
}

}  // namespace piper::strategy
