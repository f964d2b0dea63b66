// Operators with the samples of a batch on each axis of each operand, or on none: what batch_rules_test.cc computes on
// a whole batch and on its pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/shapes.h"

namespace piper::numeric {

struct Place {
  int64_t axis = -1, outer = 1, inner = 1;  // extent = outer x samples x inner; axis -1: no samples
};
enum class Content { kNumbers, kPositive, kBools, kIndices };
struct Operand {
  ir::Shape shape;  // for one sample
  Place place = {};
  Content content = Content::kNumbers;
  bool absent = false;
  ir::Shape at(int64_t samples) const {
    ir::Shape extents = shape;
    if (place.axis >= 0) extents[static_cast<size_t>(place.axis)] *= samples;
    return extents;
  }
};
struct BatchForm {
  ir::OpKind kind;
  std::vector<Operand> operands;
  std::function<ir::Attrs(int64_t samples)> attrs;
  int64_t bound = 4;  // of indices
};
std::string text(const BatchForm& form);
// All that are tried. Not every one is legal: inference says so.
std::vector<BatchForm> batch_forms();

inline constexpr ir::OpKind kAllOps[] = {
#define PIPER_OP(enumerator, ...) ir::OpKind::enumerator,
#include "compiler/ir/ops.def"
#undef PIPER_OP
};

}  // namespace piper::numeric
