// What a filter matches: regions by their tags, microbatches by MB. Used by every directive; a filter that matches
// nothing is reported here, with the tags that there are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"
#include "compiler/strategy/strategy.h"

namespace piper::directives {

struct Selection {
  std::vector<ir::ChunkId> chunks;    // ascending
  std::vector<int32_t> microbatches;  // ascending; all of them where the filter does not name MB
};
// The phases that a filter's PASS names, in the order of the enumerators; without PASS all but the counting of labels.
std::vector<ir::Phase> matched_phases(const std::optional<strategy::Pass>& pass);
// Whether the filter names one half of a backward.
bool names_half(const strategy::Filter& filter);

// The tags of the model's regions, made once for many filters.
class Selector {
 public:
  Selector(const std::vector<ir::Chunk>& regions, const ir::Step& step);
  // Errors: P0203 no node has the tag (did you mean), P0204 no node has this combination.
  Result<Selection> select(const strategy::Filter& filter, diag::Diagnostics& diags) const;

 private:
  struct Column {
    std::string tag;
    std::vector<int32_t> index;                    // [chunk] -1 where the chunk has no such tag
    std::vector<std::vector<ir::ChunkId>> chunks;  // by index, ascending
    int32_t last() const { return static_cast<int32_t>(chunks.size()) - 1; }
  };
  const Column* find(const std::string& tag) const;
  std::string list_tags() const;
  // Warns where an index of a filter that matches something is above `last`.
  void tell_beyond(const strategy::FilterTerm& term, int64_t last, diag::Diagnostics& diags) const;

  std::vector<ir::ChunkId> all_;
  int32_t num_microbatches_;
  bool split_;
  std::vector<Column> columns_;  // by tag
};

}  // namespace piper::directives
