// provenance.json: one entry a line, key -> text, then the reasons of those that have one. Instructions carry the key,
// so that a line moved in the strategy changes this file alone. Used by the bundle's reader and writer, and by
// what shows an entry to users.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::plan {

// The place in the strategy of an entry: of the key "s.yaml:3:5", or "WHAT@s.yaml:3:5@..", of which the first counts.
std::string strategy_line(const ProvenanceEntry& entry);
// Text and reason: "shard at s.yaml:3:5: partial sums of ..".
std::string whole_text(const ProvenanceEntry& entry);

// "h.*.mlp" of "h.12.mlp": reasons of several layers as one. Numbers of modules alone.
std::string of_any_layer(const std::string& text);

std::string print_provenance(const std::vector<ProvenanceEntry>& provenance);
// Errors: P0605 (grammar), P0606 (a key twice, a reason of no entry).
Result<std::vector<ProvenanceEntry>> parse_provenance(std::string_view text, const std::string& file);

}  // namespace piper::plan
