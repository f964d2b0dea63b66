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

// Busy: the sum of its runs, on whatever stream.
std::string table_of_ranks(const plan::Bundle& bundle, const Timeline& timeline, const char* unit) {
  std::vector<std::vector<std::string>> rows;
  for (size_t p = 0; p < timeline.spans.size(); ++p) {
    double busy = 0;
    for (const auto& span : timeline.spans[p]) busy += span.end - span.begin;
    char number[2][32];
    std::snprintf(number[0], sizeof number[0], "%g", busy);
    std::snprintf(number[1], sizeof number[1], "%.1f %%", 100 * idle_share(timeline, p));
    rows.push_back({std::to_string(bundle.ranks[p].rank), number[0], number[1]});
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
std::string as_json(const plan::Bundle& bundle, const Timeline& timeline, const char* unit) {
  plan::JsonWriter json;
  json.raw("{");
  json.key("unit");
  json.string(unit);
  json.key("step");
  json.real(timeline.step);
  json.key("ranks");
  json.raw("[");
  for (size_t p = 0; p < timeline.spans.size(); ++p) {
    json.raw(p > 0 ? ",{" : "{");
    double busy = 0;
    for (const auto& span : timeline.spans[p]) busy += span.end - span.begin;
    json.key("rank");
    json.number(bundle.ranks[p].rank);
    json.key("busy");
    json.real(busy);
    json.key("idle");
    json.real(idle_share(timeline, p));
    json.raw("}");
  }
  json.raw("]}\n");
  return json.str();
}

}  // namespace

Result<std::string> simulate_bundle(const std::string& directory, const Costs& costs, bool json) {
  PIPER_ASSIGN(const auto bundle, plan::read_bundle(directory));
  PIPER_ASSIGN(const auto timeline, simulate(bundle, costs));
  if (json) return as_json(bundle, timeline, "units");
  char line[128];
  std::snprintf(line, sizeof line, "step: %g units (forward %g, backward %g)\n", timeline.step, costs.forward,
                costs.backward);
  return line + table_of_ranks(bundle, timeline, "units");
}

Result<std::string> simulate_measured(const std::string& directory, const std::string& profile, const Link& link,
                                      bool json) {
  PIPER_ASSIGN(const auto bundle, plan::read_bundle(directory));
  PIPER_ASSIGN(auto measured, read_profile(bundle, profile));
  measured.link = link;
  PIPER_ASSIGN(const auto timeline, simulate_times(bundle, measured));
  if (json) return as_json(bundle, timeline, "us");
  return step_line(timeline, "runs as measured in " + profile, link) + table_of_ranks(bundle, timeline, "us");
}

Result<std::string> simulate_by_table(const std::string& directory, const std::string& kernel_times, const Link& link,
                                      bool json) {
  PIPER_ASSIGN(const auto bundle, plan::read_bundle(directory));
  PIPER_ASSIGN(const auto times, plan::read_kernel_times(kernel_times));
  PIPER_ASSIGN(auto measured, times_by_table(bundle, times));
  measured.link = link;
  PIPER_ASSIGN(const auto timeline, simulate_times(bundle, measured));
  if (json) return as_json(bundle, timeline, "us");
  RankTime mean;
  for (const RankTime& rank : rank_times(bundle, timeline)) {
    mean.busy += rank.busy / static_cast<double>(bundle.ranks.size());
    mean.communication += rank.communication / static_cast<double>(bundle.ranks.size());
    mean.waiting += rank.waiting / static_cast<double>(bundle.ranks.size());
  }
  char line[160];
  std::snprintf(line, sizeof line, "of a rank: %.6g us kernels, %.6g us exposed transfers, %.6g us waiting\n",
                mean.busy, mean.communication, mean.waiting);
  return step_line(timeline, "kernel times of " + kernel_times, link) + line + table_of_ranks(bundle, timeline, "us");
}

}  // namespace piper::tools
