#include "compiler/tune/pass_table.h"

#include <algorithm>

#include "compiler/strategy/directive_args.h"
#include "compiler/strategy/filter.h"
#include "compiler/tune/strategy_text.h"

namespace piper::tune {
namespace {

using strategy::Action;
using strategy::Directive;
using strategy::Filter;
using strategy::FilterGroups;
using strategy::FilterTerm;
using strategy::Pass;
using strategy::ScheduleTable;
using strategy::Slot;

std::optional<int32_t> index_of(const FilterTerm& term) {
  const bool one =
      !term.any && !term.absent && term.ranges.size() == 1 && term.ranges[0].first == term.ranges[0].second;
  return one ? std::optional<int32_t>(static_cast<int32_t>(term.ranges[0].first)) : std::nullopt;
}

// {TAG: s, MB: m, PASS: p}; sets `tag`, or requires that it is this one.
std::optional<Action> action_of(const Filter& filter, std::string& tag) {
  if (!filter.pass || filter.in_sequence || filter.terms.empty() || filter.terms.size() > 2) return std::nullopt;
  if (filter.terms.size() == 1) {
    const auto m = index_of(filter.terms[0]);
    if (!m || filter.terms[0].tag != "MB" || !tag.empty()) return std::nullopt;
    return Action{0, *m, *filter.pass};
  }
  const bool first_is_microbatch = filter.terms[0].tag == "MB";
  const FilterTerm& stage = filter.terms[first_is_microbatch ? 1 : 0];
  const FilterTerm& microbatch = filter.terms[first_is_microbatch ? 0 : 1];
  const auto s = index_of(stage), m = index_of(microbatch);
  if (!s || !m || microbatch.tag != "MB" || stage.tag == "MB" || (!tag.empty() && tag != stage.tag))
    return std::nullopt;
  tag = stage.tag;
  return Action{*s, *m, *filter.pass};
}

// Finds the ranks of the passes that orders name once, in one row each.
bool fill_ranks(ScheduleTable& table) {
  int32_t stages = 0, microbatches = 0;
  for (const auto& row : table.rows)
    for (const Slot& slot : row)
      for (const Action& action : slot) {
        stages = std::max(stages, action.stage + 1);
        microbatches = std::max(microbatches, action.microbatch + 1);
      }
  strategy::fill_stage_ranks(table, stages, microbatches);
  for (const auto& ranks : table.stage_rank)
    if (std::find(ranks.begin(), ranks.end(), -1) != ranks.end()) return false;
  for (size_t r = 0; r < table.rows.size(); ++r)
    for (const Slot& slot : table.rows[r])
      for (const Action& action : slot)
        if (table.stage_rank[static_cast<size_t>(action.stage)][static_cast<size_t>(action.microbatch)] !=
            static_cast<int32_t>(r))
          return false;
  return true;
}

std::optional<PassTable> of_orders(const std::vector<Directive>& directives) {
  PassTable passes;
  for (const Directive& directive : directives) {
    if (directive.spec->name != "order") continue;
    const auto* groups = strategy::find_arg<FilterGroups>(directive, "filters");
    if (groups == nullptr) return std::nullopt;
    auto& row = passes.table.rows.emplace_back();
    for (const auto& group : *groups) {
      Slot& slot = row.emplace_back();
      for (const Filter& filter : group) {
        const auto action = action_of(filter, passes.tag);
        if (!action) return std::nullopt;
        slot.push_back(*action);
      }
    }
  }
  if (passes.table.rows.empty() || !fill_ranks(passes.table)) return std::nullopt;
  return passes;
}

// Microbatch after microbatch, which is the order of plans without one.
PassTable of_microbatches(int32_t count) {
  PassTable passes;
  auto& row = passes.table.rows.emplace_back();
  for (int32_t m = 0; m < count; ++m) {
    row.push_back({{0, m, Pass::kF}});
    row.push_back({{0, m, Pass::kB}});
  }
  fill_ranks(passes.table);
  return passes;
}

std::string order_of(const std::vector<Slot>& row, const std::string& tag) {
  std::string text = "{op: order, filters: [";
  for (size_t k = 0; k < row.size(); ++k) {
    text += k > 0 ? ", [" : "[";
    for (size_t i = 0; i < row[k].size(); ++i) {
      const Action& action = row[k][i];
      text += i > 0 ? ", {" : "{";
      if (!tag.empty()) text += tag + ": " + std::to_string(action.stage) + ", ";
      text +=
          "MB: " + std::to_string(action.microbatch) + ", PASS: " + std::string(strategy::pass_name(action.pass)) + "}";
    }
    text += "]";
  }
  return text + "]}";
}
std::vector<std::string> orders_of(const ScheduleTable& table, const std::string& tag) {
  std::vector<std::string> orders;
  for (const auto& row : table.rows)
    if (row.size() > 1) orders.push_back(order_of(row, tag));
  return orders;
}

}  // namespace

std::optional<PassTable> pass_table_of(const driver::Compilation& c) {
  const auto& directives = c.strategy.directives;
  const bool ordered = std::any_of(directives.begin(), directives.end(),
                                   [](const Directive& directive) { return directive.spec->name == "order"; });
  if (!c.strategy.schedule && ordered) return of_orders(directives);
  if (!c.strategy.schedule && c.module.step.num_microbatches > 1)
    return of_microbatches(c.module.step.num_microbatches);
  if (!c.strategy.schedule) return std::nullopt;
  return PassTable{c.schedule.table, c.strategy.schedule->stages_tag, true};
}

Result<std::string> with_passes(const std::string& text, const driver::Compilation& c, const PassTable& old,
                                const ScheduleTable& changed, const std::string& comment) {
  std::vector<std::string> yaml = orders_of(changed, old.tag);
  if (old.by_schedule) {
    std::vector<std::string> all = {"{op: split, num_microbatches: " + std::to_string(c.module.step.num_microbatches) +
                                    "}"};
    for (const auto* list : {&c.schedule.placement, &c.schedule.replication})
      for (const Directive& directive : *list) all.push_back(to_string(directive));
    all.insert(all.end(), yaml.begin(), yaml.end());
    return with_directives_for_schedule(text, all, comment);
  }
  std::string edited = text;
  PIPER_ASSIGN(auto orders, directives_of(edited, "order"));
  std::reverse(orders.begin(), orders.end());
  for (const size_t directive : orders) {
    PIPER_ASSIGN(edited, without_directive(edited, directive, ""));
  }
  return with_directives(edited, yaml, comment);
}

}  // namespace piper::tune
