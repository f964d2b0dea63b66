// The error codes that every reader of the bundle's text format reports. Used by the parsers of the manifest, of
// programs and of rank plans; each code has its page in docs/errors.
#pragma once

#include <string_view>

namespace piper::plan {

inline constexpr std::string_view kSyntax = "P0605";  // not the format's grammar, or a word that it does not know
inline constexpr std::string_view kName = "P0606";    // a name that is missing, unknown or appears twice
inline constexpr std::string_view kRange = "P0607";   // a number outside of what it may be

}  // namespace piper::plan
