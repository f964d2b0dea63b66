// What an operator does along each of its axes, from the axis rule of its row in ops.def: where an axis of an operand
// is one of a result, and what comes of operands that are parts along it. Passes that follow the batch, experts, rows
// or parts of tensors through the graph ask here, so that an operator says it once.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/shapes.h"

namespace piper::ir {

enum class AxisRole : uint8_t {
  kEach,    // parts of the operands that have it make that part of the results that have it. The mask of a dropout is
            // that of its places in the whole: its attributes say which these are
  kSummed,  // parts of the operands make addends of the results, none of which has it; of a mean each by its share
  kChosen,  // an operand of numbers names places along it; no result has it
  kWhole,   // what makes or reads it needs all of it
};

// Where an operand or a result has the axis: extent of `axis` = factor.outer x the axis x factor.inner.
struct AxisPlace {
  uint32_t index = 0;  // of the operand, or of the result
  int64_t axis = 0;
  AxisFactor factor;
  bool repeats = false;  // of operands: extent 1 there, and the same element is read along the whole axis
  bool is_all() const { return factor.outer == 1 && factor.inner == 1; }  // no factor of its axis beside it
};
struct OpAxis {
  AxisRole role = AxisRole::kWhole;
  int64_t extent = 1;
  std::vector<AxisPlace> operands, results;
  // Its place in an operand, or in a result; null: that does not have it.
  const AxisPlace* in_operand(uint32_t operand) const;
  const AxisPlace* in_result(uint32_t result) const;
};

class AxisMap {
 public:
  AxisMap(const Graph& graph, const Op& op);
  const std::vector<OpAxis>& axes() const& { return axes_; }
  const std::vector<OpAxis>& axes() const&& = delete;
  // The axis that is all of an axis of an operand; null where several are factors of it.
  const OpAxis* of_operand(uint32_t operand, int64_t axis) const&;
  const OpAxis* of_operand(uint32_t operand, int64_t axis) const&& = delete;

 private:
  class Maker;
  std::vector<OpAxis> axes_;
};

}  // namespace piper::ir
