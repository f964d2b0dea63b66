// What was changed in a strategy, in its own words: "schedule.family: 1f1b -> zero_bubble".
#pragma once

#include <string>
#include <vector>

#include "schemas/base/status.h"

namespace piper::tools {

// A line for each value that one of the two texts has otherwise or alone ("added", "removed"). Directives go by what
// they are and whom they filter, tags of `annotate` by their names. P0102 and others where one cannot be read.
Result<std::vector<std::string>> changed_words(const std::string& a, const std::string& b);

// The strategy of a bundle: the file of this name, in this folder or beside the bundle, whose SHA-256 is the bundle's;
// "" where there is none.
std::string find_strategy(const std::string& bundle, const std::string& name, const std::string& sha256);

}  // namespace piper::tools
