// The names of a plan that carry meaning: what the emitter makes, the verifier reads.
#include "schemas/plan/chunk_names.h"

#include <catch2/catch.hpp>

using namespace piper::plan;

// Every pass of a chunk with points, digits and marks of its own in its name comes back.
TEST_CASE("programs and runs of chunks are read as they were named") {
  for (const std::string chunk : {"PP0", "PP0.EP1", "a.b4", "x m3.y", "B"})
    for (const std::string pass : {"C", "N", "F", "B", "BI", "BW"}) {
      CAPTURE(chunk, pass);
      const auto program = chunk_program(program_name({chunk, pass, 16}));
      REQUIRE(program);
      CHECK(program->chunk == chunk);
      CHECK(program->pass == pass);
      CHECK(program->local_batch == 16);
      CHECK_FALSE(program->recomputing);
      const auto again = chunk_program(program_name({chunk, pass, 16, true}));
      REQUIRE(again);
      CHECK(again->chunk == chunk);
      CHECK(again->pass == pass);
      CHECK(again->recomputing);
      const auto run = chunk_run(run_name({chunk, pass, 12}));
      REQUIRE(run);
      CHECK(run->chunk == chunk);
      CHECK(run->pass == pass);
      CHECK(run->microbatch == 12);
      const auto whole = chunk_run(run_name({chunk, pass, {}}));
      REQUIRE(whole);
      CHECK(whole->chunk == chunk);
      CHECK_FALSE(whole->microbatch);
    }
  CHECK(program_name({"PP0.EP1", "B", 4}) == "PP0.EP1.B.b4");
  CHECK(program_name({"PP0", "BI", 4, true}) == "PP0.BI-recomputing.b4");
  CHECK(run_name({"PP0", "BW", 2}) == "PP0.BW m2");
  CHECK(run_name({"PP0", "F", {}}) == "PP0.F");
}

TEST_CASE("names of the step's own work are no chunk's") {
  for (const char* name : {"", "clip", "loss.finish", "combine.w.lr", "add.1024", "copy.64", "PP0.F", ".F.b4",
                           "PP0.X.b4", "PP0.F.b", "PP0.F.b4x", "PP0.F.b-4"}) {
    CAPTURE(name);
    CHECK_FALSE(chunk_program(name));
  }
  for (const char* name : {"", "loss", "PP0.count", "norms", ".F m1", "PP0.F m", "PP0.F mx", "PP0.F m-1", "PP0.F.b4"}) {
    CAPTURE(name);
    CHECK_FALSE(chunk_run(name));
  }
}

// What tells pieces of a region apart is no tag.
TEST_CASE("tags are read from the names of chunks") {
  const auto told = [](const char* chunk) {
    std::string text;
    for (const auto& tag : tags_of_chunk(chunk)) text += tag.tag + "=" + tag.index + " ";
    return text;
  };
  CHECK(told("PP12") == "PP=12 ");
  CHECK(told("EP1.PP0") == "EP=1 PP=0 ");
  CHECK(told("EP1.PP0.rest.2") == "EP=1 PP=0 ");
  CHECK(told("PP0.3/14") == "PP=0 ");
  CHECK(told("all").empty());
  CHECK(told("").empty());
}

TEST_CASE("slots of gradients name their tensor") {
  for (const std::string tensor : {"h.0.weight", "grad x", ""})
    CHECK(tensor_of_gradient_slot(gradient_slot_name(tensor)) == tensor);
  CHECK(gradient_slot_name("w") == "grad w");
  CHECK_FALSE(tensor_of_gradient_slot("gradient"));
  CHECK_FALSE(tensor_of_gradient_slot("loss sum"));
}
