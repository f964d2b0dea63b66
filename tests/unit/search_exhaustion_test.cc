// Small spaces, every point of them priced: no bound is above the true value, and what a search finds first is the best
// of all.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdio>
#include <map>

#include "tests/unit/search_on.h"

namespace piper::search {
namespace {

void exhaust(const char* model, const std::string& target, int32_t ranks, double memory) {
  SearchedSpace space(model, target, ranks, memory);
  std::map<Point, Cost> costs;
  double best_us = 0;
  size_t refused = 0, loose = 0;
  std::vector<std::pair<double, std::string>> worst;  // bounds that are above the truth, by how much
  for (const Point& point : space.points) {
    const auto cost = space.pricer.price(space.text_of(point));
    const Bound model_bound = space.bounds.by_model(point), cut_bound = space.bounds.by_cut(point),
                stage_bound = space.bounds.by_stages(point);
    if (!cost.ok()) {
      ++refused;
      continue;
    }
    for (const Bound& bound : {model_bound, cut_bound, stage_bound}) {
      if (bound.why_not != "") worst.push_back({2, describe(point) + ": " + bound.why_not});
      const double time = bound.step_us / cost->step_us,
                   memory = static_cast<double>(bound.peak_bytes) / static_cast<double>(cost->peak_bytes);
      if (time > 1 + 1e-9) worst.push_back({time, describe(point) + ": time"});
      if (memory > 1) worst.push_back({memory, describe(point) + ": memory"});
    }
    loose += stage_bound.step_us < 0.5 * cost->step_us ? 1 : 0;
    if (cost->peak_bytes <= space.memory_limit && (best_us == 0 || cost->step_us < best_us)) best_us = cost->step_us;
    costs.emplace(point, *cost);
  }
  const Explored found = space.explored();
  std::printf(
      "%s, %s, %d ranks: %zu points, %zu refused, bound under half of the truth at %zu; best %.6g us; found %.6g us "
      "with %zu "
      "of them compiled whole and %zu bounded by stages\n",
      model, target.c_str(), ranks, space.points.size(), refused, loose, best_us,
      found.fit.empty() ? 0 : found.fit.front().cost.step_us, found.priced, found.bounded);
  std::sort(worst.rbegin(), worst.rend());
  for (size_t i = 0; i < worst.size() && i < 8; ++i)
    std::printf("  bound %.6f times the truth at %s\n", worst[i].first, worst[i].second.c_str());
  CHECK(worst.empty());
  CHECK(found.fit.empty() == (best_us == 0));
  if (!found.fit.empty()) CHECK(found.fit.front().cost.step_us == best_us);
  CHECK(found.priced < space.points.size());
  std::fflush(stdout);
}

}  // namespace

TEST_CASE("all points of small spaces are priced") {
  for (const char* model : {"tiny_gpt.onnx", "tiny_llama.onnx", "tiny_routed.onnx"})
    for (const char* target : {"fast links", "slow links", "tight memory"})
      for (const int32_t ranks : {4, 8}) exhaust(model, target, ranks, std::string(target) == "tight memory" ? 0.8 : 0);
}

}  // namespace piper::search
