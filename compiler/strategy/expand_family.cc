// The table of schedule families: preconditions, layout and rule of each.
#include <string>

#include "compiler/strategy/families/rows.h"

namespace piper::strategy {
namespace {

enum class Layout : uint8_t {
  kOneStage,  // rank r owns stage r
  kLooped,    // rank r owns r, r+R, ...
  kV,         // rank r owns r and 2R-1-r
  kTwoCopies, // rank r owns r and R-1-r, each for one half of the microbatches
};

struct Family {
  std::string_view name;
  Layout layout;
  std::vector<Row> (*rows)(const FamilyShape&);
  int32_t min_microbatches_per_rank;  // M >= this x R
  bool groups_of_ranks;               // M a multiple of R
};

const Family kFamilies[] = {
    {"gpipe", Layout::kOneStage, gpipe_rows, 0, false},
    {"1f1b", Layout::kOneStage, [](const FamilyShape& s) { return one_f_one_b_rows(s, Backward::kFused); }, 0, false},
    {"interleaved_1f1b", Layout::kLooped, [](const FamilyShape& s) { return interleaved_rows(s, Backward::kFused); },
     0, true},
    {"zero_bubble", Layout::kOneStage, [](const FamilyShape& s) { return one_f_one_b_rows(s, Backward::kSplit); }, 0,
     false},
    {"interleaved_zero_bubble", Layout::kLooped,
     [](const FamilyShape& s) { return interleaved_rows(s, Backward::kSplit); }, 0, true},
    {"zb_v", Layout::kV, zb_v_rows, 0, false},
    {"dualpipev", Layout::kV, two_way_v_rows, 2, false},
    {"dualpipe", Layout::kTwoCopies, two_way_rows, 2, false},
};

int32_t owner(Layout layout, int32_t ranks, int32_t stage) {
  switch (layout) {
    case Layout::kOneStage:
    case Layout::kTwoCopies: return stage;
    case Layout::kLooped: return stage % ranks;
    case Layout::kV: return stage < ranks ? stage : 2 * ranks - 1 - stage;
  }
  return 0;
}

Status broken(const Family& family, const std::string& text) {
  return Status::failure("P0231", "the family '" + std::string(family.name) + "' " + text);
}

Status check_stages(const Family& family, const FamilyRequest& request) {
  const int32_t R = request.ranks, S = request.stages;
  const std::string have = "; here are " + std::to_string(S) + " stages on " + std::to_string(R) + " ranks";
  switch (family.layout) {
    case Layout::kOneStage:
      if (S != R) return broken(family, "has one stage per rank" + have + ": use " + std::to_string(S) + " ranks");
      break;
    case Layout::kLooped:
      if (S % R != 0) return broken(family, "needs a number of stages that is a multiple of the ranks" + have);
      break;
    case Layout::kV:
      if (S != 2 * R) return broken(family, "has two stages per rank" + have + ": use " + std::to_string(2 * R) + " stages");
      break;
    case Layout::kTwoCopies:
      if (S != R) return broken(family, "has as many stages as ranks" + have + ": use " + std::to_string(S) + " ranks");
      if (R % 2 != 0) return broken(family, "needs an even number of ranks, not " + std::to_string(R));
      break;
  }
  return {};
}

Status check(const Family& family, const FamilyRequest& request) {
  const int32_t R = request.ranks, S = request.stages, M = request.microbatches;
  if (R < 1 || S < 1 || M < 1) return broken(family, "needs at least one rank, one stage and one microbatch");
  PIPER_RETURN_IF_ERROR(check_stages(family, request));
  const std::string got = "; here are " + std::to_string(M) + " on " + std::to_string(R) + " ranks";
  if (M < family.min_microbatches_per_rank * R) {
    return broken(family, "needs at least " + std::to_string(family.min_microbatches_per_rank * R) + " microbatches" + got);
  }
  if (family.groups_of_ranks && M % R != 0) {
    const int32_t below = M / R * R;
    return broken(family, "needs a number of microbatches that is a multiple of the ranks" + got + ": use " +
                              (below > 0 ? std::to_string(below) + " or " : "") + std::to_string(below + R));
  }
  if (family.layout == Layout::kTwoCopies && M % 2 != 0) {
    return broken(family, "needs an even number of microbatches" + got + ": use " + std::to_string(M + 1));
  }
  if (request.stage_rank.empty()) return {};
  if (request.stage_rank.size() != static_cast<size_t>(S)) {
    return Status::failure("P0232", "the placement names " + std::to_string(request.stage_rank.size()) +
                                        " stages of " + std::to_string(S));
  }
  for (int32_t stage = 0; stage < S; ++stage) {
    const int32_t wanted = owner(family.layout, R, stage);
    if (request.stage_rank[stage] == wanted) continue;
    return Status::failure("P0232", "the family '" + std::string(family.name) + "' has stage " +
                                        std::to_string(stage) + " on rank " + std::to_string(wanted) +
                                        " of the pipeline, but it is placed on rank " +
                                        std::to_string(request.stage_rank[stage]));
  }
  return {};
}

}  // namespace

std::vector<std::string_view> family_names() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.name);
  return names;
}

Result<ScheduleTable> expand_family(std::string_view name, const FamilyRequest& request) {
  for (const Family& family : kFamilies) {
    if (family.name != name) continue;
    PIPER_RETURN_IF_ERROR(check(family, request));
    ScheduleTable table;
    table.rows = family.rows({request.ranks, request.stages, request.microbatches});
    for (int32_t stage = 0; stage < request.stages; ++stage) {
      table.stage_rank.push_back(owner(family.layout, request.ranks, stage));
    }
    return table;
  }
  std::vector<std::string> known;
  std::string list;
  for (const Family& family : kFamilies) {
    known.emplace_back(family.name);
    list += (list.empty() ? "" : ", ") + known.back();
  }
  const std::string near = diag::nearest(std::string(name), known);
  return Status::failure("P0230", "unknown schedule family '" + std::string(name) + "'; the families are " + list +
                                      (near.empty() ? "" : "; did you mean '" + near + "'?"));
}

}  // namespace piper::strategy
