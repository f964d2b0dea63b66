#include "runtime/data/mixture.h"

#include <algorithm>
#include <cmath>

#include "runtime/data/philox.h"
#include "schemas/base/check.h"

namespace piper::data {

namespace {

constexpr int kWeightBits = 40;

}  // namespace

Mixture::Mixture(const std::vector<double>& weights, uint64_t seed) : seed_(seed), ends_{0} {
  PIPER_CHECK(!weights.empty());
  int exponent = 0;
  (void)std::frexp(*std::max_element(weights.begin(), weights.end()), &exponent);
  for (const double weight : weights) {
    PIPER_CHECK(weight > 0 && std::isfinite(weight), weight);
    const auto whole = static_cast<uint64_t>(std::ldexp(weight, kWeightBits - exponent));
    ends_.push_back(ends_.back() + std::max<uint64_t>(whole, 1));
  }
}

int64_t Mixture::left_part(size_t lo, size_t middle, size_t hi, int64_t m) const {
  __extension__ using Wide = unsigned __int128;  // less than 2^62 samples times 2^60 of weight
  const uint64_t left = ends_[middle] - ends_[lo], whole = ends_[hi] - ends_[lo];
  const uint64_t phase = random_bits(seed_, Purpose::kMix, middle, 0) % whole;
  return static_cast<int64_t>((static_cast<Wide>(m) * left + phase) / whole);
}

Mixture::Draw Mixture::draw(int64_t n) const {
  size_t lo = 0, hi = ends_.size() - 1;
  while (hi - lo > 1) {
    const size_t middle = (lo + hi) / 2;
    const int64_t left = left_part(lo, middle, hi, n);
    if (left_part(lo, middle, hi, n + 1) > left) {
      n = left;
      hi = middle;
    } else {
      n -= left;
      lo = middle;
    }
  }
  return {lo, n};
}

int64_t Mixture::count(size_t source, int64_t n) const {
  size_t lo = 0, hi = ends_.size() - 1;
  while (hi - lo > 1) {
    const size_t middle = (lo + hi) / 2;
    const int64_t left = left_part(lo, middle, hi, n);
    n = source < middle ? left : n - left;
    (source < middle ? hi : lo) = middle;
  }
  return n;
}

}  // namespace piper::data
