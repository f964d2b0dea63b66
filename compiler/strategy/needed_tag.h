// Whether all operators of a model need a tag to have devices.
#pragma once

#include <optional>
#include <string>

#include "compiler/strategy/strategy.h"

namespace piper::strategy {

// What the schedule and the directives ask for. A tag of modules is theirs alone, unless the others would then have no
// device (or no experts): where the schedule numbers its stages by a tag, where each `place` and `replicate` asks for
// some tag, and where a `shard` of experts asks for none, but cannot divide what has none. nullopt: they have; "": any
// tag will do.
std::optional<std::string> needed_tag(const Strategy& strategy);

}  // namespace piper::strategy
