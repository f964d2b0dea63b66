// The plans of every schedule family take the time that the family is known for: the emitted instructions, waits and
// messages of all ranks are played with unit costs, one compute lane a rank, free communication.
#include <catch2/catch.hpp>

#include <sstream>

#include "schemas/plan/bundle_io.h"
#include "schemas/timeline/timeline.h"
#include "tests/unit/compiled_plans.h"
#include "tests/unit/temp_folder.h"
#include "tools/piper_plan/commands.h"

namespace piper::tools {
namespace {

// A chain of 16 equal layers in `stages` stages.
plan::Bundle chain(const std::string& family, int stages, int microbatches, const std::string& directives = "") {
  std::ostringstream text;
  text << "model: {batch: " << 2 * microbatches << "}\nannotate: [{tag: PP, starts: [";
  for (int s = 0; s < stages; ++s) text << (s > 0 ? ", " : "") << "layers." << s * 16 / stages;
  text << "]}]\noptimizer: {sgd: {lr: 0.1}}\nschedule: {family: " << family << ", microbatches: " << microbatches
       << "}\n"
       << directives;
  return compiled::bundle("chain.onnx", text.str());
}

// F = 1, B = 2, BI = BW = 1.
double step_time(const plan::Bundle& bundle) {
  const auto timeline = timeline::simulate(bundle, {});
  REQUIRE(timeline.ok());
  return timeline->step;
}
double step_time(const std::string& family, int stages, int microbatches) {
  return step_time(chain(family, stages, microbatches));
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

// Buckets cut every stage into pieces: two ranks a stage, four microbatches, 15 units as without them.
TEST_CASE("the pieces of a stage take the time of the stage and are drawn as one") {
  auto bundle = chain("1f1b", 2, 4,
                      "directives:\n"
                      "  - {op: replicate, filter: {PP: 0}, devices: [0, 1], bucket_size: 0.0001}\n"
                      "  - {op: replicate, filter: {PP: 1}, devices: [2, 3], bucket_size: 0.0001}\n");
  REQUIRE(bundle.programs.size() > 8);
  CHECK(step_time(bundle) == Approx(15));
  const TempFolder folder;
  REQUIRE(plan::write_bundle(folder / "plans", bundle, {}, {}, plan::WeightMode::kNone).ok());
  const auto shown = show(folder / "plans", {});
  REQUIRE(shown.ok());
  INFO(*shown);
  CHECK(shown->find("0,1   |F0 F1 ......B0--- F2 B1--- F3 B2--- ...B3--- |") != std::string::npos);
  CHECK(shown->find("2,3   |...F0 B0--- F1 B1--- F2 B2--- F3 B3--- ......|") != std::string::npos);
}

}  // namespace piper::tools
