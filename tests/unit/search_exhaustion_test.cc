// Small spaces, every point of them priced: no bound is above the true value, and what a search finds first is the best
// of all.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/unit/search_on.h"

namespace piper::search {
namespace {

// `part`: of the points that compile, how many are to fit; 1: all of them, whatever they need.
void exhaust(const char* model, const std::string& target, int32_t ranks, double part) {
  SearchedSpace space(model, target, ranks);
  std::vector<double> peaks;
  std::vector<Cost> costs;
  size_t refused = 0, loose = 0, cut_experts = 0;
  std::vector<std::pair<double, std::string>> worst;  // bounds that are above the truth, by how much
  for (const Point& point : space.points) {
    const auto cost = space.pricer.price(space.text_of(point));
    const Bound model_bound = space.bounds.by_model(point), cut_bound = space.bounds.by_cut(point),
                stage_bound = space.bounds.by_stages(point);
    if (!cost.ok()) {
      ++refused;
      continue;
    }
    cut_experts += point.ep > 1 ? 1 : 0;
    for (const Bound& bound : {model_bound, cut_bound, stage_bound}) {
      if (bound.why_not != "") worst.push_back({2, describe(point) + ": " + bound.why_not});
      const double time = bound.step_us / cost->step_us,
                   memory = static_cast<double>(bound.peak_bytes) / static_cast<double>(cost->peak_bytes);
      if (time > 1 + 1e-9) worst.push_back({time, describe(point) + ": time"});
      if (memory > 1) worst.push_back({memory, describe(point) + ": memory"});
    }
    loose += stage_bound.step_us < 0.5 * cost->step_us ? 1 : 0;
    peaks.push_back(static_cast<double>(cost->peak_bytes));
    costs.push_back(*cost);
  }
  REQUIRE(costs.size() > 1);
  if (part < 1) {
    std::sort(peaks.begin(), peaks.end());
    space.memory_limit = static_cast<int64_t>(peaks[static_cast<size_t>(part * static_cast<double>(peaks.size()))]);
  }
  double best_us = 0;
  size_t fit = 0;
  for (const Cost& cost : costs) {
    if (cost.peak_bytes > space.memory_limit) continue;
    ++fit;
    best_us = best_us == 0 ? cost.step_us : std::min(best_us, cost.step_us);
  }
  const Explored found = space.explored();
  std::printf(
      "%s, %s, %d ranks: %zu points, %zu refused, %zu fit, %zu with experts on several ranks, bound under half of the "
      "truth at %zu; best %.6g us; found %.6g us with %zu of them compiled whole and %zu bounded by stages\n",
      model, target.c_str(), ranks, space.points.size(), refused, fit, cut_experts, loose, best_us,
      found.fit.empty() ? 0 : found.fit.front().cost.step_us, found.priced, found.bounded);
  std::sort(worst.rbegin(), worst.rend());
  for (size_t i = 0; i < worst.size() && i < 8; ++i)
    std::printf("  bound %.6f times the truth at %s\n", worst[i].first, worst[i].second.c_str());
  std::fflush(stdout);
  CHECK(worst.empty());
  if (part < 1) CHECK(fit < costs.size());
  else CHECK(fit == costs.size());
  CHECK((cut_experts > 0) == (space.limits.experts > 0));
  REQUIRE(!found.fit.empty());
  CHECK(found.complete);
  CHECK(found.fit.front().cost.step_us == best_us);
  CHECK(found.priced < space.points.size());
}

}  // namespace

// `-c MODEL -c TARGET -c RANKS` runs one space alone.
TEST_CASE("all points of small spaces are priced") {
  for (const char* model : {"tiny_gpt.onnx", "tiny_llama.onnx", "tiny_routed.onnx"}) DYNAMIC_SECTION(model) {
      for (const char* target : {"fast links", "slow links", "tight memory"}) DYNAMIC_SECTION(target) {
          for (const int32_t ranks : {4, 8})
            DYNAMIC_SECTION(ranks) exhaust(model, target, ranks, target == std::string("tight memory") ? 0.2 : 1);
        }
    }
}

TEST_CASE("a mixture is one to the search") {
  CHECK(SearchedSpace("tiny_routed.onnx", "fast links", 4).limits.experts == 4);
  CHECK(SearchedSpace("tiny_gpt.onnx", "fast links", 4).limits.experts == 0);
}

}  // namespace piper::search
