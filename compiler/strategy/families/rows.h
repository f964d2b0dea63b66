// The row generators of expand_family: one pure function per rule, each in its own file. They
// may assume what expand_family has checked (positive numbers, the family's preconditions).
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/strategy/families.h"

namespace piper::strategy {

using Row = std::vector<Slot>;

struct FamilyShape {
  int32_t ranks = 1, stages = 1, microbatches = 1;
};

enum class Backward : uint8_t {
  kFused,  // B: input and weight gradients in one pass
  kSplit,  // BI, and BW later where it fills an idle gap; keeps more activations alive
};

std::vector<Row> gpipe_rows(const FamilyShape& shape);
std::vector<Row> one_f_one_b_rows(const FamilyShape& shape, Backward backward);
std::vector<Row> interleaved_rows(const FamilyShape& shape, Backward backward);
std::vector<Row> zb_v_rows(const FamilyShape& shape);
// V layout: rank r owns stages r and 2R-1-r.
std::vector<Row> two_way_v_rows(const FamilyShape& shape);
// Two copies of the pipeline: rank r owns stages r and R-1-r; the second half of the microbatches
// flows from the last rank to the first.
std::vector<Row> two_way_rows(const FamilyShape& shape);

inline void push(Row& row, int32_t stage, int32_t microbatch, Pass pass) { row.push_back({{stage, microbatch, pass}}); }

}  // namespace piper::strategy
