// The `shard` directive: expert parallelism over a device group. Its spec and typed arguments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/strategy/directive_spec.h"
#include "compiler/strategy/strategy.h"
#include "schemas/base/status.h"

namespace piper::directives {

struct ShardArgs {
  strategy::Filter filter;
  std::vector<strategy::Devices> devices;
  std::string stream = "ep";
  std::optional<strategy::Capacity> capacity;
};
const strategy::DirectiveSpec& shard_spec();
// Unpacks a loaded directive; defaults filled in. Error P0206: a required argument is missing.
Result<ShardArgs> read_shard(const strategy::Directive& directive);

}  // namespace piper::directives
