// The order of names with numbers, against one that compares two names at a time.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "compiler/emit/natural_order.h"

using piper::emit::natural_order;

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Piece by piece: other characters by their bytes, runs of digits by length (nine and more are alike), then as text.
int compare(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]) ? -1 : 1;
      ++i, ++j;
      continue;
    }
    size_t m = i, n = j;
    while (m < a.size() && is_digit(a[m])) ++m;
    while (n < b.size() && is_digit(b[n])) ++n;
    if (const size_t x = std::min<size_t>(m - i, 9), y = std::min<size_t>(n - j, 9); x != y) return x < y ? -1 : 1;
    if (const int order = a.substr(i, m - i).compare(b.substr(j, n - j)); order != 0) return order;
    i = m, j = n;
  }
  return i < a.size() ? 1 : j < b.size() ? -1 : 0;
}

std::vector<int32_t> one_by_one(const std::vector<std::string_view>& names) {
  std::vector<int32_t> order(names.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t x, int32_t y) { return compare(names[x], names[y]) < 0; });
  return order;
}

}  // namespace

TEST_CASE("numbers are compared as numbers") {
  CHECK(natural_order({"m10", "m2", "m2 b4", "m", "m2", "k11"}) == std::vector<int32_t>{5, 3, 1, 4, 2, 0});
  CHECK(natural_order({}).empty());
}

TEST_CASE("buffers of many microbatches, whatever their names go on with") {
  std::mt19937 random(7);
  // Stems that continue one another, by digits, by what sorts before digits and after them; numbers with zeros in
  // front and too long ones.
  const std::vector<std::string> stems = {"PP1.F m",     "PP1.F", "PP1.F ",     "PP1",       "PP1.", "PP10 saved m",
                                          "PP1 saved m", "PP1m",  "PP1.F m2 b", "PP1.F m2+", "x",    ""};
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> text;
    const size_t few = 1 + random() % stems.size();
    const bool odd = random() % 4 == 0;
    for (size_t i = 0; i < 4 + random() % 120; ++i) {
      std::string name = stems[random() % few];
      if (random() % 8 != 0) name += (odd && random() % 9 == 0 ? "0" : "") + std::to_string(random() % 30);
      if (odd && random() % 9 == 0) name += "12345678901";
      text.push_back(std::move(name));
    }
    const std::vector<std::string_view> names(text.begin(), text.end());
    REQUIRE(natural_order(names) == one_by_one(names));
  }
}
