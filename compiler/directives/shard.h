// The `shard` directive: experts or weights in parts over groups of devices. Its spec, and what it says of regions.
#pragma once

#include "compiler/directives/resolution.h"
#include "compiler/strategy/directive_spec.h"

namespace piper::directives {

const strategy::DirectiveSpec& shard_spec();
// The default streams of its collectives.
inline constexpr const char* kStreamOfExperts = "ep";
inline constexpr const char* kStreamOfCuts = "tp";

// Groups of devices over which something is partitioned: of one size, without a device in common.
struct RankGroups {
  ir::Teams groups;
  std::string stream;
  diag::Span span;  // of the first list
};

// The groups that the directive lists, by `over` or by `devices`; none where it has neither.
std::vector<strategy::Devices> groups_named(const strategy::Directive& directive);

// Partitions experts (shard_experts.h) or weights (shard_weights.h) of the matched regions, and places those that
// nothing else places. Errors: P0203, P0204 an argument of another dim, P0206, P0213 groups of unequal size or with a
// device in common, and those of the two.
Status resolve_shard(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags);

}  // namespace piper::directives
