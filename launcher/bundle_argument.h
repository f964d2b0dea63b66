// The plan bundle that a program is given, found among its arguments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/bundle_io.h"

namespace piper::launcher {

// The first argument that names one, where the program starts in `folder`; "": here. Its manifest is read, no more.
// Errors of a bundle that is damaged; nothing where there is none.
Result<std::optional<plan::OpenBundle>> bundle_among(const std::vector<std::string>& arguments,
                                                     const std::string& folder);

}  // namespace piper::launcher
