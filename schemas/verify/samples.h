// Sequences of samples of a step, and sums over them, both interned: equal ones have equal ids, so that
// the contents of a thousand ranks are compared and added as integers. Used by the rules about contents
// (rules 8 to 10). The elements of the parameters are counted with the same tables.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace piper::verify {

// Samples [first, first + count) of the step's batch, from 0.
struct SampleRange {
  int64_t first = 0, count = 0;
  bool operator==(const SampleRange& other) const { return first == other.first && count == other.count; }
  bool operator<(const SampleRange& other) const {
    return first != other.first ? first < other.first : count < other.count;
  }
};
// "samples 4 to 7 and 12"; "no sample".
std::string text(const std::vector<SampleRange>& ranges, const std::string& noun = "sample");

// Ordered lists of samples, as they are one after the other in a value. Id 0: none.
class SampleTable {
 public:
  SampleTable();
  int32_t range(int64_t first, int64_t count);
  int32_t append(int32_t a, int32_t b);
  // The samples in bytes [offset, offset + length) of a value of `size` bytes that holds them in equal
  // parts; -1 where a cut falls inside a sample.
  int32_t slice(int32_t samples, int64_t offset, int64_t length, int64_t size);
  // All of them so many further on.
  int32_t moved(int32_t samples, int64_t by);
  const std::vector<SampleRange>& ranges(int32_t samples) const { return lists_[static_cast<size_t>(samples)]; }

 private:
  int32_t intern(std::vector<SampleRange> ranges);

  struct RangeHash {
    size_t operator()(const SampleRange& range) const {
      return std::hash<int64_t>()(range.first * 1000003 + range.count);
    }
  };
  std::vector<std::vector<SampleRange>> lists_;
  std::map<std::vector<SampleRange>, int32_t> ids_;
  std::unordered_map<SampleRange, int32_t, RangeHash> of_one_;  // lists of one range, as nearly all are
  std::unordered_map<uint64_t, int32_t> appended_;              // by the two ids
};

// Sums whose addends are lists of samples: what an accumulator holds. Id 0: the empty sum. A sum is kept
// as how it was made, so adding is constant time; what it holds is worked out once, when someone asks.
class SumTable {
 public:
  explicit SumTable(const SampleTable& samples) : samples_(samples), nodes_(1) {}
  int32_t leaf(int32_t samples);
  int32_t add(int32_t a, int32_t b);

  // The sum as it would be made of other lists: `leaf` says of which, `known` has what was asked for before.
  int32_t moved(int32_t sum, const std::function<int32_t(int32_t)>& leaf, std::unordered_map<int32_t, int32_t>& known);

  struct Holdings {
    std::vector<SampleRange> missing, repeated, foreign;  // foreign: outside of the domain
    bool exact() const { return missing.empty() && repeated.empty() && foreign.empty(); }
  };
  // Compares with "each of `domain` (sorted, disjoint) exactly once".
  Holdings compare(int32_t sum, const std::vector<SampleRange>& domain) const;
  // Whether `sum` holds each of [0, count) exactly once; remembered.
  bool complete(int32_t sum, int64_t count);
  // A digest of how the sum was made, from its leaves on: equal for sums of the same samples in the same order. Both
  // sides of an addition may be exchanged, which changes no bit.
  uint64_t order(int32_t sum);

 private:
  struct Node {
    int32_t a = 0, b = 0;
  };  // leaf: b = -1, a = samples
  struct Last {
    uint64_t key = ~uint64_t{0};
    int32_t node = 0;
  };
  int32_t make(int32_t a, int32_t b, Last& last);

  const SampleTable& samples_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, int32_t> ids_;
  // All accumulators of a run mostly hold the same: the last answers serve again.
  Last last_leaf_, last_sum_;
  std::map<std::pair<int32_t, int64_t>, bool> complete_;  // by sum and count
  std::vector<uint64_t> orders_;                          // [node] as far as someone asked
};

}  // namespace piper::verify
