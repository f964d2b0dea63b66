#include "tools/piper_plan/schedule_rows.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "schemas/plan/names.h"
#include "schemas/timeline/stages.h"
#include "tools/piper_plan/cut_collectives.h"

namespace piper::tools {
namespace {

using namespace plan;
using timeline::Span;
using timeline::Stages;

// The digits at a stage's end, or its whole name.
std::string short_stage(const std::string& stage) {
  size_t at = stage.size();
  while (at > 0 && stage[at - 1] >= '0' && stage[at - 1] <= '9') --at;
  return at == stage.size() ? stage + ":" : stage.substr(at);
}

// Pieces of a stage that follow one another are one cell.
std::vector<Cell> cells_of(const Bundle& bundle, const RankPlan& plan, const std::vector<Span>& spans,
                           const Stages& stages) {
  std::set<std::string> present;
  std::vector<Cell> passes;
  for (const auto& span : spans) {
    const auto& run = std::get<Run>(plan.instructions[static_cast<size_t>(span.instruction)].action);
    const ChunkPass& of = bundle.programs[static_cast<size_t>(run.program)].of.value();
    const int32_t microbatch = plan.arguments[static_cast<size_t>(run.arguments)].microbatch;
    passes.push_back(
        {"", stages.stage_of(of.chunk), pass_name(of.pass).back(), std::max(microbatch, 0), span.begin, span.end});
    present.insert(passes.back().stage);
  }
  std::vector<Cell> cells;
  for (Cell& cell : passes) {
    cell.label = (present.size() > 1 ? short_stage(cell.stage) : "") + cell.pass + std::to_string(cell.microbatch);
    constexpr double kRounding = 1e-9;
    if (!cells.empty() && cells.back().label == cell.label && std::abs(cells.back().end - cell.begin) < kRounding)
      cells.back().end = cell.end;
    else cells.push_back(std::move(cell));
  }
  return cells;
}

}  // namespace

std::vector<ScheduleRow> schedule_rows(const Bundle& bundle, const timeline::Timeline& timeline) {
  const Stages stages(bundle);
  std::vector<ScheduleRow> rows;
  for (size_t p = 0; p < bundle.ranks.size(); ++p)
    rows.push_back({{bundle.ranks[p].rank},
                    cells_of(bundle, bundle.ranks[p], timeline.spans[p], stages),
                    cut_times(bundle, p, timeline)});
  return rows;
}

std::vector<ScheduleRow> merge_like_rows(std::vector<ScheduleRow> rows) {
  std::vector<ScheduleRow> merged;
  for (ScheduleRow& row : rows) {
    const auto like = std::find_if(merged.begin(), merged.end(), [&row](const ScheduleRow& other) {
      return other.cells == row.cells && other.marks == row.marks;
    });
    if (like == merged.end()) merged.push_back(std::move(row));
    else like->ranks.insert(like->ranks.end(), row.ranks.begin(), row.ranks.end());
  }
  return merged;
}

double shortest_cell(const std::vector<ScheduleRow>& rows) {
  double shortest = 0;
  for (const ScheduleRow& row : rows)
    for (const Cell& cell : row.cells) {
      const double length = cell.end - cell.begin;
      if (length > 0 && (shortest == 0 || length < shortest)) shortest = length;
    }
  return shortest;
}

}  // namespace piper::tools
