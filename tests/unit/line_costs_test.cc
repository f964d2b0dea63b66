// What lines of a strategy cost in a simulated and in a measured step.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "schemas/timeline/assess.h"
#include "schemas/timeline/line_costs.h"
#include "schemas/timeline/measured_timeline.h"
#include "schemas/timeline/play.h"
#include "tests/unit/plan_bundle_example.h"

namespace piper::timeline {
namespace {

// Runs take 10. A message takes 4 where it has its link, the one resource, alone.
class SharedLink : public Pricing {
 public:
  size_t resources() const override { return 1; }
  Task local(size_t, size_t) const override { return {10, 0}; }
  Task transfer(std::span<const TransferEnd>) const override { return {0, 4, {{0, 1}}}; }
};

// Runs are of line 1, messages of line 2 by a pass, and everything else of no line.
plan::Bundle with_lines(plan::Bundle bundle) {
  bundle.provenance = {{"s.yaml:1:3", "place at s.yaml:1:3"},
                       {"insert_transfers@s.yaml:2:3@s.yaml:1:3", "place at s.yaml:2:3, made by insert_transfers"}};
  for (auto& plan : bundle.ranks)
    for (auto& instruction : plan.instructions.edit()) {
      const auto kind = static_cast<Kind>(instruction.action.index());
      instruction.provenance = kind == Kind::kRun ? 0 : kind == Kind::kSend || kind == Kind::kRecv ? 1 : -1;
    }
  return bundle;
}

Timeline played(const plan::Bundle& bundle) {
  const auto matching = verify::match(bundle);
  REQUIRE(matching.ok());
  return play(bundle, *matching, SharedLink());
}

LineCosts costs_of(const plan::Bundle& bundle, const Timeline& timeline) {
  return line_costs(bundle, timeline, critical_path(bundle, timeline));
}
const LineCost& line(const LineCosts& costs, const std::string& name) {
  const auto found =
      std::find_if(costs.lines.begin(), costs.lines.end(), [&](const LineCost& cost) { return cost.line == name; });
  REQUIRE(found != costs.lines.end());
  return *found;
}

}  // namespace

// Two ranks, two microbatches. Rank 0: forwards 0 to 20, then nothing until the second message is back at 58; rank 1
// from 14 on: two forwards and two backwards, then nothing from 54 to the step's end at 68.
TEST_CASE("what a rank loses is of the lines that it waited for") {
  const auto bundle = with_lines(plan::example::pipeline(2, 2));
  const Timeline timeline = played(bundle);
  REQUIRE(timeline.step == 68);
  const auto costs = costs_of(bundle, timeline);
  const LineCost &runs = line(costs, "s.yaml:1:3"), &messages = line(costs, "s.yaml:2:3");
  CHECK(runs.directive == "place");
  CHECK(runs.kernel == 8 * 10);
  CHECK(messages.message == 2 * 4 * 4);  // both ends of four messages
  CHECK(messages.kernel == 0);
  CHECK(messages.bytes == 4 * 64);
  CHECK(runs.on_path + messages.on_path == 68);
  CHECK(messages.on_path == 8);
  CHECK(costs.unexplained == 0);
  CHECK(costs.lines.front().line == "s.yaml:1:3");
}

// Whatever the shape of the step: nothing is counted twice, and nothing is left out.
TEST_CASE("lost and exposed times of lines add up to those of ranks") {
  for (const bool alternate : {false, true}) {
    const auto bundle = with_lines(plan::example::pipeline(4, 6, alternate));
    const Timeline timeline = played(bundle);
    const auto costs = costs_of(bundle, timeline);
    double exposed = 0, waiting = 0, lost = costs.unexplained, exposed_of_lines = 0;
    for (const RankTime& rank : rank_times(bundle, timeline)) {
      exposed += rank.communication;
      waiting += rank.waiting;
    }
    for (const LineCost& cost : costs.lines) {
      lost += cost.lost;
      exposed_of_lines += cost.exposed;
    }
    CHECK(exposed > 0);
    CHECK(exposed_of_lines == Approx(exposed));
    CHECK(lost == Approx(exposed + waiting));
    for (size_t k = 1; k < costs.lines.size(); ++k) CHECK(costs.lines[k - 1].lost >= costs.lines[k].lost);
  }
}

// The run's times are those of the simulated step, a tenth later each: nothing of the account changes.
TEST_CASE("a measured step is accounted for as a simulated one") {
  const auto bundle = with_lines(plan::example::pipeline(2, 2));
  const Timeline simulated = played(bundle);
  Measured measured;
  for (const auto& rank : simulated.activities) {
    measured.begin_us.emplace_back();
    measured.end_us.emplace_back();
    for (const Activity& activity : rank) {
      measured.begin_us.back().push_back(1.1 * activity.begin);
      measured.end_us.back().push_back(1.1 * activity.end);
    }
  }
  const auto run = measured_timeline(bundle, measured);
  REQUIRE(run.ok());
  CHECK(run->step == Approx(1.1 * 68));
  const auto a = costs_of(bundle, simulated), b = costs_of(bundle, *run);
  REQUIRE(a.lines.size() == b.lines.size());
  for (size_t k = 0; k < a.lines.size(); ++k) {
    CHECK(b.lines[k].line == a.lines[k].line);
    CHECK(b.lines[k].lost == Approx(1.1 * a.lines[k].lost));
    CHECK(b.lines[k].exposed == Approx(1.1 * a.lines[k].exposed));
    CHECK(b.lines[k].on_path == Approx(1.1 * a.lines[k].on_path));
    CHECK(b.lines[k].wait == Approx(1.1 * a.lines[k].wait));
  }
}

// A sender that is done before its receiver has come did not wait for it, and what it waited for lies before it.
TEST_CASE("measured times that contradict the plan end a path") {
  const auto bundle = with_lines(plan::example::pipeline(2, 2));
  Measured measured;
  for (const auto& rank : bundle.ranks) {
    measured.begin_us.emplace_back(rank.instructions.size(), 0.0);
    measured.end_us.emplace_back(rank.instructions.size(), 5.0);
  }
  const auto run = measured_timeline(bundle, measured);
  REQUIRE(run.ok());
  const auto costs = costs_of(bundle, *run);
  const double on_path = std::accumulate(costs.lines.begin(), costs.lines.end(), 0.0,
                                         [](double sum, const LineCost& cost) { return sum + cost.on_path; });
  CHECK(on_path <= 5);
}

}  // namespace piper::timeline
