// Which operators of a forward its backward may repeat, by what directives say of the chunk (ir::Repeats).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace piper::analysis {

class RepeatableOps {
 public:
  // Both outlive it.
  RepeatableOps(const ir::ChunkedGraph& chunked, const std::vector<ir::ChunkProperties>& rows);
  // Whether an op of the forward may be; `graph` is that of the chunked graph, or one made of it.
  bool has(const ir::Graph& graph, const ir::Op& op) const;

 private:
  int32_t region_of(const ir::Op& op) const;
  bool is_in_first_layers(const ir::Op& op, const std::string& scope, double share) const;

  const std::vector<ir::Chunk>& chunks_;
  const std::vector<ir::ChunkProperties>& rows_;
  std::map<int32_t, std::vector<std::string>> layers_;  // [region] in the order of the model
};

}  // namespace piper::analysis
