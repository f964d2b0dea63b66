#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "compiler/directives/recompute.h"
#include "compiler/ir/layer_of.h"
#include "compiler/strategy/directive_args.h"
#include "compiler/tune/pass_table.h"
#include "compiler/tune/pass_times.h"
#include "compiler/tune/proposals.h"
#include "compiler/tune/strategy_text.h"

namespace piper::tune {
namespace {

using strategy::Directive;
using strategy::Filter;
using strategy::FilterTerm;
using strategy::Globs;

// Shares of layers: fine ones of what is repeated already, else coarse ones.
constexpr int kSixteenths = 16, kQuarters = 4;

template <class T>
Directive with(Directive directive, std::string_view name, T value) {
  const size_t at = strategy::arg_index(*directive.spec, name);
  directive.args[at] = std::move(value);
  return directive;
}
Directive without(Directive directive, std::string_view name) {
  return with(std::move(directive), name, std::monostate());
}

// "*.mlp" where several layers have a module of this name right below their number.
std::vector<std::string> modules_of_layers(const driver::Compilation& c) {
  const ir::Graph& graph = c.module.graph();
  std::vector<std::string> names;  // in the order of the model
  std::map<std::string, std::set<std::string_view>> layers_with;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    if (op.phase != ir::Phase::kForward) continue;
    const std::string_view path = graph.scope(op.scope), layer = ir::layer_of(path);
    if (layer.empty() || layer.size() == path.size()) continue;
    const std::string_view rest = path.substr(layer.size() + 1);
    const std::string name(rest.substr(0, rest.find('.')));
    std::set<std::string_view>& layers = layers_with[name];
    if (layers.empty()) names.push_back(name);
    layers.insert(layer);
  }
  std::vector<std::string> globs;
  for (const std::string& name : names)
    if (layers_with[name].size() > 1) globs.push_back("*." + name);
  return globs;
}

// What may be repeated of the chunks of a directive: everything, operators of a kind, modules; of all layers. With
// `directive`'s modules also those and one more.
std::vector<Directive> of_other_operators(const Directive& directive, const std::vector<std::string>& modules) {
  const Directive all = without(without(without(directive, "ops"), "modules"), "layers");
  std::vector<Directive> others = {all};
  for (const char* ops : {"all_but_products", "attention"}) others.push_back(with(all, "ops", std::string(ops)));
  for (const std::string& glob : modules) others.push_back(with(all, "modules", Globs{{glob}, {diag::Span()}}));
  if (const auto* known = strategy::find_arg<Globs>(directive, "modules"))
    for (const std::string& glob : modules) {
      Globs more = *known;
      const auto at = std::find(more.globs.begin(), more.globs.end(), glob);
      if (at == more.globs.end()) {
        more.globs.push_back(glob);
        more.spans.emplace_back();
      } else if (more.globs.size() > 1) {
        more.spans.erase(more.spans.begin() + (at - more.globs.begin()));
        more.globs.erase(at);
      }
      others.push_back(with(all, "modules", std::move(more)));
    }
  return others;
}

// The same of fewer layers, by this part of all, of fewer stages or microbatches.
std::vector<Directive> of_less(const Directive& directive, int parts, const std::string& tag, int32_t microbatches) {
  std::vector<Directive> less;
  const double layers = strategy::arg_or_default<double>(directive, "layers");
  for (int k = parts - 1; k > 0; --k)
    if (const double share = static_cast<double>(k) / parts; share < layers)
      less.push_back(with(directive, "layers", share));
  const auto* written = strategy::find_arg<Filter>(directive, "filter");
  const Filter filter = written == nullptr ? Filter() : *written;
  const auto names = [&](std::string_view name) {
    return std::any_of(filter.terms.begin(), filter.terms.end(), [&](const FilterTerm& t) { return t.tag == name; });
  };
  for (size_t t = 0; t < filter.terms.size(); ++t) {
    const FilterTerm& term = filter.terms[t];
    if (term.tag != tag || term.any || term.absent || term.ranges.empty()) continue;
    const auto with_ranges = [&](const auto& change) {
      Filter fewer = filter;
      change(fewer.terms[t].ranges);
      if (!fewer.terms[t].ranges.empty()) less.push_back(with(directive, "filter", std::move(fewer)));
    };
    with_ranges([](auto& ranges) {
      if (ranges.front().first++ == ranges.front().second) ranges.erase(ranges.begin());
    });
    with_ranges([](auto& ranges) {
      if (ranges.back().second-- == ranges.back().first) ranges.pop_back();
    });
  }
  if (microbatches < 2 || names("MB")) return less;
  FilterTerm all_but_last, every_other;
  all_but_last.tag = every_other.tag = "MB";
  all_but_last.ranges = {{0, microbatches - 2}};
  for (int32_t m = 0; m < microbatches; m += 2) every_other.ranges.emplace_back(m, m);
  for (FilterTerm* const term : {&all_but_last, &every_other}) {
    Filter some = filter;
    some.terms.push_back(*term);
    less.push_back(with(directive, "filter", std::move(some)));
  }
  return less;
}

// The stages of ranks that are over the limit, as a filter; nothing where there are no stages, or all are.
std::optional<Filter> stages_over_limit(const Trial& trial, const std::optional<PassTable>& passes) {
  if (!passes || passes->tag.empty()) return std::nullopt;
  const plan::Bundle& bundle = trial.compilation->emitted.bundle;
  std::set<int32_t> stages;
  for (size_t r = 0; r < bundle.ranks.size(); ++r)
    if (bundle.manifest.ranks[r].peak_bytes > trial.limit_bytes)
      for (const int32_t stage : stages_of(bundle, bundle.ranks[r], passes->tag)) stages.insert(stage);
  if (stages.empty() || stages.size() == passes->table.stage_rank.size()) return std::nullopt;
  FilterTerm term;
  term.tag = passes->tag;
  for (const int32_t stage : stages) term.ranges.emplace_back(stage, stage);
  Filter filter;
  filter.terms.push_back(std::move(term));
  return filter;
}

}  // namespace

std::vector<Proposal> recomputations(const Trial& trial) {
  std::vector<Proposal> proposals;
  const driver::Compilation& c = *trial.compilation;
  const auto passes = pass_table_of(c);
  const std::vector<std::string> modules = modules_of_layers(c);
  std::vector<const Directive*> written;
  for (const Directive& directive : c.strategy.directives)
    if (directive.spec->name == "recompute") written.push_back(&directive);
  auto places = directives_of(trial.text, "recompute");
  if (!places.ok() || places->size() != written.size()) return proposals;  // a part of them is not in this text
  for (size_t k = 0; k < written.size(); ++k) {
    const std::string old = strategy::to_string(*written[k]);
    std::vector<Directive> others = of_other_operators(*written[k], modules);
    if (trial.excess_bytes == 0) {
      proposals.push_back({"without " + old, [&trial, at = (*places)[k]](const std::string& comment) {
                             return without_directive(trial.text, at, comment);
                           }});
      const auto less = [&](const Directive& directive, int parts) {
        return of_less(directive, parts, passes ? passes->tag : "", c.module.step.num_microbatches);
      };
      for (size_t i = 0, count = others.size(); i < count; ++i)
        for (Directive& one : less(others[i], kQuarters)) others.push_back(std::move(one));
      for (Directive& one : less(*written[k], kSixteenths)) others.push_back(std::move(one));
    }
    for (const Directive& other : others) {
      const std::string yaml = strategy::to_string(other);
      if (yaml == old) continue;
      proposals.push_back({old + " -> " + yaml, [&trial, at = (*places)[k], yaml](const std::string& comment) {
                             return with_directive_replaced(trial.text, at, yaml, comment);
                           }});
    }
  }
  if (trial.excess_bytes == 0) return proposals;
  std::vector<Filter> filters;
  if (auto stages = stages_over_limit(trial, passes)) filters.push_back(std::move(*stages));
  filters.emplace_back();
  for (const Filter& filter : filters) {
    Directive added;
    added.spec = &directives::recompute_spec();
    added.args.resize(added.spec->args.size());
    for (const Directive& one : of_other_operators(with(added, "filter", filter), modules)) {
      const std::string yaml = strategy::to_string(one);
      proposals.push_back({"with " + yaml, [&trial, yaml](const std::string& comment) {
                             return with_directives(trial.text, {yaml}, comment);
                           }});
    }
  }
  return proposals;
}

}  // namespace piper::tune
