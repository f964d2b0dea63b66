#include <algorithm>
#include <cmath>
#include <cstdio>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/json_writer.h"
#include "schemas/timeline/assess.h"
#include "tools/piper_plan/commands.h"
#include "tools/piper_plan/number_text.h"
#include "tools/piper_plan/text_table.h"

namespace piper::tools {
namespace {

using namespace timeline;

struct RankRow {
  int32_t rank = 0;
  double busy = 0;  // the sum of its runs, on whatever stream
  double idle = 0;  // 0 to 1
};
RankRow row_of(int32_t rank, const Timeline& timeline, size_t played) {
  RankRow row{rank, 0, idle_share(timeline, played)};
  for (const auto& span : timeline.spans[played]) row.busy += span.end - span.begin;
  return row;
}
std::vector<RankRow> rows_of(const plan::Bundle& bundle, const Timeline& timeline) {
  std::vector<RankRow> rows;
  for (size_t p = 0; p < timeline.spans.size(); ++p) rows.push_back(row_of(bundle.ranks[p].rank, timeline, p));
  return rows;
}
// One for each rank of the whole bundle, from a step of kinds.bundle.
std::vector<RankRow> rows_of(const Kinds& kinds, const Timeline& timeline) {
  std::vector<RankRow> rows;
  for (size_t rank = 0; rank < kinds.kind_of.size(); ++rank)
    if (kinds.kind_of[rank] >= 0)
      rows.push_back(row_of(static_cast<int32_t>(rank), timeline, static_cast<size_t>(kinds.kind_of[rank])));
  return rows;
}

std::string table_of(const std::vector<RankRow>& ranks, const char* unit) {
  std::vector<std::vector<std::string>> rows;
  for (const RankRow& rank : ranks) {
    char number[2][32];
    std::snprintf(number[0], sizeof number[0], "%g", rank.busy);
    std::snprintf(number[1], sizeof number[1], "%.1f %%", 100 * rank.idle);
    rows.push_back({std::to_string(rank.rank), number[0], number[1]});
  }
  return format_table({"rank", std::string("busy ") + unit, "idle"}, merge_ranks(rows));
}

std::string step_line(const Timeline& timeline, const std::string& times, const Link& link) {
  char line[160];
  std::snprintf(line, sizeof line, "; links: %g us", link.latency_us);
  std::string text = "step: " + number_text(timeline.step) + " us (" + times + line;
  if (link.bytes_per_second > 0) {
    std::snprintf(line, sizeof line, ", %g bytes/s", link.bytes_per_second);
    text += line;
  }
  return text + ")\n";
}

// {"unit","step","ranks":[{"rank","busy","idle"}]}, idle from 0 to 1.
std::string as_json(const std::vector<RankRow>& rows, double step, const char* unit) {
  plan::JsonWriter json;
  json.raw("{");
  json.key("unit");
  json.string(unit);
  json.key("step");
  json.real(step);
  json.key("ranks");
  json.raw("[");
  for (const RankRow& row : rows) {
    json.raw(&row == rows.data() ? "{" : ",{");
    json.key("rank");
    json.number(row.rank);
    json.key("busy");
    json.real(row.busy);
    json.key("idle");
    json.real(row.idle);
    json.raw("}");
  }
  json.raw("]}\n");
  return json.str();
}

}  // namespace

Result<std::string> simulate_bundle(const std::string& directory, const Costs& costs, bool json) {
  PIPER_ASSIGN(const auto bundle, plan::read_bundle(directory));
  PIPER_ASSIGN(const Kinds kinds, kinds_of(bundle));
  const Timeline timeline = simulate(kinds, costs);
  if (json) return as_json(rows_of(kinds, timeline), timeline.step, "units");
  char line[128];
  std::snprintf(line, sizeof line, "step: %g units (forward %g, backward %g)\n", timeline.step, costs.forward,
                costs.backward);
  return line + table_of(rows_of(kinds, timeline), "units");
}

Result<std::string> simulate_measured(const std::string& directory, const std::string& profile, const Link& link,
                                      bool json) {
  PIPER_ASSIGN(const auto bundle, plan::read_bundle(directory));
  PIPER_ASSIGN(auto measured, read_profile(bundle, profile));
  measured.link = link;
  PIPER_ASSIGN(const auto timeline, simulate_times(bundle, measured));
  if (json) return as_json(rows_of(bundle, timeline), timeline.step, "us");
  return step_line(timeline, "runs as measured in " + profile, link) + table_of(rows_of(bundle, timeline), "us");
}

Result<std::string> simulate_by_table(const std::string& directory, const std::string& kernel_times, const Link& link,
                                      bool json) {
  PIPER_ASSIGN(const auto bundle, plan::read_bundle(directory));
  PIPER_ASSIGN(const auto times, plan::read_kernel_times(kernel_times));
  PIPER_ASSIGN(auto measured, times_by_table(bundle, times));
  measured.link = link;
  PIPER_ASSIGN(const auto timeline, simulate_times(bundle, measured));
  if (json) return as_json(rows_of(bundle, timeline), timeline.step, "us");
  RankTime mean;
  for (const RankTime& rank : rank_times(bundle, timeline)) {
    mean.busy += rank.busy / static_cast<double>(bundle.ranks.size());
    mean.communication += rank.communication / static_cast<double>(bundle.ranks.size());
    mean.waiting += rank.waiting / static_cast<double>(bundle.ranks.size());
  }
  char line[160];
  std::snprintf(line, sizeof line, "of a rank: %.6g us kernels, %.6g us exposed transfers, %.6g us waiting\n",
                mean.busy, mean.communication, mean.waiting);
  return step_line(timeline, "kernel times of " + kernel_times, link) + line +
         table_of(rows_of(bundle, timeline), "us");
}

}  // namespace piper::tools
