// provenance.json: one entry a line, key -> text. Instructions carry the key, so that a line moved
// in the strategy changes this file alone. Used by the bundle's reader and writer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::plan {

std::string print_provenance(const std::vector<ProvenanceEntry>& provenance);
// Errors: P0605 (grammar), P0606 (a key twice).
Result<std::vector<ProvenanceEntry>> parse_provenance(std::string_view text, const std::string& file);

}  // namespace piper::plan
