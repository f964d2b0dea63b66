// Reads a machine that plans are priced for from a YAML file, like those in strategies/targets/. Used by `piper-plan
// simulate --target` and `piperc --target`. Does not read plans.
#pragma once

#include <optional>
#include <string>

#include "compiler/diag/diagnostics.h"
#include "schemas/base/status.h"
#include "schemas/timeline/machine.h"

namespace piper::machine {

// `path`: a file, or the name of one of those that come with piper ("h100_node8"). Errors: P0101, those of reading YAML
// (P0102 to P0105), P0201 unknown key, P0202 wrong type, P0206 a key is missing, P0207 a number out of range, P0250
// another device than `wanted`.
Result<timeline::Machine> load_machine(const std::string& path, diag::Diagnostics& diags,
                                       std::optional<plan::DeviceKind> wanted = {});

// The help of an option that takes such a `path`.
inline std::string target_help(const std::string& what) { return what + ": a file, or a name such as h100_node8"; }

}  // namespace piper::machine
