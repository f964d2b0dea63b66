// The text of programs: round trips, what it says, and what is refused of it.
#include <catch2/catch.hpp>

#include "schemas/plan/bundle_io.h"
#include "tests/unit/plan_bundle_example.h"

using namespace piper;
using namespace piper::plan;

namespace {

std::string message(const Status& status) {
  return status.ok() ? "ok" : status.error().code + " " + status.error().message;
}

std::string program_damage(const std::string& from, const std::string& to) {
  const auto bundle = example::two_ranks();
  const auto& chunks = bundle.manifest.chunks;
  std::string text = print_program(bundle.programs[2], chunks);
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return message(parse_program(text.replace(at, from.size(), to), "p", chunks).status());
}

}  // namespace

TEST_CASE("program text round trip") {
  const auto bundle = example::two_ranks();
  // A program, and slots, with every field.
  std::vector<Program> programs = bundle.programs;
  Program& full = programs.emplace_back(programs[1]);
  full.name = "full";
  full.of = ChunkPass{0, Pass::kBackwardInput, 3, true};
  full.slots[0] = {"p", SlotRole::kParameter, 64, true, false, "layers.0.weight"};
  full.slots.push_back({"s", SlotRole::kScalar, 16, true, false, "", StepNumber::kSeedStep});
  full.slots.push_back({"n", SlotRole::kGradient, 4, true, true, "", StepNumber::kCount, 2});
  for (const auto& program : programs) {
    const auto text = print_program(program, bundle.manifest.chunks);
    const auto parsed = parse_program(text, "p", bundle.manifest.chunks);
    REQUIRE(message(parsed.status()) == "ok");
    CHECK(print_program(*parsed, bundle.manifest.chunks) == text);
    REQUIRE(parsed->of.has_value() == program.of.has_value());
    if (program.of) CHECK(parsed->of->samples == program.of->samples);
    for (size_t slot = 0; slot < program.slots.size(); ++slot) {
      CHECK(parsed->slots[slot].of == program.slots[slot].of);
      CHECK(parsed->slots[slot].holds == program.slots[slot].holds);
      CHECK(parsed->slots[slot].term == program.slots[slot].term);
    }
  }
}

TEST_CASE("a program says what it is of") {
  const auto bundle = example::two_ranks();
  const std::string program = print_program(bundle.programs[2], bundle.manifest.chunks);
  CHECK(program.find("\n\"of\":{\"chunk\":\"c0\",\"pass\":\"F\",\"samples\":4},\n") != std::string::npos);
}

TEST_CASE("damaged programs") {
  CHECK(program_damage("\"x f32[4,4]\"", "\"z f32[4,4]\"") ==
        "P0606 p:11: operand \"z f32[4,4]\": the program has no slot \"z\"");
  CHECK(program_damage("\"x f32[4,4]\"", "\"x f32[4,5]\"") ==
        "P0607 p:11: operand \"x f32[4,5]\" goes beyond the 64 bytes of \"x\"");
  CHECK(program_damage("\"x f32[4,4]\"", "\"x f32[4611686018427387904,4]\"") ==
        "P0607 p:11: operand \"x f32[4611686018427387904,4]\" goes beyond the 64 bytes of \"x\"");
  CHECK(program_damage("\"x f32[4,4]\"", "\"x+2 f32[4]\"") ==
        "P0607 p:11: operand \"x+2 f32[4]\": the offset is not a multiple of the element size");
  CHECK(program_damage("workspace+64 f32", "workspace+252 f32") ==
        "P0607 p:11: operand \"workspace+252 f32[4,4]\" goes beyond the 256 bytes of \"workspace\"");
  CHECK(program_damage("\"x f32[4,4]\"", "\"x f8[4,4]\"") ==
        "P0605 p:11: operand \"x f8[4,4]\" is not of the form \"name+offset dtype[shape]{strides}\"");
  CHECK(program_damage("{1,4}", "{1}") ==
        "P0605 p:11: operand \"weight f32[4,4]{1}\" is not of the form \"name+offset dtype[shape]{strides}\"");
  CHECK(program_damage("{\"slot\":\"weight\"", "{\"slot\":\"x\"") == "P0606 p:7: two slots are called \"x\"");
  CHECK(program_damage("{\"slot\":\"weight\"", "{\"slot\":\"workspace\"") ==
        "P0606 p:7: a slot cannot be called \"workspace\"");
  CHECK(program_damage("\"role\":\"input\"", "\"role\":\"guest\"") == "P0605 p:6: unknown slot role \"guest\"");
  CHECK(program_damage("\"access\":\"read\"", "\"access\":\"r\"") ==
        "P0605 p:6: unknown access \"r\"; read, write, read_write or none");
  CHECK(program_damage("\"dim\":-1", "\"value\":-1") == "P0606 p:12: the attribute \"value\" appears twice");
  CHECK(program_damage("\"calls\":[", "\"calls\":[\"\\uD800\",") != "ok");
  CHECK(program_damage("\"chunk\":\"c0\"", "\"chunk\":\"c1\"") == "P0606 p:3: the manifest has no chunk \"c1\"");
  CHECK(program_damage("\"pass\":\"F\"", "\"pass\":\"G\"") == "P0605 p:3: unknown pass \"G\"");
  CHECK(program_damage("\"samples\":4", "\"samples\":0") ==
        "P0607 p:3: a program of a chunk is for one sample or more");
  CHECK(program_damage("\"role\":\"output\",", "\"role\":\"output\",\"of\":\"y\",") ==
        "P0605 p:8: slot \"y\": only an input, a parameter, a gradient or a state is of the model");
  CHECK(program_damage("\"role\":\"output\",", "\"role\":\"output\",\"holds\":\"seed_step\",") ==
        "P0605 p:8: slot \"y\": another role than that of what it holds");
  CHECK(program_damage("\"role\":\"output\",", "\"role\":\"output\",\"holds\":\"norm\",") ==
        "P0605 p:8: unknown number of the step \"norm\"");
  CHECK(program_damage("\"role\":\"output\",", "\"role\":\"output\",\"holds\":\"none\",") ==
        "P0605 p:8: a slot that holds no number does not say so");
  CHECK(program_damage("\"role\":\"output\",", "\"role\":\"output\",\"term\":1,") ==
        "P0605 p:8: slot \"y\": only a loss and a count have terms");
  CHECK(program_damage("\"role\":\"output\",", "\"role\":\"output\",\"holds\":\"dropped\",\"term\":1,") ==
        "P0605 p:8: slot \"y\": only a loss and a count have terms");
}
