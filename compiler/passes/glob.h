// Globs of a strategy.
#pragma once

#include "schemas/base/glob.h"

namespace piper::passes {

using piper::covering_length;
using piper::glob_covers;
using piper::glob_matches;

}  // namespace piper::passes
