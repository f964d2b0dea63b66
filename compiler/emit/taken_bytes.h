// Which bytes of a block are taken at which times, for placing many lives one after the other, each at the lowest
// offset that is free during all of it (pack.h).
//
// A tree over time, as a segment tree: a life is kept at the few nodes whose times it fills, and every node knows the
// bytes that anything at it or below it takes. Both are unions, which are few ranges where bytes are packed closely,
// however many lives took them. So an insertion or a question costs the logarithm of the times and the ranges that it
// passes, where a list of lives costs all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schemas/plan/life.h"

namespace piper::emit {

class TakenBytes {
 public:
  // For these lives, of which none is placed.
  explicit TakenBytes(std::span<const plan::Life> lives);

  void clear();
  // `life` is an index into the lives.
  void insert(uint32_t life, int64_t offset);
  int64_t lowest_free(uint32_t life);

 private:
  struct Range {
    int64_t begin = 0, end = 0;
  };
  using Ranges = std::vector<Range>;  // ascending, none touches the next
  struct Node {
    Ranges throughout;  // taken during all of its time, by lives that are kept here
    Ranges ever;        // taken at any time of it, by lives that are kept here or below
  };
  struct Times {  // [begin, end)
    uint32_t begin = 0, end = 0;
  };
  static void add(Ranges& ranges, Range taken);
  void insert(uint32_t node, Times of_node, Times life, Range taken);
  void find(uint32_t node, Times of_node, Times life);

  std::span<const plan::Life> lives_;
  std::vector<Times> times_;  // [life] among the distinct beginnings: lives meet where one of them begins, or never
  uint32_t num_times_ = 1;    // a power of two
  std::vector<Node> nodes_;   // from 1, the root; the children of i are 2 i and 2 i + 1
  struct Found {
    const Range* next;
    const Range* end;
  };
  std::vector<Found> found_;  // what may be in the way of the life that is asked for
};

}  // namespace piper::emit
