// Which source of a mix each sample comes from: in fixed proportions at every point of the run, known for any sample
// without those before it, in memory of the number of sources. Sources are the leaves of a binary tree, in which
// [lo, hi) is parted at (lo + hi) / 2. Of the first m samples that come to a node of whole weight W, the left half of
// weight L gets
//
//     C(m) = floor((m L + f) / W),   f = the first 64 bits of Philox (purpose `mix`, seed, the node's middle) mod W,
//
// so sample m goes left where C(m + 1) > C(m), as the left half's sample C(m), else right, as sample m - C(m) of the
// right half (the line of Bresenham, "Algorithm for computer control of a digital plotter", 1965, in each node). Of the
// first n samples a source of share p has between n p - d and n p + d, d the depth of the tree. Weights are taken as
// whole numbers: multiplied by the power of two by which the largest is at least 2^39 and less than 2^40, and rounded
// down, to at least 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace piper::data {

class Mixture {
 public:
  // At least one weight, at most 2^20, each positive and finite.
  Mixture(const std::vector<double>& weights, uint64_t seed);

  struct Draw {
    size_t source = 0;
    int64_t index = 0;  // samples of this source before it
  };
  // For sample n, 0 <= n < 2^62.
  Draw draw(int64_t n) const;
  // How many of the first n samples are of a source.
  int64_t count(size_t source, int64_t n) const;

 private:
  // The left half's part of the first `m` samples of node [lo, hi).
  int64_t left_part(size_t lo, size_t middle, size_t hi, int64_t m) const;

  uint64_t seed_;
  std::vector<uint64_t> ends_;  // [source + 1] weight of the sources in front
};

}  // namespace piper::data
