// The text form of a module, and the rules that its verifier checks.
#include <catch2/catch.hpp>

#include "compiler/ir/module_text.h"

namespace piper::ir {
namespace {

TEST_CASE("a module without parts is its header") {
  CHECK(print(Module()) == "module {\n  step batch 1 microbatches 1\n  training clip 0.0\n}\n");
  Result<Module> read = parse_module(print(Module()), "m.pir");
  REQUIRE(read.ok());
  CHECK(print(*read) == print(Module()));
  CHECK(verify(*read).ok());
}

}  // namespace
}  // namespace piper::ir
