// Small spaces, every point of them priced: no bound is above the true value, and what a search finds first is the best
// of all.
#include <catch2/catch.hpp>

#include <fmt/format.h>
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
  for (const Point& point : space.points) {
    const auto cost = space.pricer.price(space.text_of(point));
    const Bound model_bound = space.bounds.by_model(point), stage_bound = space.bounds.by_stages(point);
    INFO(space.text_of(point) << describe(point));
    if (!cost.ok()) {
      ++refused;
      continue;
    }
    for (const Bound& bound : {model_bound, stage_bound}) {
      INFO(fmt::format("bound {} us, {} bytes; true {} us, {} bytes", bound.step_us, bound.peak_bytes, cost->step_us,
                       cost->peak_bytes));
      CHECK(bound.why_not == "");
      CHECK(bound.step_us <= cost->step_us * (1 + 1e-9));
      CHECK(bound.peak_bytes <= cost->peak_bytes);
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
  REQUIRE(found.fit.empty() == (best_us == 0));
  if (!found.fit.empty()) CHECK(found.fit.front().cost.step_us == best_us);
  CHECK(found.priced < space.points.size());
}

}  // namespace

TEST_CASE("all points of small spaces are priced") {
  for (const char* model : {"tiny_gpt.onnx", "tiny_llama.onnx", "tiny_routed.onnx"})
    for (const char* target : {"fast links", "slow links", "tight memory"})
      for (const int32_t ranks : {4, 8}) exhaust(model, target, ranks, std::string(target) == "tight memory" ? 0.6 : 0);
}

}  // namespace piper::search
