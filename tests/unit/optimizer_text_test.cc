// The optimizers of a manifest in its text.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/bundle_io.h"
#include "tests/unit/plan_bundle_example.h"

namespace piper::plan {
namespace {

TEST_CASE("an optimizer of matrices and that of the rest are printed and parsed") {
  auto bundle = example::two_ranks();
  bundle.manifest.files = {{"ranks/rank-00000.json", "00", 3}};
  Optimizer& optimizer = bundle.manifest.optimizer;
  optimizer.kind = "muon";
  optimizer.steps = 7;
  optimizer.adjust = RateByShape::kMatchRmsAdamw;
  optimizer.rest.emplace().kind = "adamw";
  optimizer.groups.push_back({"rest_decay", 0.01, true});
  const std::string text = print_manifest(bundle.manifest);
  CHECK(text.find("\"nesterov\":false,\"steps\":7,\"adjust\":\"match_rms_adamw\",\"rest\":{\"kind\":\"adamw\"") !=
        std::string::npos);
  CHECK(text.find("\"weight_decay\":0.01,\"rest\":true") != std::string::npos);
  const auto parsed = parse_manifest(text, "m");
  REQUIRE(parsed.ok());
  CHECK(print_manifest(*parsed) == text);
  CHECK(parsed->optimizer.steps == 7);
  CHECK(parsed->optimizer.rest->kind == "adamw");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"steps\":7", "\"steps\":0"},
           {"match_rms_adamw", "spectral"},
           {"\"rest\":{\"kind\":\"adamw\"", "\"rest\":{\"kind\":\"newton\""},
           {"\"optimizer\":{\"kind\":\"muon\",\"lr\":0.01", "\"optimizer\":{\"kind\":\"muon\",\"lr\":0.0"}}) {
    std::string damaged = text;
    REQUIRE(damaged.find(from) != std::string::npos);
    damaged.replace(damaged.find(from), from.size(), to);
    INFO(to);
    REQUIRE_FALSE(parse_manifest(damaged, "m").ok());
    CHECK(parse_manifest(damaged, "m").status().error().code == (to == "\"steps\":0" ? "P0607" : "P0605"));
  }
  optimizer.rest.reset();  // a group of it is left
  CHECK_FALSE(parse_manifest(print_manifest(bundle.manifest), "m").ok());
}

TEST_CASE("phases of a learning rate are printed and parsed") {
  auto bundle = example::two_ranks();
  bundle.manifest.files = {{"ranks/rank-00000.json", "00", 3}};
  LrSchedule& schedule = bundle.manifest.lr_schedule;
  schedule.kind = "phases";
  schedule.phases = {{LrCurve::kOneMinusSqrt, 10, 1, 0.25},
                     {LrCurve::kPolynomial, 7, 0.25, 0.1, 2},
                     {LrCurve::kInverseSqrt, 0, 0.1, 0, 1, 40}};
  const std::string text = print_manifest(bundle.manifest);
  CHECK(text.find(R"("phases":[{"curve":"1-sqrt","steps":10,"from":1.0,"to":0.25},)"
                  R"({"curve":"polynomial","steps":7,"from":0.25,"to":0.1,"power":2.0},)"
                  R"({"curve":"inverse_sqrt","steps":0,"from":0.1,"timescale":40.0}])") != std::string::npos);
  const auto parsed = parse_manifest(text, "m");
  REQUIRE(parsed.ok());
  CHECK(print_manifest(*parsed) == text);
  CHECK(parsed->lr_schedule.phases.at(1).power == 2);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"curve\":\"polynomial\"", "\"curve\":\"cubic\""},
                                                        {"\"steps\":7", "\"steps\":0"},
                                                        {"\"power\":2.0", "\"power\":-2.0"},
                                                        {"\"steps\":10", "\"steps\":-1"},
                                                        {"\"to\":0.25", "\"timescale\":0.25"}}) {
    std::string damaged = text;
    REQUIRE(damaged.find(from) != std::string::npos);
    damaged.replace(damaged.find(from), from.size(), to);
    INFO(to);
    CHECK_FALSE(parse_manifest(damaged, "m").ok());
  }
  std::swap(schedule.phases[0], schedule.phases[2]);  // one without end in front
  CHECK_FALSE(parse_manifest(print_manifest(bundle.manifest), "m").ok());
  schedule.phases.clear();
  CHECK_FALSE(parse_manifest(print_manifest(bundle.manifest), "m").ok());
}

}  // namespace
}  // namespace piper::plan
