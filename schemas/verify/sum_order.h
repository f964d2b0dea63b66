// In which order a plan adds up what it trains by: a digest of the sequence of addends of every gradient, of the loss
// and of the gradients' norm. Plans of one model and precision that have the same digest add the same pieces of the
// batch in the same order and train to the same bits; such with another one agree up to rounding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/samples.h"

namespace piper::verify {

// Elements of the parameters, all counted through, and how the sum was made that they are updated by (Ledger::order).
struct SummedElements {
  SampleRange elements;
  uint64_t order = 0;
  auto key() const { return std::pair(elements, order); }
};

// What following a step's contents found.
struct OrdersOfSums {
  std::vector<SummedElements> gradients;  // in any order; a copy that several ranks update may be there several times
  std::vector<uint64_t> norms;            // of the measures that gradients are clipped by
  uint64_t loss = 0;
};

// Sixteen hexadecimal digits. Besides these orders it depends on what makes the addends: on the kernels that add to
// each gradient in a program, on the axes and parts of tensors that are cut, on the element types of sums over ranks,
// and on whether a library orders those.
std::string sum_order(const plan::Bundle& bundle, OrdersOfSums found);

}  // namespace piper::verify
