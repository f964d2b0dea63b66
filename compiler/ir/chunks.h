// Tags and chunks: how a model graph is cut into regions that are placed and scheduled as units.
// A tag is a name with an index ("PP" 2). A chunk is a convex set of ops with the same tags; the
// quotient of the graph by its chunks is acyclic, and chunk ids are a topological order of it.
// Made by regions/cut_chunks, read by autodiff, directives and emission.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"

namespace piper::ir {

struct TagValue {
  std::string tag;  // "PP"
  int32_t index = 0;
  friend bool operator==(const TagValue&, const TagValue&) = default;
};
using TagSet = std::vector<TagValue>;  // sorted by tag name, at most one value per tag

struct Chunk {
  TagSet tags;
  int32_t region = -1;    // index of the region that the strategy names; segments of one region share it (cut_segments)
  std::string name;       // "PP0", "PP0.EP1", "all" where no op is tagged, else "rest" for
                          // what is not; ".2" added where tags repeat; unique
  bool exchange = false;  // holds one conversion (is_conversion) and nothing else
  bool again = false;     // has a backward alone, which makes what a forward has dropped
  int32_t shard = -1;     // index into Distribution::expert_groups; -1: cut by none
};

struct ChunkedGraph {
  Graph graph;  // every forward op has its chunk
  std::vector<Chunk> chunks;
  // Number of indices of each tag, by name order: what diagnostics list.
  struct TagExtent {
    std::string tag;
    int32_t count = 0;
  };
  std::vector<TagExtent> tags;
};

}  // namespace piper::ir
