#include "compiler/driver/expand_schedule.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "compiler/directives/directive_table.h"
#include "compiler/driver/schedule_ranks.h"
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

// A `place` for every part of a stage that the user's directives leave open, and a `replicate` where nobody keeps its
// copies equal.
void place_stages(const strategy::Schedule& schedule, const StagePlaces& places,
                  const std::vector<strategy::Devices>& ranks, ExpandedSchedule& expanded) {
  const strategy::ScheduleTable& table = expanded.table;
  for (int32_t s = 0; s < places.num_stages(); ++s) {
    const size_t M = table.stage_rank[s].size();
    std::vector<bool> done(ranks.size(), false);
    for (size_t first = 0; first < M; ++first) {
      const int32_t rank = table.stage_rank[s][first];
      if (done[rank]) continue;
      done[rank] = true;
      std::vector<int32_t> open;
      for (size_t m = first; m < M; ++m)
        if (table.stage_rank[s][m] == rank && places.claims[s][m] == nullptr) open.push_back(static_cast<int32_t>(m));
      strategy::Filter filter;
      filter.terms = {index_term(schedule.stages_tag, s)};
      filter.span = schedule.span;
      if (ranks[rank].ranks.size() > 1 && !places.replicated[s]) {
        Directive replicate = make_directive("replicate", schedule);
        set_arg(replicate, "filter", filter);
        set_arg(replicate, "devices", ranks[rank]);
        expanded.replication.push_back(std::move(replicate));
      }
      if (open.empty()) continue;
      if (open.size() < M) {
        strategy::FilterTerm microbatches;
        microbatches.tag = "MB";
        microbatches.ranges = as_ranges(open);
        filter.terms.push_back(std::move(microbatches));
      }
      Directive place = make_directive("place", schedule);
      set_arg(place, "filter", filter);
      set_arg(place, "devices", ranks[rank]);
      expanded.placement.push_back(std::move(place));
    }
  }
}

}  // namespace

Status number_microbatches(const strategy::Schedule& schedule, ir::Step& step, diag::Diagnostics& diags) {
  if (schedule.microbatches) step.num_microbatches = static_cast<int32_t>(*schedule.microbatches);
  else if (!schedule.family.empty())
    return diags.error("P0206", schedule.span).help("add microbatches: N") << "'schedule' needs 'microbatches'";
  step.split = true;
  if (schedule.microbatches.value_or(1) > 1 && step.cut_by.line == 0) step.cut_by = schedule.span;
  return Status();
}

int32_t microbatches_of(const strategy::ScheduleTable& table) {
  int32_t count = 0;
  for (const auto& row : table.rows)
    for (const strategy::Slot& slot : row)
      for (const strategy::Action& action : slot) count = std::max(count, action.microbatch + 1);
  return count;
}

Result<strategy::ScheduleTable> read_schedule_table(const strategy::Schedule& schedule, const std::string& folder,
                                                    diag::Diagnostics& diags) {
  const std::string path = schedule.csv.front() == '/' || folder.empty() ? schedule.csv : folder + "/" + schedule.csv;
  std::ifstream file(path);
  if (!file) return diags.error("P0101", schedule.family_span) << "the table '" << schedule.csv << "' cannot be read";
  std::ostringstream text;
  text << file.rdbuf();
  auto table = strategy::parse_csv(text.str());
  if (!table.ok())
    return diags.error(table.error().code, schedule.family_span) << schedule.csv << ": " << table.error().message;
  const int32_t count = microbatches_of(*table);
  if (schedule.microbatches && *schedule.microbatches != count)
    return diags.error("P0233", schedule.span)
           << "the table has " << count << " microbatches, 'microbatches' says " << *schedule.microbatches;
  return table;
}

Result<ExpandedSchedule> expand_schedule(const strategy::Schedule& schedule, const directives::Resolution& draft,
                                         const strategy::ScheduleTable* given, diag::Diagnostics& diags) {
  ExpandedSchedule expanded;
  PIPER_ASSIGN(const StagePlaces places, read_stage_places(schedule, draft, diags));
  const size_t num_ranks = schedule.ranks.empty() ? places.groups.size() : schedule.ranks.size();
  if (given != nullptr) {
    if (static_cast<int32_t>(given->stage_rank.size()) != places.num_stages())
      return diags.error("P0233", schedule.family_span)
             << "the table has " << given->stage_rank.size() << " stages, the model has " << places.num_stages();
    if (num_ranks > 0 && num_ranks != given->rows.size())
      return diags.error("P0232", schedule.family_span)
             << "the table has " << given->rows.size() << " rows for " << num_ranks
             << (num_ranks == 1 ? " device group" : " device groups");
    expanded.table = *given;
  } else {
    strategy::FamilyRequest request;
    request.ranks = static_cast<int32_t>(num_ranks);
    request.stages = places.num_stages();
    request.microbatches = draft.step.num_microbatches;
    request.virtual_stages = static_cast<int32_t>(schedule.virtual_stages.value_or(0));
    auto table = strategy::expand_family(schedule.family, request);
    if (!table.ok()) return diags.error(table.error().code, schedule.family_span) << table.error().message;
    expanded.table = std::move(table).value();
  }
  PIPER_ASSIGN(const std::vector<strategy::Devices> ranks, assign_ranks(schedule, expanded.table, places, diags));
  place_stages(schedule, places, ranks, expanded);
  for (const auto& row : expanded.table.rows)
    if (row.size() > 1) expanded.orders.push_back(order_of_row(row, schedule));
  return expanded;
}

}  // namespace piper::driver
