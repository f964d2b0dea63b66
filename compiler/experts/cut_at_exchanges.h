// The last step of partition_experts: chunks that hold all_to_all ops become several, each all_to_all one of its own.
// Not a pass of its own.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "compiler/ir/chunks.h"

namespace piper::experts {

// What the chunk of an all_to_all is called after.
inline constexpr const char* kToExperts = "to_experts";
inline constexpr const char* kFromExperts = "from_experts";
inline constexpr const char* kCounts = "counts";  // of the rows that will travel

struct ExchangeMarks {
  std::vector<int32_t> shard;  // [chunk] index into ChunkedGraph::shards, -1: left as it is
  std::map<uint32_t, int32_t>
      unit;  // first result of an op -> ops of one unit stay together, as late as the last of them
  std::map<uint32_t, const char*> way;  // result of an all_to_all -> one of the above
};
// Views of weights and of constants, and counts, are copied into every piece that reads them.
// Returns [new chunk] -> the chunk it was cut from; chunk ids stay a topological order.
std::vector<ir::ChunkId> cut_at_exchanges(ir::ChunkedGraph& chunked, const ExchangeMarks& marks);

}  // namespace piper::experts
