// What piperc says of a bundle that it wrote.
#include <catch2/catch.hpp>

#include <sstream>

#include "compiler/driver/compile.h"
#include "compiler/machine/load_machine.h"
#include "tests/source_path.h"
#include "tests/unit/temp_folder.h"

namespace piper::driver {
namespace {

std::string said(const TempFolder& folder, const std::string& strategy, Emit emit = Emit::kNone,
                 const std::string& machine = "") {
  CompileOptions options;
  options.model = test::source_path("tests/models/tiny_gpt.onnx");
  options.strategy = folder.write("s.yaml", strategy);
  options.output = folder / "plans";
  options.emit = emit;
  diag::Diagnostics diags;
  if (!machine.empty()) options.machine = machine::load_machine(machine, diags).value();
  std::ostringstream out, err;
  const auto done = compile(options, diags, out, err);
  INFO(diags.render_text(false));
  REQUIRE(done.ok());
  return out.str();
}

constexpr const char* kTwoStages = R"(piper: 1
model: {batch: 8}
annotate:
  - {tag: PP, starts: ["h.0", "h.1"]}
directives:
  - {op: place, filter: {PP: 0}, devices: [0]}
  - {op: place, filter: {PP: 1}, devices: [1]}
schedule: {family: 1f1b, microbatches: 4}
optimizer: {sgd: {lr: 0.1}}
)";

}  // namespace

TEST_CASE("a bundle is told by its ranks, its memory and its idle time") {
  const TempFolder folder;
  const std::string two = said(folder, kTwoStages);
  // Four microbatches of 3 units on each of two stages, of which the other is a forward and a backward away: 15 units.
  CHECK(two.find((folder / "plans") + ": 2 ranks, at most ") == 0);
  CHECK(two.find(" KiB of memory (rank 0), idle 20 % of a step\n") != std::string::npos);
  const std::string one = said(folder, "model: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\n");
  CHECK(one.find((folder / "plans") + ": 1 rank, at most ") == 0);
  CHECK(one.find(", idle 0 % of a step\n") != std::string::npos);
}

TEST_CASE("nothing is added to a text that was asked for") {
  const TempFolder folder;
  CHECK(said(folder, kTwoStages, Emit::kDag).find(" of memory (rank ") == std::string::npos);
}

TEST_CASE("with a machine a bundle is told by the time of its step") {
  const TempFolder folder;
  const std::string line =
      said(folder, kTwoStages, Emit::kNone, test::source_path("strategies/targets/cpu_two_cores.yaml"));
  INFO(line);
  CHECK(line.find(" ms a step on two cores, ranks as processes\n") != std::string::npos);
}

TEST_CASE("the line says that the largest rank does not fit") {
  const TempFolder folder;
  diag::Diagnostics diags;
  CompileOptions options;
  options.model = test::source_path("tests/models/tiny_gpt.onnx");
  options.strategy = folder.write("s.yaml", kTwoStages);
  options.output = folder / "plans";
  options.machine = machine::load_machine(test::source_path("strategies/targets/cpu_two_cores.yaml"), diags).value();
  const auto outcome = [&](double memory_bytes, int64_t limit) {
    options.machine->memory_bytes = memory_bytes;
    options.memory_limit = limit;
    std::ostringstream out, err;
    const auto done = compile(options, diags, out, err);
    INFO(diags.render_text(false));
    REQUIRE(done.ok());
    const bool told = out.str().find(", which has 1.0 KiB: does not fit\n") != std::string::npos;
    CHECK(told == (*done == Outcome::kTooLarge));
    return *done;
  };
  CHECK(outcome(1e9, 0) == Outcome::kMade);
  CHECK(outcome(1024, 0) == Outcome::kTooLarge);
  CHECK(outcome(1024, 1 << 30) == Outcome::kMade);  // whoever gives a limit knows better
}

}  // namespace piper::driver
