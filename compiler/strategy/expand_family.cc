// The table of schedule families: preconditions, layout and rule of each.
#include <string>

#include "compiler/strategy/families/rows.h"

namespace piper::strategy {
namespace {

enum class Layout : uint8_t {
  kOneStage,   // rank r owns stage r
  kLooped,     // rank r owns r, r+R, ...
  kV,          // rank r owns r and 2R-1-r
  kTwoCopies,  // rank r owns r and R-1-r, each for one half of the microbatches
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
    {"interleaved_1f1b", Layout::kLooped, [](const FamilyShape& s) { return interleaved_rows(s, Backward::kFused); }, 0,
     true},
    {"zero_bubble", Layout::kOneStage, [](const FamilyShape& s) { return one_f_one_b_rows(s, Backward::kSplit); }, 0,
     false},
    {"interleaved_zero_bubble", Layout::kLooped,
     [](const FamilyShape& s) { return interleaved_rows(s, Backward::kSplit); }, 0, true},
    {"zb_v", Layout::kV, zb_v_rows, 0, false},
    {"dualpipev", Layout::kV, two_way_v_rows, 2, false},
    {"dualpipe", Layout::kTwoCopies, two_way_rows, 2, false},
};

Status broken(const Family& family, const std::string& text) {
  return Status::failure("P0231", "the family '" + std::string(family.name) + "' " + text);
}

// Stages that one rank owns where neither the ranks nor `virtual` tell.
int32_t stages_per_rank(Layout layout) {
  switch (layout) {
    case Layout::kOneStage:
    case Layout::kTwoCopies: return 1;
    case Layout::kLooped:
    case Layout::kV: return 2;
  }
  return 1;
}

std::string counted(int64_t number, const char* noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

// The number of ranks, checked against the stages.
Result<int32_t> check_stages(const Family& family, const FamilyRequest& request) {
  const int32_t S = request.stages;
  const bool looped = family.layout == Layout::kLooped;
  const int32_t own = stages_per_rank(family.layout);
  if (!looped && request.virtual_stages > 0 && request.virtual_stages != own) {
    return broken(family, "has " + counted(own, "stage") + " per rank, so 'virtual' cannot be " +
                              std::to_string(request.virtual_stages));
  }
  const int32_t v = request.virtual_stages > 0 ? request.virtual_stages : own;
  if (request.ranks == 0 && S % v != 0) {
    const bool guessed = looped && request.virtual_stages == 0;
    return broken(family, (guessed ? "takes two stages per rank where neither 'ranks' nor 'virtual' says more"
                                   : "has " + counted(v, "stage") + " per rank") +
                              (S == 1 ? "; here is " : "; here are ") + counted(S, "stage") + ": use " +
                              (S > v ? std::to_string(S / v * v) + " or " : "") + std::to_string((S / v + 1) * v));
  }
  const int32_t R = request.ranks > 0 ? request.ranks : S / v;
  const std::string have = "; here are " + counted(S, "stage") + " on " + counted(R, "rank");
  switch (family.layout) {
    case Layout::kOneStage:
      if (S != R) return broken(family, "has one stage per rank" + have + ": use " + counted(S, "rank"));
      break;
    case Layout::kLooped:
      if (S % R != 0) return broken(family, "needs a number of stages that is a multiple of the ranks" + have);
      if (request.virtual_stages > 0 && S != R * request.virtual_stages)
        return broken(family, "has " + counted(S / R, "stage") + " per rank, 'virtual' says " +
                                  std::to_string(request.virtual_stages) + have);
      break;
    case Layout::kV:
      if (S != 2 * R)
        return broken(family, "has two stages per rank" + have + ": use " + std::to_string(2 * R) + " stages" +
                                  (S % 2 == 0 ? " or " + counted(S / 2, "rank") : ""));
      break;
    case Layout::kTwoCopies:
      if (S != R) return broken(family, "has as many stages as ranks" + have + ": use " + counted(S, "rank"));
      if (R % 2 != 0) return broken(family, "needs an even number of ranks, not " + std::to_string(R));
      break;
  }
  return R;
}

Status check_microbatches(const Family& family, int32_t R, int32_t M) {
  const std::string got = "; here are " + std::to_string(M) + " on " + counted(R, "rank");
  if (M < family.min_microbatches_per_rank * R) {
    return broken(family,
                  "needs at least " + std::to_string(family.min_microbatches_per_rank * R) + " microbatches" + got);
  }
  if (family.groups_of_ranks && M % R != 0) {
    const int32_t below = M / R * R;
    return broken(family, "needs a number of microbatches that is a multiple of the ranks" + got + ": use " +
                              (below > 0 ? std::to_string(below) + " or " : "") + std::to_string(below + R));
  }
  if (family.layout == Layout::kTwoCopies && M % 2 != 0) {
    return broken(family, "needs an even number of microbatches" + got + ": use " + std::to_string(M + 1));
  }
  return {};
}

}  // namespace

std::vector<std::string_view> family_names() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.name);
  return names;
}

void fill_stage_ranks(ScheduleTable& table, int32_t stages, int32_t microbatches) {
  table.stage_rank.assign(stages, std::vector<int32_t>(microbatches, -1));
  for (size_t rank = 0; rank < table.rows.size(); ++rank)
    for (const Slot& slot : table.rows[rank])
      for (const Action& action : slot) table.stage_rank[action.stage][action.microbatch] = static_cast<int32_t>(rank);
}

Result<ScheduleTable> expand_family(std::string_view name, const FamilyRequest& request) {
  for (const Family& family : kFamilies) {
    if (family.name != name) continue;
    if (request.ranks < 0 || request.stages < 1 || request.microbatches < 1 || request.virtual_stages < 0)
      return broken(family, "needs at least one rank, one stage and one microbatch");
    PIPER_ASSIGN(const int32_t ranks, check_stages(family, request));
    PIPER_RETURN_IF_ERROR(check_microbatches(family, ranks, request.microbatches));
    ScheduleTable table;
    table.rows = family.rows({ranks, request.stages, request.microbatches});
    fill_stage_ranks(table, request.stages, request.microbatches);
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
