#include "tools/piper_plan/diff_meaning.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "schemas/base/byte_text.h"
#include "schemas/plan/json_writer.h"
#include "schemas/timeline/kernel_work.h"
#include "schemas/timeline/priced.h"
#include "tools/piper_plan/match_lines.h"
#include "tools/piper_plan/subject.h"
#include "tools/piper_plan/target.h"
#include "tools/piper_plan/number_text.h"
#include "tools/piper_plan/text_table.h"

namespace piper::tools {
namespace {

using namespace plan;

// In hundredths of the time in which one rank would do the products of the model once. Of plans without any, what one
// microbatch costs is that part of the step which it is.
Result<timeline::Timeline> play_work(const Bundle& bundle) {
  const timeline::RouterLoad load = timeline::balanced_load(bundle);
  std::vector<double> flops;  // [program]
  for (const Program& program : bundle.programs) {
    flops.push_back(0);
    for (const KernelCall& call : program.calls) flops.back() += timeline::kernel_work(call, load).flops;
  }
  const double whole = bundle.manifest.model_flops;
  timeline::Measured measured;
  double done = 0;
  int64_t microbatches = 1;
  for (const RankPlan& plan : bundle.ranks) {
    auto& costs = measured.cost_us.emplace_back(plan.instructions.size());
    std::map<int32_t, int64_t> runs;
    for (size_t i = 0; i < costs.size(); ++i) {
      const auto* const run = std::get_if<Run>(&plan.instructions[i].action);
      if (run == nullptr) continue;
      microbatches = std::max(microbatches, ++runs[run->program]);
      done += costs[i] = whole > 0 ? 100 * flops[static_cast<size_t>(run->program)] / whole : 0;
    }
  }
  if (done > 0) return timeline::simulate_times(bundle, measured);
  const double part = 1 / static_cast<double>(microbatches);
  return timeline::simulate(bundle, {part, 2 * part});
}

struct PlayedStep {
  double time = 0, idle = 0;
};
Result<PlayedStep> play_step(const Bundle& bundle, const StepCosts& costs) {
  const auto of_kinds = [](const timeline::Kinds& kinds, const timeline::Timeline& step) {
    return PlayedStep{step.step, bubble(kinds, step)};
  };
  if (costs.units) {
    PIPER_ASSIGN(const auto kinds, timeline::kinds_of(bundle));
    return of_kinds(kinds, timeline::simulate(kinds, *costs.units));
  }
  if (costs.target.empty()) {
    PIPER_ASSIGN(const auto step, play_work(bundle));
    return PlayedStep{step.step, bubble(step)};
  }
  PIPER_ASSIGN(const TargetMachine target, read_target(costs.target, costs.kernel_times, bundle));
  PIPER_ASSIGN(const auto kinds, timeline::kinds_on(bundle, target.machine));
  return of_kinds(kinds, timeline::simulate_on(kinds, timeline::Priced(kinds, target.machine, 1, target.kernel_times)));
}

Result<StepFigures> figures_of(const Bundle& bundle, const StepCosts& costs) {
  PIPER_ASSIGN(const PlayedStep step, play_step(bundle, costs));
  StepFigures figures;
  figures.step = step.time;
  figures.idle = step.idle;
  for (const RankPlan& rank : bundle.ranks) figures.instructions += static_cast<int64_t>(rank.instructions.size());
  for (const RankSummary& rank : bundle.manifest.ranks) {
    figures.peak_bytes = std::max(figures.peak_bytes, rank.peak_bytes);
    figures.sent_bytes += rank.sent_bytes;
  }
  return figures;
}

// An instruction in names that both bundles have: what it is, what it works on, where; and which one of these it is.
std::vector<std::string> names_of(const RankPlan& plan) {
  std::map<std::string, int64_t> seen;
  std::vector<std::string> names;
  for (const Instruction& instruction : plan.instructions) {
    const Subject subject = subject_of(plan, instruction.action);
    std::string name = std::to_string(instruction.action.index()) + "\n" + subject.name + "\n" + subject.object + "\n" +
                       plan.streams[static_cast<size_t>(instruction.stream)].name;
    name += "\n" + std::to_string(seen[name]++);
    names.push_back(std::move(name));
  }
  return names;
}

// Whether each of `positions`, which are all different, lies on one longest ascending subsequence (M. L. Fredman, "On
// computing the length of longest increasing subsequences", 1975).
std::vector<bool> on_longest_ascent(const std::vector<size_t>& positions) {
  std::vector<size_t> ends;  // [length - 1]: the index whose position is the least so far
  std::vector<size_t> before(positions.size(), positions.size());
  for (size_t k = 0; k < positions.size(); ++k) {
    const auto at = std::lower_bound(ends.begin(), ends.end(), positions[k],
                                     [&](size_t index, size_t position) { return positions[index] < position; });
    if (at != ends.begin()) before[k] = *(at - 1);
    if (at == ends.end()) ends.push_back(k);
    else *at = k;
  }
  std::vector<bool> lies(positions.size());
  for (size_t k = ends.empty() ? positions.size() : ends.back(); k < positions.size(); k = before[k]) lies[k] = true;
  return lies;
}

class StepDiff {
 public:
  StepDiff(const Bundle& a, const Bundle& b) : a_(a), b_(b), lines_(a, b) {}

  void compare(Meaning& meaning) {
    for (size_t p = 0; p < std::max(a_.ranks.size(), b_.ranks.size()); ++p)
      if (rank(p)) meaning.ranks.push_back(static_cast<int32_t>(p));
    for (auto& [line, change] : changes_) {
      change.line = line;
      meaning.lines.push_back(change);
    }
  }

 private:
  // Whether anything came, went or moved. A rank that one side lacks has no instructions there.
  bool rank(size_t p) {
    static const RankPlan kNone;
    const RankPlan &a = p < a_.ranks.size() ? a_.ranks[p] : kNone, &b = p < b_.ranks.size() ? b_.ranks[p] : kNone;
    const auto old_names = names_of(a), new_names = names_of(b);
    std::map<std::string, size_t> old_place;
    for (size_t i = 0; i < old_names.size(); ++i) old_place.emplace(old_names[i], i);
    std::vector<bool> kept(old_names.size());
    std::vector<size_t> positions, indices;  // of instructions in both
    bool changed = false;
    for (size_t i = 0; i < new_names.size(); ++i) {
      const auto found = old_place.find(new_names[i]);
      if (found == old_place.end()) {
        ++changes_[lines_.of_b(b.instructions[i].provenance)].added;
        changed = true;
        continue;
      }
      kept[found->second] = true;
      positions.push_back(found->second);
      indices.push_back(i);
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i]) continue;
      ++changes_[lines_.of_a(a.instructions[i].provenance)].removed;
      changed = true;
    }
    const auto in_order = on_longest_ascent(positions);
    for (size_t k = 0; k < positions.size(); ++k) {
      if (in_order[k]) continue;
      ++changes_[lines_.of_b(b.instructions[indices[k]].provenance)].moved;
      changed = true;
    }
    return changed;
  }

  const Bundle &a_, &b_;
  MatchedLines lines_;
  std::map<std::string, LineChange> changes_;
};

// "+12.5 %"; "" where there is none.
std::string change(double a, double b) {
  if (std::abs(b - a) <= 1e-9 * std::abs(a)) return "";  // sums of the same times in another order
  return a == 0 ? "new" : number_text(100 * (b - a) / a, "%+.1f %%");
}

std::vector<std::vector<std::string>> figure_rows(const Meaning& m) {
  const StepFigures &a = m.a, &b = m.b;
  const auto idle = [](double share) { return number_text(100 * share, "%.1f %%"); };
  const auto count = [](int64_t value) { return static_cast<double>(value); };
  return {{m.unit, number_text(a.step), number_text(b.step), change(a.step, b.step)},
          {"idle", idle(a.idle), idle(b.idle),
           std::abs(b.idle - a.idle) <= 1e-9 ? "" : number_text(100 * (b.idle - a.idle), "%+.1f points")},
          {"peak of a rank", human_bytes(a.peak_bytes), human_bytes(b.peak_bytes),
           change(count(a.peak_bytes), count(b.peak_bytes))},
          {"sent by all ranks", human_bytes(a.sent_bytes), human_bytes(b.sent_bytes),
           change(count(a.sent_bytes), count(b.sent_bytes))},
          {"instructions", std::to_string(a.instructions), std::to_string(b.instructions),
           change(count(a.instructions), count(b.instructions))}};
}
std::vector<std::vector<std::string>> line_rows(const Meaning& m) {
  std::vector<std::vector<std::string>> rows;
  for (const LineChange& line : m.lines)
    rows.push_back({line.line, std::to_string(line.removed), std::to_string(line.added), std::to_string(line.moved)});
  return rows;
}

const std::vector<std::string> kFigures = {"", "before", "after", "change"};
const std::vector<std::string> kLines = {"line of the strategy", "removed", "added", "moved"};

}  // namespace

Result<Meaning> compare_steps(const Bundle& a, const Bundle& b, const StepCosts& costs) {
  Meaning meaning;
  if (costs.units) {
    meaning.kind = "units";
    meaning.unit = "step, units of one microbatch's forward";
  } else if (costs.target.empty()) {
    meaning.unit = "step (100: all model FLOPs on one rank)";
  } else {
    meaning.kind = "us";
    meaning.unit = "step, us on " + std::filesystem::path(costs.target).stem().string();
  }
  PIPER_ASSIGN(meaning.a, figures_of(a, costs));
  PIPER_ASSIGN(meaning.b, figures_of(b, costs));
  StepDiff(a, b).compare(meaning);
  return meaning;
}

std::string meaning_as_text(const Meaning& meaning) {
  std::string text;
  for (const std::string& line : meaning.strategy) text += line + "\n";
  text += (text.empty() ? "" : "\n") + format_table(kFigures, figure_rows(meaning));
  if (meaning.lines.empty()) return text + "  no instruction came, went or moved\n";
  return text + "\n" + format_table(kLines, line_rows(meaning)) + "  on " +
         (meaning.ranks.size() == 1 ? "rank " : "ranks ") + rank_list(meaning.ranks) + "\n";
}

std::string meaning_as_markdown(const Meaning& meaning) {
  std::string text;
  for (const std::string& line : meaning.strategy) text += "- `" + line + "`\n";
  text += (text.empty() ? "" : "\n") + markdown_table(kFigures, figure_rows(meaning));
  if (meaning.lines.empty()) return text + "\nNo instruction came, went or moved.\n";
  return text + "\n" + markdown_table(kLines, line_rows(meaning)) + "\nInstructions of " +
         (meaning.ranks.size() == 1 ? "rank " : "ranks ") + rank_list(meaning.ranks) + ".\n";
}

std::string meaning_as_json(const Meaning& meaning, bool differs) {
  JsonWriter json;
  json.raw("{");
  json.member("differs", differs);
  const auto pair = [&json](const char* name, auto a, auto b) {
    json.key(name);
    json.raw("[");
    if constexpr (std::is_same_v<decltype(a), double>) json.real(a), json.raw(","), json.real(b);
    else json.number(a), json.raw(","), json.number(b);
    json.raw("]");
  };
  json.key("strategy");
  json.raw("[");
  for (size_t i = 0; i < meaning.strategy.size(); ++i) {
    json.raw(i > 0 ? "," : "");
    json.string(meaning.strategy[i]);
  }
  json.raw("]");
  json.key("unit");
  json.string(meaning.kind);
  pair("step", meaning.a.step, meaning.b.step);
  pair("idle", meaning.a.idle, meaning.b.idle);
  pair("peak_bytes", meaning.a.peak_bytes, meaning.b.peak_bytes);
  pair("sent_bytes", meaning.a.sent_bytes, meaning.b.sent_bytes);
  pair("instructions", meaning.a.instructions, meaning.b.instructions);
  json.member("ranks", meaning.ranks);
  json.key("lines");
  json.raw("[");
  for (size_t i = 0; i < meaning.lines.size(); ++i) {
    const LineChange& line = meaning.lines[i];
    json.raw(i > 0 ? ",{" : "{");
    json.member("line", line.line);
    for (const auto& [name, value] :
         {std::pair{"removed", line.removed}, {"added", line.added}, {"moved", line.moved}}) {
      json.member(name, value);
    }
    json.raw("}");
  }
  json.raw("]}\n");
  return json.str();
}

}  // namespace piper::tools
