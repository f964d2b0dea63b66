// The plan bundle that a program is given, found among its arguments.
#pragma once

#include <string>
#include <vector>

namespace piper::launcher {

// The first argument that is the folder of one, as a path from here, where the program starts in `folder` ("": here);
// empty: none is.
std::string bundle_among(const std::vector<std::string>& arguments, const std::string& folder);

}  // namespace piper::launcher
