// Who runs which region, while directives claim it: one device list per (region, microbatch). Directives that place
// check their claims against those before them, the schedule's expansion takes its ranks from claims, and `settle`
// checks all claims as a whole and makes the distribution of them. Nothing reads claims after that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/ids.h"

namespace piper::directives {

struct Claim {
  std::vector<int32_t> ranks;     // empty: unclaimed
  diag::Span span;                // of the device list
  diag::Span claimed_by;          // the directive
  std::string stream;             // of the messages that the region sends; "" where no place claims it
  diag::Span replicated_by = {};  // the replicate over exactly these ranks, line 0 where none
  int32_t places = 1;             // ranks that share samples, of the list one after the other

  int64_t replicas() const { return static_cast<int64_t>(ranks.size()) / places; }
};

class Claims {
 public:
  Claims(size_t num_regions, int32_t num_microbatches)
      : replicated_by(num_regions),
        sharded(num_regions),
        num_microbatches_(num_microbatches),
        claims_(num_regions * num_microbatches) {}
  Claim& at(ir::ChunkId region, int32_t m) { return claims_[region.index * num_microbatches_ + m]; }
  const Claim& at(ir::ChunkId region, int32_t m) const { return claims_[region.index * num_microbatches_ + m]; }
  int32_t num_microbatches() const { return num_microbatches_; }
  // The same devices, replicated alike, as for the microbatch before: what a check said of that one holds for this one.
  bool as_before(ir::ChunkId region, int32_t m) const {
    return m > 0 && at(region, m).ranks == at(region, m - 1).ranks &&
           at(region, m).places == at(region, m - 1).places &&
           (at(region, m).replicated_by.line == 0) == (at(region, m - 1).replicated_by.line == 0);
  }
  bool is_open(ir::ChunkId region) const {  // no microbatch of it is claimed
    for (int32_t m = 0; m < num_microbatches_; ++m)
      if (!at(region, m).ranks.empty()) return false;
    return true;
  }

  std::vector<diag::Span> replicated_by;  // [region]: a replicate that claims it, on some microbatches at least
  // [region]: all devices of the `shard` of its experts, which run it where nothing else claims it.
  std::vector<Claim> sharded;

 private:
  int32_t num_microbatches_;
  std::vector<Claim> claims_;
};

}  // namespace piper::directives
