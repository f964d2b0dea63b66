// What a run says of kernels whose scratch plans count too little of.
#include <catch2/catch.hpp>

#include "runtime/exec/rehearse.h"

namespace piper::exec {
namespace {

TEST_CASE("calls beyond the plan are told together, the furthest first, the last ones by their number") {
  CHECK(scratch_note(3, {{"linear of wte", 100, 90}}) ==
        "rank 3: 1 kernel call takes more scratch than the plan counts, by up to 10 bytes:\n"
        "  linear of wte takes 100 bytes, the plan counts 90");
  std::vector<kernels::ScratchBeyondPlan> calls;
  for (int64_t i = 0; i < 13; ++i) calls.push_back({"call " + std::to_string(i), 100 + i, 90});
  const std::string note = scratch_note(0, calls);
  CHECK(note.find("rank 0: 13 kernel calls take more scratch than the plan counts, by up to 22 bytes:\n  call 12 takes "
                  "112 bytes, the plan counts 90\n  call 11 ") == 0);
  CHECK(note.find("call 3 takes") != std::string::npos);
  CHECK(note.find("call 2 takes") == std::string::npos);
  CHECK(note.substr(note.rfind('\n')) == "\n  and 3 more");
}

}  // namespace
}  // namespace piper::exec
