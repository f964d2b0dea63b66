// What a kernel call does, by its operands' shapes: floating-point operations of products, and bytes of memory that it
// must move. For pricing by roofline (Williams, Waterman, Patterson 2009), not for MFU, which counts the model's
// products (compiler/analysis/model_flops.h).
#pragma once

#include <map>

#include "schemas/plan/plan.h"

namespace piper::timeline {

enum class KernelKind : uint8_t { kProduct, kGroupedProduct, kAttention, kMemory };

struct KernelWork {
  KernelKind kind = KernelKind::kMemory;
  DType dtype = DType::kF32;  // of the product's operands
  double flops = 0, bytes = 0;
};

// How full the places for rows of experts are with a balanced router, 0 to 1, by the number of places: exchanges and
// grouped products work on rows only, and where no capacity bounds them, there are places for all rows to go to one
// rank.
using RouterLoad = std::map<int64_t, double>;
// For the expert_order calls of a bundle: rows there are, by places they are put into.
RouterLoad balanced_load(const plan::Bundle& bundle);
// The part of an exchange's bytes that is rows; 1 where whole parts travel.
double filled_part(const plan::RankPlan& plan, const plan::AllToAll& exchange, const RouterLoad& load);

// Products: 2 M N K. Attention: two products of all queries with all keys, half of it where it is causal, the blocks
// that a predicate leaves; its backward five (Dao 2023, arXiv 2307.08691, section 3.1.2: the scores are computed
// again). An update of a whole matrix: three products for each step of Newton-Schulz. Bytes: every operand once, stored
// elements, what is added to twice; of a table that is looked up only the rows read.
KernelWork kernel_work(const plan::KernelCall& call, const RouterLoad& load);

}  // namespace piper::timeline
