#include "tests/source_path.h"

namespace piper::test {

std::string source_path(const std::string& name) { return std::string(PIPER_SOURCE_FOLDER "/") + name; }

}  // namespace piper::test
