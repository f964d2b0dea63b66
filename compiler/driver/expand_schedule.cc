#include "compiler/driver/expand_schedule.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "compiler/directives/directive_table.h"
#include "compiler/directives/place.h"
#include "compiler/directives/split.h"
#include "compiler/strategy/directive_args.h"

namespace piper::driver {
namespace {

using strategy::Directive;

strategy::FilterTerm index_term(const std::string& tag, int64_t index) {
  strategy::FilterTerm term;
  term.tag = tag;
  term.ranges = {{index, index}};
  return term;
}

Directive make_directive(const char* name, const strategy::Schedule& schedule) {
  Directive directive;
  directive.spec = directives::find_spec(name);
  directive.args.resize(directive.spec->args.size());
  directive.arg_spans.assign(directive.spec->args.size(), schedule.span);
  directive.span = schedule.span;
  directive.made_by = "schedule";
  return directive;
}

void set_arg(Directive& directive, std::string_view name, strategy::ArgValue value) {
  directive.args[strategy::arg_index(*directive.spec, name)] = std::move(value);
}

// The device list a user's `place` gives to stage `index` of `tag`, or nullptr.
const strategy::Devices* placed_devices(const std::vector<Directive>& list, const std::string& tag, int64_t index) {
  for (const Directive& directive : list) {
    if (directive.spec->name != "place") continue;
    const auto* filter = strategy::find_arg<strategy::Filter>(directive, "filter");
    if (filter == nullptr) continue;
    for (const strategy::FilterTerm& term : filter->terms)
      if (term.tag == tag && (term.any || term.matches(index))) return strategy::find_arg<strategy::Devices>(directive, "devices");
  }
  return nullptr;
}

Directive order_of_row(const std::vector<strategy::Slot>& row, const strategy::Schedule& schedule) {
  strategy::FilterGroups groups;
  for (const strategy::Slot& slot : row) {
    std::vector<strategy::Filter> group;
    for (const strategy::Action& action : slot) {
      strategy::Filter filter;
      filter.terms = {index_term(schedule.stages_tag, action.stage), index_term("MB", action.microbatch)};
      filter.pass = action.pass;
      filter.span = schedule.span;
      group.push_back(std::move(filter));
    }
    groups.push_back(std::move(group));
  }
  Directive order = make_directive("order", schedule);
  set_arg(order, "filters", std::move(groups));
  return order;
}

}  // namespace

Result<int32_t> choose_microbatches(const strategy::Strategy& strategy, bool& split, diag::Diagnostics& diags) {
  split = false;
  int32_t count = 1;
  const Directive* seen = nullptr;
  for (const Directive& directive : strategy.directives) {
    if (directive.spec->name != "split") continue;
    PIPER_ASSIGN(const directives::SplitArgs args, directives::read_split(directive));
    if (seen != nullptr || !args.filter.terms.empty() || args.filter.pass || args.dim_name != "MB") {
      auto error = diags.error("P0224", directive.span);
      error << (seen != nullptr ? "a second `split`" : "a `split` of a part of the model");
      error.help("write one {op: split, num_microbatches: N}, without a filter, with dim_name MB");
      return error;
    }
    seen = &directive;
    count = static_cast<int32_t>(args.num_microbatches);
    split = true;
  }
  if (strategy.schedule) {
    if (strategy.schedule->microbatches) {
      count = static_cast<int32_t>(*strategy.schedule->microbatches);
    } else if (!strategy.schedule->family.empty()) {
      return diags.error("P0206", strategy.schedule->span) << "'schedule' needs 'microbatches'";
    }
    split = true;
  }
  return count;
}

int32_t microbatches_of(const strategy::ScheduleTable& table) {
  int32_t count = 0;
  for (const auto& row : table.rows)
    for (const strategy::Slot& slot : row)
      for (const strategy::Action& action : slot) count = std::max(count, action.microbatch + 1);
  return count;
}

Result<strategy::ScheduleTable> read_schedule_table(const strategy::Schedule& schedule, const std::string& folder, diag::Diagnostics& diags) {
  const std::string path = schedule.csv.front() == '/' || folder.empty() ? schedule.csv : folder + "/" + schedule.csv;
  std::ifstream file(path);
  if (!file) return diags.error("P0101", schedule.family_span) << "the table '" << schedule.csv << "' cannot be read";
  std::ostringstream text;
  text << file.rdbuf();
  auto table = strategy::parse_csv(text.str());
  if (!table.ok()) return diags.error(table.error().code, schedule.family_span) << schedule.csv << ": " << table.error().message;
  return table;
}

Result<ExpandedSchedule> expand_schedule(const strategy::Strategy& strategy, const std::vector<ir::Chunk>& chunks, int32_t num_microbatches,
                                         const strategy::ScheduleTable* given, diag::Diagnostics& diags) {
  ExpandedSchedule expanded;
  if (!strategy.schedule) return expanded;
  const strategy::Schedule& schedule = *strategy.schedule;
  int32_t stages = 0;
  for (const ir::Chunk& chunk : chunks)
    for (const ir::TagValue& tag : chunk.tags)
      if (tag.tag == schedule.stages_tag) stages = std::max(stages, tag.index + 1);
  if (stages == 0) {
    auto error = diags.error("P0203", schedule.span);
    error << "no node has tag '" << schedule.stages_tag << "', by which the schedule finds its stages";
    error.help("annotate the stages, e.g. {tag: " + schedule.stages_tag + ", stages: 4, balance: flops}");
    return error;
  }
  // Ranks of the family: the user's groups in the order of their first stage.
  std::vector<strategy::Devices> groups;
  strategy::FamilyRequest request;
  request.stages = stages;
  request.microbatches = num_microbatches;
  bool placed = false;
  for (int32_t s = 0; s < stages; ++s) {
    const strategy::Devices* devices = placed_devices(strategy.directives, schedule.stages_tag, s);
    if (devices == nullptr) {
      if (placed) {
        auto error = diags.error("P0219", schedule.span);
        error << "stage " << s << " has no `place`, but earlier stages have";
        error.help("place every stage by its " + schedule.stages_tag + ", or none: then the schedule places them");
        return error;
      }
      continue;
    }
    placed = true;
    auto known = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.ranks == devices->ranks; });
    if (known == groups.end()) known = groups.insert(groups.end(), *devices);
    request.stage_rank.push_back(static_cast<int32_t>(known - groups.begin()));
  }
  if (placed && static_cast<int32_t>(request.stage_rank.size()) != stages)
    return diags.error("P0219", schedule.span) << "some stages have a `place`, others have none";
  if (!placed) {
    const int64_t virtual_stages = schedule.virtual_stages.value_or(1);
    if (!schedule.ranks.empty()) {
      groups = schedule.ranks;
    } else {
      for (int32_t r = 0; r < stages / std::max<int64_t>(virtual_stages, 1); ++r) groups.push_back({{r}, schedule.span});
    }
  }
  request.ranks = static_cast<int32_t>(groups.size());
  if (given != nullptr) {
    if (static_cast<int32_t>(given->stage_rank.size()) != stages)
      return diags.error("P0233", schedule.family_span) << "the table has " << given->stage_rank.size() << " stages, the model has " << stages;
    if (!placed && schedule.ranks.empty()) {
      groups.clear();
      for (int32_t r = 0; r < static_cast<int32_t>(given->rows.size()); ++r) groups.push_back({{r}, schedule.span});
    }
    for (int32_t s = 0; s < stages; ++s)
      if (placed && request.stage_rank[s] != given->stage_rank[s])
        return diags.error("P0232", schedule.family_span) << "the table runs stage " << s << " in row " << given->stage_rank[s]
                                                          << ", but its `place` makes it group " << request.stage_rank[s];
    if (groups.size() != given->rows.size())
      return diags.error("P0232", schedule.family_span) << "the table has " << given->rows.size() << " rows for " << groups.size() << " device groups";
    expanded.table = *given;
  } else {
    auto table = strategy::expand_family(schedule.family, request);
    if (!table.ok()) {
      auto error = diags.error(table.error().code, schedule.family_span);
      error << table.error().message;
      return error;
    }
    expanded.table = std::move(table).value();
  }
  if (!placed)
    for (int32_t s = 0; s < stages; ++s) {
      const strategy::Devices& devices = groups[expanded.table.stage_rank[s]];
      strategy::Filter filter;
      filter.terms = {index_term(schedule.stages_tag, s)};
      filter.span = schedule.span;
      Directive place = make_directive("place", schedule);
      set_arg(place, "filter", filter);
      set_arg(place, "devices", devices);
      expanded.placement.push_back(std::move(place));
      if (devices.ranks.size() < 2) continue;
      Directive replicate = make_directive("replicate", schedule);
      set_arg(replicate, "filter", filter);
      set_arg(replicate, "devices", devices);
      expanded.placement.push_back(std::move(replicate));
    }
  for (const auto& row : expanded.table.rows)
    if (row.size() > 1) expanded.orders.push_back(order_of_row(row, schedule));
  return expanded;
}

}  // namespace piper::driver
