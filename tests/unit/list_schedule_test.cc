// Tables by list scheduling: what they keep, and how long they are.
#include <catch2/catch.hpp>
#include <map>

#include "compiler/tune/list_schedule.h"

namespace piper::tune {
namespace {

using namespace strategy;

// For a plan that ran one forward and one backward of every stage: they took 1 and 2. No message took any time.
PassTimes unit_times(int32_t stages) {
  plan::Bundle bundle;
  plan::RankPlan rank;
  timeline::Timeline timeline;
  timeline.activities.emplace_back();
  double now = 0;
  for (int32_t s = 0; s < stages; ++s) {
    bundle.manifest.chunks.push_back({"c" + std::to_string(s), "", {{"PP", s}}});
    for (const auto& [pass, takes] : {std::pair{plan::Pass::kForward, 1.0}, {plan::Pass::kBackward, 2.0}}) {
      const auto index = static_cast<int32_t>(bundle.programs.size());
      bundle.programs.push_back({"", {}, 0, {}, plan::ChunkPass{s, pass, 1}});
      rank.arguments.edit().push_back({"", {}, 0});
      rank.instructions.edit().push_back({0, plan::Run{index, index, {}}});
      timeline.activities[0].push_back({timeline::Kind::kRun, 0, now, now + takes});
      now += takes;
    }
  }
  bundle.ranks.push_back(std::move(rank));
  return PassTimes(bundle, timeline, "PP", stages);
}

ScheduleTable family(const char* name, int32_t ranks, int32_t stages, int32_t microbatches) {
  const auto table = expand_family(name, {ranks, stages, microbatches});
  REQUIRE(table.ok());
  return *table;
}

std::map<std::tuple<int32_t, int32_t, Pass>, int> passes_of(const ScheduleTable& table) {
  std::map<std::tuple<int32_t, int32_t, Pass>, int> passes;
  for (const auto& row : table.rows)
    for (const Slot& slot : row)
      for (const Action& a : slot) ++passes[{a.stage, a.microbatch, a.pass}];
  return passes;
}

using Options = ListScheduleOptions;

}  // namespace

TEST_CASE("halves of backwards are halves of what they take") {
  const PassTimes times = unit_times(2);
  CHECK(times.of(1, Pass::kF).alone() == 1);
  CHECK(times.of(1, Pass::kB).alone() == 2);
  CHECK(times.of(0, Pass::kBI).alone() == 1);
  CHECK(times.of(0, Pass::kBW).alone() == 1);
  CHECK(times.message() == 0);
}

// Nothing is lost, nothing changes its rank, and passes of one kind of a stage keep their sequence, which is that in
// which gradients are added.
TEST_CASE("a list schedule has the passes of its table, in the same sequence") {
  for (const auto& given : {family("1f1b", 4, 4, 8), family("interleaved_1f1b", 2, 4, 4), family("zb_v", 2, 4, 6),
                            family("dualpipev", 2, 4, 6), family("dualpipe", 4, 4, 8), family("gpipe", 2, 2, 4)}) {
    const PassTimes times = unit_times(static_cast<int32_t>(given.stage_rank.size()));
    for (const int32_t more : {-3, 0, 2})
      for (const auto overlap : {Options::Overlap::kNone, Options::Overlap::kOpposite, Options::Overlap::kAny})
        for (const auto urgent : {Options::Urgent::kBackward, Options::Urgent::kLongestPath}) {
          const Options options{urgent, overlap, Options::Backward::kAsGiven, more};
          const auto made = list_schedule(given, times, options);
          if (overlap == Options::Overlap::kNone) CHECK(passes_of(made) == passes_of(given));
          CHECK(made.rows == list_schedule(given, times, options).rows);
          for (size_t r = 0; r < made.rows.size(); ++r) {
            std::map<std::pair<int32_t, int>, int32_t> last, last_given;
            std::map<std::pair<int32_t, int>, std::vector<int32_t>> sequence, sequence_given;
            const auto add = [](const auto& row, auto& into) {
              for (const Slot& slot : row)
                for (const Action& a : slot) {
                  if (a.pass != Pass::kBW) into[{a.stage, a.pass == Pass::kF ? 0 : 1}].push_back(a.microbatch);
                  if (a.pass == Pass::kBW || a.pass == Pass::kB) into[{a.stage, 2}].push_back(a.microbatch);
                }
            };
            add(made.rows[r], sequence);
            add(given.rows[r], sequence_given);
            CHECK(sequence == sequence_given);
          }
        }
  }
}

TEST_CASE("as many forwards are in flight as the table has, and so many more") {
  const auto given = family("1f1b", 4, 4, 12);
  CHECK(most_in_flight(given) == std::vector<int32_t>{4, 3, 2, 1});
  const PassTimes times = unit_times(4);
  for (const int32_t more : {0, 1, 3}) {
    const auto most = most_in_flight(list_schedule(
        given, times, {Options::Urgent::kLongestPath, Options::Overlap::kNone, Options::Backward::kAsGiven, more}));
    for (int32_t r = 0; r < 4; ++r) CHECK(most[static_cast<size_t>(r)] <= 4 - r + more);
    CHECK(most[0] == 4 + more);
  }
}

TEST_CASE("backwards are taken apart, and whole where they share a slot") {
  const auto given = family("1f1b", 2, 2, 4);
  const PassTimes times = unit_times(2);
  const auto halves = passes_of(list_schedule(
      given, times, {Options::Urgent::kBackward, Options::Overlap::kNone, Options::Backward::kHalves, 0}));
  CHECK(halves.size() == 2 * 4 * 3);
  CHECK(halves.count({0, 0, Pass::kB}) == 0);
  const auto slots = list_schedule(
      given, times, {Options::Urgent::kBackward, Options::Overlap::kOpposite, Options::Backward::kHalves, 1});
  bool shared = false;
  for (const auto& row : slots.rows)
    for (const Slot& slot : row) shared |= slot.size() == 2;
  CHECK(shared);
}

}  // namespace piper::tune
