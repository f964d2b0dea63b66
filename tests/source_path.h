#pragma once

#include <string>

namespace piper::test {

// Where a file or folder of piper's sources is: source_path("tests/models"). One source is compiled with the folder of
// the sources, not each that names a file of it, so that ccache finds the others' objects from another clone.
std::string source_path(const std::string& name);

}  // namespace piper::test
