// Which source a sample comes from: fixed proportions at every point, every source's samples in their order, and the
// same answer whatever was asked before.
#include <catch2/catch.hpp>

#include <cmath>
#include <numeric>

#include "runtime/data/mixture.h"

namespace piper::data {
namespace {

const std::vector<std::vector<double>> kWeights = {
    {1}, {3, 1}, {0.7, 0.2, 0.1}, {1, 1, 1, 1, 1}, {1e-6, 1, 1e6}, {5, 1, 1, 1, 1, 1, 1, 1, 1, 0.25, 7}};

TEST_CASE("sources take turns in proportion, each in its order") {
  for (const auto& weights : kWeights)
    for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{0x123456789abcdef0}}) {
      const Mixture mixture(weights, seed);
      const double whole = std::accumulate(weights.begin(), weights.end(), 0.0);
      const double depth = std::ceil(std::log2(static_cast<double>(weights.size())));
      std::vector<int64_t> taken(weights.size());
      double furthest = 0;
      for (int64_t n = 0; n < 3000; ++n) {
        const Mixture::Draw draw = mixture.draw(n);
        REQUIRE(draw.source < weights.size());
        REQUIRE(draw.index == taken[draw.source]);
        ++taken[draw.source];
        for (size_t s = 0; s < weights.size(); ++s) {
          const double ideal = static_cast<double>(n + 1) * weights[s] / whole;
          furthest = std::max(furthest, std::abs(static_cast<double>(taken[s]) - ideal));
        }
        if (n % 97 == 0)
          for (size_t s = 0; s < weights.size(); ++s) REQUIRE(mixture.count(s, n + 1) == taken[s]);
      }
      INFO(weights.size() << " sources, seed " << seed);
      CHECK(furthest <= depth + 1e-6);
    }
}

TEST_CASE("whole weights are taken as they are, over any number of samples") {
  const Mixture mixture({3, 1}, 5);
  for (const int64_t n : {int64_t{4}, int64_t{4000}, int64_t{1} << 40, int64_t{1} << 61}) {
    CHECK(mixture.count(0, n) == n / 4 * 3);
    CHECK(mixture.count(1, n) == n / 4);
  }
  const int64_t last = (int64_t{1} << 62) - 1;
  const Mixture::Draw draw = mixture.draw(last);
  CHECK(mixture.count(draw.source, last) == draw.index);
  CHECK(mixture.count(draw.source, last) + 1 == mixture.count(draw.source, last + 1));
}

TEST_CASE("another seed begins elsewhere") {
  std::vector<size_t> first, second;
  for (int64_t n = 0; n < 64; ++n) {
    first.push_back(Mixture({2, 1, 1}, 1).draw(n).source);
    second.push_back(Mixture({2, 1, 1}, 2).draw(n).source);
  }
  CHECK(first != second);
}

// What a run was trained on must be found again by another version; computed by tests/e2e/data_sources.py, too.
TEST_CASE("the mixture stays what it is") {
  const Mixture mixture({3, 1, 2}, 7);
  std::vector<size_t> sources;
  for (int64_t n = 0; n < 12; ++n) sources.push_back(mixture.draw(n).source);
  CHECK(sources == std::vector<size_t>{1, 0, 2, 0, 2, 0, 1, 0, 2, 0, 2, 0});
}

}  // namespace
}  // namespace piper::data
