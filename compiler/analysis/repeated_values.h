// What the repetition of a region keeps in memory, by where the region is cut into segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/ir/module.h"

namespace piper::analysis {

// Bytes that are kept for a segment if it begins at a place.
struct KeptBytes {
  // What ops before the place make, and would repeat without a cut, and what they receive of an exchange and the
  // segment reads, too: its gradient is then not added up by the products that make it.
  int64_t crossing = 0;
  int64_t all = 0;  // and what its repeated ops read of ops that are not repeated, wherever these are
};

class RepeatedValues {
 public:
  // `rows`: [chunk] what directives say of it. The graph outlives this.
  RepeatedValues(const ir::ChunkedGraph& chunked, const std::vector<ir::ChunkProperties>& rows);

  // Bytes that a repeated op makes. Slices count: their backward makes as much.
  int64_t made(size_t op) const;

  // `kept` is of the place after `op`, and becomes that of the place before it, in a segment of which `last` is the
  // last op. What a later segment reads, too, is kept for that one.
  void pass(size_t op, size_t last, KeptBytes& kept) const;

 private:
  // By a chunk, of an exchange.
  struct Received {
    size_t first, last;  // the ops of the chunk that read it
    int64_t bytes;
  };

  const ir::Graph& graph_;
  std::vector<bool> repeated_;        // [op]
  std::vector<int64_t> last_reader_;  // [value] an op of its own chunk; -1: it is kept without a cut, or never
  std::vector<std::vector<ir::ValueId>> read_last_;                    // [op]
  std::vector<std::vector<Received>> received_first_, received_last_;  // [op]
};

}  // namespace piper::analysis
