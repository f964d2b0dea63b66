// The space of a search: its points, what --fix leaves of it, and who is next to whom.
#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

#include "compiler/search/group_times.h"
#include "compiler/search/space.h"
#include "compiler/search/stage_costs.h"

namespace piper::search {
namespace {

SpaceLimits four_ranks() {
  SpaceLimits limits;
  limits.ranks = 4;
  limits.ranks_of_node = 2;
  limits.batch = 8;
  limits.most_stages = 4;
  return limits;
}

}  // namespace

TEST_CASE("every point uses all ranks, divides the batch and is there once") {
  const std::vector<Point> points = points_of(four_ranks());
  CHECK(std::set<Point>(points.begin(), points.end()).size() == points.size());
  std::set<std::string> families;
  for (const Point& point : points) {
    INFO(describe(point));
    CHECK(point.ranks() == 4);
    CHECK(8 % (static_cast<int64_t>(point.replicas()) * point.microbatches) == 0);
    CHECK(point.stages() <= 4);
    CHECK(point.tp <= 2);
    CHECK(point.ep == 1);
    families.insert(point.family);
  }
  CHECK(families.size() == 8);
}

TEST_CASE("a model is asked for as many stages as the points can have") {
  SpaceLimits limits = four_ranks();
  limits.most_stages = 1000;
  int32_t most = 0;
  for (const Point& point : points_of(limits)) most = std::max(most, point.stages());
  CHECK(most == most_stages_on(4));
}

TEST_CASE("a fixed choice is the same at all points") {
  SpaceLimits limits = four_ranks();
  REQUIRE(fix("pp=2", limits.fixed).ok());
  REQUIRE(fix("family=zb_v", limits.fixed).ok());
  const std::vector<Point> points = points_of(limits);
  REQUIRE(!points.empty());
  for (const Point& point : points) {
    CHECK(point.pp == 2);
    CHECK(point.family == "zb_v");
  }
}

TEST_CASE("stages that repeat are probed in segments where the point has several devices for them") {
  Point point;
  point.dp = 4;
  CHECK(!shape_of(point, 8).replicated);
  point.repeated = Repeated::kAll;
  CHECK(shape_of(point, 8).replicated);
  point.tp = 2;  // a group of several devices has segments in any case
  CHECK(!shape_of(point, 8).replicated);
  point.tp = point.dp = 1;
  CHECK(!shape_of(point, 8).replicated);
}

TEST_CASE("gradients of dualpipe are summed over both groups that have a stage") {
  // Two nodes of two ranks; both ranks of a node have each stage, and each has a port.
  timeline::Machine machine;
  machine.ranks_per_node = 2;
  machine.inside = {1, 5.0e7, 2};
  machine.between = {8, 1.0e7, 2};
  Point point;
  point.pp = point.dp = 2;
  point.family = "dualpipe";
  point.pipeline_inside = true;
  std::vector<StageCost> stages(2);
  for (StageCost& stage : stages) {
    stage.gradients = 1000;
    stage.gradient_bytes = 4000;
  }
  // A ring of four: twice 2 steps inside of nodes and 1 between, and 3/4 of the bytes twice over two ports.
  CHECK(gradient_times(point, stages, machine, 0).after_last_us[1] == Approx(2 * (2 * 1 + 8) + 300));
  point.family = "1f1b";
  CHECK(gradient_times(point, stages, machine, 0).after_last_us[1] == Approx(2 * 8 + 400));
  // Half of each to the other, and of what is updated two bytes of each element.
  point.divided = Divided::kOptimizer;
  CHECK(gradient_times(point, stages, machine, 0).after_last_us[1] == Approx(200 + 100));
  CHECK(gradient_times(point, stages, machine, 0).links_us[1] == Approx(200 + 100));
  point.divided = Divided::kParameters;
  CHECK(gradient_times(point, stages, machine, 0).after_last_us[1] == Approx(8 + 200));
  CHECK(gradient_times(point, stages, machine, 0).each_links_us[1] == Approx(200));
}

TEST_CASE("a misspelt choice is refused with the names that there are") {
  std::map<std::string, std::string> fixed;
  const Status status = fix("ppp=2", fixed);
  REQUIRE(!status.ok());
  CHECK(status.error().code == "P0272");
  CHECK(status.error().message.find("one of these names: pp, dp, ep, tp") != std::string::npos);
  CHECK(!fix("pp", fixed).ok());
}

TEST_CASE("neighbours differ in one choice and in what follows from it") {
  const std::vector<Point> points = points_of(four_ranks());
  Point best;
  best.dp = 4;
  best.microbatches = 2;
  const auto neighbours = neighbours_of(best, points, [](const Point& point) { return -point.microbatches; });
  std::set<std::string> names;
  for (const auto& [name, point] : neighbours) names.insert(name);
  CHECK(names.count("zero: 1") == 1);
  CHECK(names.count("recompute: all") == 1);
  CHECK(names.count("microbatches: 1") == 1);
  CHECK(names.count("tp: 2") == 1);
  for (const auto& [name, point] : neighbours)
    CHECK(point.microbatches == (name == "zero: 1" ? 2 : point.microbatches));
  // The one of several that costs least.
  for (const auto& [name, point] : neighbours)
    if (name == "pp: 4") CHECK(point.microbatches == 8);
}

}  // namespace piper::search
