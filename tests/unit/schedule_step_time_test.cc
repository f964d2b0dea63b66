// The plans of every schedule family take the time that the family is known for: the emitted instructions, waits and messages of
// all ranks are played with unit costs, one compute lane a rank, free communication.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/driver/compile.h"
#include "schemas/plan/bundle_io.h"
#include "tools/piper_plan/timeline.h"

namespace piper::driver {
namespace {

namespace fs = std::filesystem;

// A chain of 16 equal layers in `stages` stages; F = 1, B = 2, BI = BW = 1.
double step_time(const std::string& family, int stages, int microbatches) {
  const fs::path folder = fs::temp_directory_path() / ("piper-step-time-" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream file(folder / "s.yaml");
  file << "model: {batch: " << 2 * microbatches << "}\nannotate: [{tag: PP, starts: [";
  for (int s = 0; s < stages; ++s) file << (s > 0 ? ", " : "") << "layers." << s * 16 / stages;
  file << "]}]\noptimizer: {sgd: {lr: 0.1}}\nschedule: {family: " << family << ", microbatches: " << microbatches << "}\n";
  file.close();
  CompileOptions options;
  options.model = std::string(PIPER_SOURCE_DIR) + "/tests/models/chain.onnx";
  options.strategy = (folder / "s.yaml").string();
  options.output = (folder / "plans").string();
  options.weights = plan::WeightMode::kNone;
  diag::Diagnostics diags;
  std::ostringstream out, err;
  const Status status = compile(options, diags, out, err);
  if (!status.ok()) FAIL(status.error().message << "\n" << diags.render_text(false));
  const auto bundle = plan::read_bundle(options.output);
  REQUIRE(bundle.ok());
  const auto timeline = tools::simulate(*bundle, {});
  REQUIRE(timeline.ok());
  fs::remove_all(folder);
  return timeline->step;
}

}  // namespace

TEST_CASE("a step of one stage per rank takes its ideal time") {
  const int shapes[3][2] = {{2, 4}, {4, 8}, {8, 16}};
  const int whole[] = {15, 33, 69}, halves[] = {13, 27, 55};
  for (int k = 0; k < 3; ++k) {
    INFO(shapes[k][0] << " ranks");
    CHECK(step_time("gpipe", shapes[k][0], shapes[k][1]) == whole[k]);
    CHECK(step_time("1f1b", shapes[k][0], shapes[k][1]) == whole[k]);
    CHECK(step_time("zero_bubble", shapes[k][0], shapes[k][1]) == halves[k]);
  }
}

TEST_CASE("a step of two stages per rank takes its ideal time") {
  const int shapes[3][2] = {{4, 4}, {8, 8}, {16, 16}};  // on 2, 4 and 8 ranks
  const int loop[] = {27, 57, 117}, halves[] = {25, 51, 103};
  for (int k = 0; k < 3; ++k) {
    INFO(shapes[k][0] << " stages");
    CHECK(step_time("interleaved_1f1b", shapes[k][0], shapes[k][1]) == loop[k]);
    for (const char* family : {"interleaved_zero_bubble", "zb_v", "dualpipev"}) {
      INFO(family);
      CHECK(step_time(family, shapes[k][0], shapes[k][1]) == halves[k]);
    }
  }
}

TEST_CASE("two copies of a pipeline take as long as a V of half the ranks and microbatches") {
  CHECK(step_time("dualpipe", 4, 8) == 25);
  CHECK(step_time("dualpipe", 8, 16) == 51);
}

}  // namespace piper::driver
