// The keyed permutation of an epoch: a bijection for every number of samples, seed and epoch, and no two alike.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <unordered_set>
#include <vector>

#include "runtime/data/permutation.h"

namespace piper::data {
namespace {

std::vector<int64_t> whole_epoch(uint64_t seed, int64_t epoch, int64_t samples) {
  std::vector<int64_t> order(static_cast<size_t>(samples));
  for (int64_t i = 0; i < samples; ++i) order[static_cast<size_t>(i)] = permuted_sample(seed, epoch, samples, i);
  return order;
}

constexpr int64_t kLastEpoch = (int64_t{1} << 62) - 1;

TEST_CASE("an epoch is a permutation of its samples") {
  std::vector<int64_t> sizes(70);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (int64_t samples : {97, 127, 128, 129, 251, 255, 256, 257, 1000, 1021, 4096, 4097, 65537})
    sizes.push_back(samples);
  for (const int64_t samples : sizes)
    for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{0x123456789abcdef0}, ~uint64_t{0}})
      for (const int64_t epoch : {int64_t{0}, int64_t{1}, int64_t{1} << 32, kLastEpoch}) {
        if (samples > 5000 && seed > 1) continue;
        std::vector<int64_t> order = whole_epoch(seed, epoch, samples);
        std::sort(order.begin(), order.end());
        std::vector<int64_t> all(order.size());
        std::iota(all.begin(), all.end(), 0);
        INFO(samples << " samples, seed " << seed << ", epoch " << epoch);
        CHECK(order == all);
      }
}

// Too many to see all of: none of what is seen repeats or leaves the range, and both halves are visited.
TEST_CASE("an epoch of more samples than memory holds repeats none") {
  const int64_t most = INT64_MAX;
  for (const int64_t samples : {(int64_t{1} << 40) + 12345, int64_t{1} << 40, (int64_t{1} << 33) - 9, most})
    for (const uint64_t seed : {uint64_t{3}, ~uint64_t{0}}) {
      std::unordered_set<int64_t> seen;
      int64_t upper = 0, inside = 0;
      constexpr int64_t kLooks = 20000;
      for (int64_t i = 0; i < kLooks; ++i) {
        const int64_t position = i % 2 == 0 ? i : samples - i;  // neighbours are what a weak network keeps together
        const int64_t sample = permuted_sample(seed, 7, samples, position);
        inside += sample >= 0 && sample < samples;
        upper += sample >= samples / 2;
        seen.insert(sample);
      }
      CHECK(inside == kLooks);
      CHECK(seen.size() == size_t{kLooks});
      CHECK(upper > kLooks * 48 / 100);
      CHECK(upper < kLooks * 52 / 100);
    }
}

TEST_CASE("epochs and seeds have orders of their own") {
  for (const int64_t samples : {20, 64, 1000}) {
    std::vector<std::vector<int64_t>> orders;
    for (const int64_t epoch : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{1} << 32, kLastEpoch})
      for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
        orders.push_back(whole_epoch(seed, epoch, samples));
    std::sort(orders.begin(), orders.end());
    CHECK(std::adjacent_find(orders.begin(), orders.end()) == orders.end());
  }
}

// All orders of few samples come about equally often: the chi-square statistic of k - 1 degrees stays below its mean
// by five standard deviations. A network of too few rounds, or one that leaves a part alone, is far above.
TEST_CASE("no order is preferred") {
  for (const int64_t samples : {2, 3, 4, 5, 6}) {
    std::map<std::vector<int64_t>, double> counts;
    int64_t orders = 1;
    for (int64_t i = 2; i <= samples; ++i) orders *= i;
    const int64_t epochs = orders * 200;
    for (int64_t epoch = 0; epoch < epochs; ++epoch) counts[whole_epoch(11, epoch, samples)] += 1;
    REQUIRE(counts.size() == static_cast<size_t>(orders));
    double chi_square = 0;
    for (const auto& [order, count] : counts) chi_square += (count - 200) * (count - 200) / 200;
    const auto freedom = static_cast<double>(orders - 1);
    INFO(samples << " samples: " << chi_square << " for " << freedom);
    CHECK((chi_square - freedom) * (chi_square - freedom) < 25 * 2 * freedom);
  }
}

// The place of a sample says nothing about that of its neighbour.
TEST_CASE("neighbours part") {
  constexpr int64_t kSamples = 1000;
  int64_t together = 0;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const std::vector<int64_t> order = whole_epoch(5, epoch, kSamples);
    for (size_t i = 1; i < order.size(); ++i) together += std::abs(order[i] - order[i - 1]) == 1;
  }
  CHECK(together > 10);  // 40 of 19980 by chance
  CHECK(together < 80);
}

// What a run was trained on must be found again by another version.
TEST_CASE("the permutation stays what it is") {
  CHECK(whole_epoch(7, 3, 12) == std::vector<int64_t>{7, 11, 10, 9, 8, 2, 0, 4, 6, 5, 1, 3});
  CHECK(permuted_sample(1, 2, (int64_t{1} << 40) + 12345, 99) == 818095023334);
}

}  // namespace
}  // namespace piper::data
