#include "schemas/timeline/line_costs.h"

#include <algorithm>
#include <map>

#include "schemas/plan/collective_costs.h"
#include "schemas/plan/provenance_text.h"

namespace piper::timeline {
namespace {

using namespace plan;

bool is_message(Kind kind) { return kind == Kind::kSend || kind == Kind::kRecv; }

class Accounts {
 public:
  Accounts(const Bundle& bundle, const Timeline& timeline)
      : bundle_(bundle), timeline_(timeline), causes_(bundle, timeline) {}

  LineCosts settle(const std::vector<CriticalPiece>& path) {
    for (const CriticalPiece& piece : path) line_of(piece.instruction).on_path += piece.end - piece.begin;
    for (size_t p = 0; p < bundle_.ranks.size(); ++p) {
      count_streams(p);
      count_exposed(p);
      count_lost(p, path);
    }
    for (auto& [line, cost] : lines_) {
      cost.line = line;
      costs_.lines.push_back(cost);
    }
    std::stable_sort(costs_.lines.begin(), costs_.lines.end(),
                     [](const LineCost& a, const LineCost& b) { return a.lost > b.lost; });
    return std::move(costs_);
  }

 private:
  LineCost& line_of(const TransferEnd& at) {
    const auto& instruction =
        bundle_.ranks[static_cast<size_t>(at.plan)].instructions[static_cast<size_t>(at.instruction)];
    const auto entry = static_cast<size_t>(instruction.provenance);
    const bool known = instruction.provenance >= 0 && entry < bundle_.provenance.size();
    if (!known) return lines_[""];
    const ProvenanceEntry& origin = bundle_.provenance[entry];
    LineCost& line = lines_[strategy_line(origin)];
    if (line.directive.empty()) line.directive = origin.text.substr(0, origin.text.find(' '));
    return line;
  }
  const Activity& activity(size_t p, size_t i) const { return timeline_.activities[p][i]; }
  static TransferEnd end_at(size_t p, size_t i) { return {static_cast<int32_t>(p), static_cast<int32_t>(i)}; }

  void count_streams(size_t p) {
    const RankPlan& plan = bundle_.ranks[p];
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const Activity& done = activity(p, i);
      LineCost& line = line_of(end_at(p, i));
      line.bytes += sent_bytes(plan, plan.instructions[i].action);
      if (computes(done.kind)) line.kernel += done.end - done.begin;
      if (done.kind == Kind::kWait) line.wait += done.end - done.begin;
      const int32_t transfer = causes_.transfer_of(end_at(p, i));
      if (transfer < 0) continue;
      const double met = std::clamp(timeline_.transfers[static_cast<size_t>(transfer)].begin, done.begin, done.end);
      line.wait += met - done.begin;
      (is_message(done.kind) ? line.message : line.collective) += done.end - met;
    }
  }

  // Where the rank begins and ends to compute (line null), and where its transfers begin and end.
  struct Turn {
    double time = 0;
    int change = 0;
    LineCost* line = nullptr;
  };
  void count_exposed(size_t p) {
    std::vector<Turn> turns;
    const auto add = [&](double begin, double end, LineCost* line) {
      if (end <= begin) return;
      turns.push_back({begin, 1, line});
      turns.push_back({end, -1, line});
    };
    for (size_t i = 0; i < timeline_.activities[p].size(); ++i) {
      const Activity& done = activity(p, i);
      if (computes(done.kind)) add(done.begin, done.end, nullptr);
      const int32_t transfer = causes_.transfer_of(end_at(p, i));
      if (transfer < 0) continue;
      const Transfer& moved = timeline_.transfers[static_cast<size_t>(transfer)];
      add(moved.begin, moved.end, &line_of(end_at(p, i)));
    }
    std::stable_sort(turns.begin(), turns.end(), [](const Turn& a, const Turn& b) { return a.time < b.time; });
    std::map<LineCost*, int> moving;
    int computing = 0, all = 0;
    double since = 0;
    for (const Turn& turn : turns) {
      if (computing == 0 && all > 0)
        for (const auto& [line, count] : moving) line->exposed += (turn.time - since) * count / all;
      since = turn.time;
      if (turn.line == nullptr) {
        computing += turn.change;
        continue;
      }
      all += turn.change;
      auto& of_line = moving[turn.line];
      of_line += turn.change;
      if (of_line == 0) moving.erase(turn.line);
    }
  }

  void count_lost(size_t p, const std::vector<CriticalPiece>& path) {
    std::vector<size_t> runs;
    for (size_t i = 0; i < timeline_.activities[p].size(); ++i)
      if (computes(activity(p, i).kind) && activity(p, i).end > activity(p, i).begin) runs.push_back(i);
    std::stable_sort(runs.begin(), runs.end(),
                     [&](size_t a, size_t b) { return activity(p, a).begin < activity(p, b).begin; });
    double busy_until = 0;
    for (const size_t run : runs) {
      const double begin = activity(p, run).begin;
      if (begin > busy_until) lose(busy_until, begin, causes_.path_to(end_at(p, run), busy_until));
      busy_until = std::max(busy_until, activity(p, run).end);
    }
    if (timeline_.step > busy_until) lose(busy_until, timeline_.step, path);
  }
  // The time from `begin` to `end`, by the pieces that lie in it.
  void lose(double begin, double end, const std::vector<CriticalPiece>& path) {
    double explained = 0;
    for (const CriticalPiece& piece : path) {
      const double from = std::max(begin, piece.begin), to = std::min(end, piece.end);
      if (to <= from) continue;
      line_of(piece.instruction).lost += to - from;
      explained += to - from;
    }
    costs_.unexplained += end - begin - explained;
  }

  const Bundle& bundle_;
  const Timeline& timeline_;
  Causes causes_;
  std::map<std::string, LineCost> lines_;
  LineCosts costs_;
};

}  // namespace

LineCosts line_costs(const Bundle& bundle, const Timeline& timeline, const std::vector<CriticalPiece>& path) {
  return Accounts(bundle, timeline).settle(path);
}

}  // namespace piper::timeline
