#include "tools/piper_plan/cut_collectives.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "schemas/plan/actions.h"
#include "schemas/plan/provenance_text.h"
#include "tools/piper_plan/subject.h"

namespace piper::tools {
namespace {

using namespace plan;

constexpr size_t kShownGroups = 8;

// The reason that an instruction's provenance gives; only collectives of cuts have one.
std::string reason_for(const Bundle& bundle, const Instruction& instruction) {
  if (instruction.provenance < 0) return "";
  const bool collective = std::visit(
      Cases{[](const IsCollective auto&) { return true; }, [](const IsOneOf<Send, Recv> auto&) { return false; },
            [](const IsLaunch auto&) { return false; }, [](const IsEvent auto&) { return false; }},
      instruction.action);
  return collective ? bundle.provenance[static_cast<size_t>(instruction.provenance)].why : "";
}

}  // namespace

std::vector<CutCollectives> cut_collectives(const Bundle& bundle, const RankPlan& plan) {
  std::vector<CutCollectives> all;
  std::vector<std::set<std::string>> reasons;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, size_t> known;
  for (const Instruction& instruction : plan.instructions) {
    const std::string why = reason_for(bundle, instruction);
    if (why.empty()) continue;
    const std::string kind(kActionNames[instruction.action.index()]);
    const std::string& stream = plan.streams[static_cast<size_t>(instruction.stream)].name;
    const std::string line = strategy_line(bundle.provenance[static_cast<size_t>(instruction.provenance)]);
    const auto [at, first] = known.emplace(std::tuple(kind, stream, line, of_any_layer(why)), all.size());
    if (first) {
      all.push_back({kind, stream, line, why});
      reasons.emplace_back();
    }
    CutCollectives& entry = all[at->second];
    ++entry.times;
    entry.bytes += subject_of(plan, instruction.action).bytes;
    reasons[at->second].insert(why);
  }
  for (size_t i = 0; i < all.size(); ++i)
    if (reasons[i].size() > 1) all[i].why = of_any_layer(all[i].why);
  return all;
}

std::vector<double> cut_times(const Bundle& bundle, size_t p, const timeline::Timeline& timeline) {
  std::set<double> times;
  const RankPlan& plan = bundle.ranks[p];
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    if (!reason_for(bundle, plan.instructions[i]).empty()) times.insert(timeline.activities[p][i].end);
  return {times.begin(), times.end()};
}

std::string groups_text(const plan::Cut& cut) {
  std::string text;
  for (size_t g = 0; g < std::min(cut.groups.size(), kShownGroups); ++g) {
    text += g > 0 ? " [" : "[";
    for (size_t p = 0; p < cut.groups[g].size(); ++p) text += (p > 0 ? ", " : "") + std::to_string(cut.groups[g][p]);
    text += "]";
  }
  return text +
         (cut.groups.size() > kShownGroups ? " and " + std::to_string(cut.groups.size() - kShownGroups) + " more" : "");
}

std::string cuts_line(const Manifest& manifest) {
  std::string text;
  for (const plan::Cut& cut : manifest.cuts)
    text += (text.empty() ? "" : "; ") + cut.name + ": ranks " + groups_text(cut) + " share samples";
  return text;
}

}  // namespace piper::tools
