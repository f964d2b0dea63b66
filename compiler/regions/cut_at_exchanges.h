// The last step of passes that partition what regions compute: chunks that hold conversions (ir::is_conversion) become
// several, each conversion one of its own. Not a pass of its own.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "compiler/ir/chunks.h"

namespace piper::regions {

struct ExchangeMarks {
  const char* pass = "";       // that cuts: ops that are copied derive from it
  std::vector<bool> cut;       // [chunk] it becomes pieces; the others are left as they are
  std::vector<int32_t> shard;  // [chunk] Chunk::shard of the pieces; empty: that of the chunk
  std::map<uint32_t, int32_t>
      unit;  // first result of an op -> ops of one unit stay together, as late as the last of them
  // Result of a conversion -> what its chunk is called after. An own_part is one where it is named here: its derivative
  // is.
  std::map<uint32_t, const char*> way;
};
// Views of weights and of constants, and counts, are copied into every piece that reads them.
// Returns [new chunk] -> the chunk it was cut from; chunk ids stay a topological order.
std::vector<ir::ChunkId> cut_at_exchanges(ir::ChunkedGraph& chunked, const ExchangeMarks& marks);

}  // namespace piper::regions
