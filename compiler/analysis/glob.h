// Globs over dotted module paths and parameter names: `*` matches any characters, none and dots
// included; a leading `*.` also matches nothing ("*.h.0" matches "h.0" and "a.h.0"). Shared by
// annotate, freeze, no_decay and per_microbatch.
#pragma once

#include <string>
#include <vector>
#include <string_view>

namespace piper::analysis {

// The whole path matches; "*" alone also matches the root "".
bool glob_matches(const std::string& glob, const std::string& module_path);
// The path or a module that contains it matches: "*.wte" covers "transformer.wte.weight". A match
// is a whole component and never a name prefix ("h.1" does not cover "h.10").
bool glob_covers(const std::string& glob, const std::string& path);
// One of the paths, as a tied parameter has several.
bool glob_covers(const std::string& glob, const std::vector<std::string>& paths);
// The outermost module of `path` (itself included) that matches, or npos as its length.
size_t covering_length(const std::string& glob, const std::string& path);

}  // namespace piper::analysis
