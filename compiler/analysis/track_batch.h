// Which axis of each value is the batch, and how: the batch may be one factor of a merged axis
// ([B * S, C]). Separability, sample slicing and dropout keys rest on it.
//
// Input level: bound forward graph.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/module.h"

namespace piper::analysis {

enum class BatchKind : uint8_t {
  kNone,     // the same for every piece
  kAxis,     // extent of `axis` = outer * batch * inner: element (o, n, i) belongs to sample n
  kGrouped,  // the same, in the order of the rows' experts: each element of `axis` belongs to one sample, which one is
             // known at run time
  kMixed,    // depends on several samples at once (a batch statistic, a sum over the batch); no axis is the batch
  kTotal,    // likewise, but made of sums and means over the batch that no parameter enters: its value on the whole
             // batch can be had before the first forward, and is then the same for every piece (step_totals.h)
};
struct BatchFactor {
  BatchKind kind = BatchKind::kNone;
  int64_t axis = 0, outer = 1, inner = 1;
};
struct BatchMap {
  std::vector<BatchFactor> values;  // [value]; values added to the graph later have none: use of()
  // Ops that make values depending on several samples out of values that have a batch axis, in op
  // order: reductions over the batch but those of kTotal, and batch_norm, whose result still has its batch axis.
  std::vector<ir::OpId> mixers;
  BatchFactor of(ir::ValueId v) const { return v.index < values.size() ? values[v.index] : BatchFactor{}; }
};
// The op's result is the sum, or the mean, of what it is on the pieces of a batch: it reduces the batch axis, or
// contracts it with that of the other operand, or with constants of the samples.
bool adds_samples(const ir::Graph& graph, const ir::Op& op, const BatchMap& batch);
// The op sums along the axis that holds the samples, which is the same of all its operands. Asked of losses, too.
bool sums_over_samples(const ir::Graph& graph, const ir::Op& op, const BatchMap& batch);
// Numbers of a kTotal value at most: a device has their sum over all devices before its first forward.
inline constexpr int64_t kMostTotals = 4096;
// Where no rule says where the batch axis of an operand goes, the result is kMixed: safe, refused under a split.
BatchMap track_batch(const ir::Graph& graph, int64_t local_batch);
// For the variant's graph, from the one that it is like where it has such.
BatchMap track_batch(const ir::ModelVariant& variant);
}  // namespace piper::analysis
