// Cuts in files of a bundle: groups, cut tensors, parts and shares in slots; round trips, and damage refused.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "schemas/plan/bundle_io.h"
#include "tests/unit/plan_bundle_example.h"

using namespace piper;
using namespace piper::plan;

namespace {

std::string message(const Status& status) {
  return status.ok() ? "ok" : status.error().code + " " + status.error().message;
}

// What is said of the example of two ranks with these groups, and its tensor [4, 4] cut so.
std::string cut_damage(const std::vector<std::vector<int32_t>>& groups, const TensorCut& cut,
                       const std::vector<int64_t>& shape = {4, 4}) {
  Manifest manifest = example::two_ranks().manifest;
  manifest.cuts = {{"tp", groups}};
  manifest.tensors[0].shape = shape;
  manifest.tensors[0].cut = cut;
  const auto parsed = parse_manifest(print_manifest(manifest), "m");
  if (!parsed.ok()) return message(parsed.status());
  CHECK(parsed->cuts.size() == 1);
  CHECK(parsed->cuts[0].groups == groups);
  CHECK(parsed->tensors[0].cut == cut);
  return "ok";
}

}  // namespace

TEST_CASE("cuts are over equal groups of the plan's ranks, and cut tensors into equal parts") {
  using Catch::Contains;
  const std::vector<std::vector<int32_t>> pair = {{0, 1}};
  for (const int32_t axis : {0, 1}) CHECK(cut_damage(pair, {0, axis}) == "ok");
  CHECK(cut_damage({{1, 0}}, {0, 1}) == "ok");
  for (const auto& groups : {std::vector<std::vector<int32_t>>(), {{}}, {{0}, {1}}})
    CHECK_THAT(cut_damage(groups, {0, 0}), Contains("P0607") && Contains("groups of at least two ranks"));
  CHECK_THAT(cut_damage({{0, 1}, {0}}, {0, 0}), Contains("P0607"));
  CHECK_THAT(cut_damage({{0, 0}}, {0, 0}), Contains("names rank 0 twice"));
  for (const int32_t rank : {-1, 2}) CHECK_THAT(cut_damage({{0, rank}}, {0, 0}), Contains("P0607"));
  CHECK_THAT(cut_damage(pair, {1, 0}), Contains("cut over something that is not there"));
  CHECK_THAT(cut_damage(pair, {0, 2}), Contains("no axis 2 of 2 equal parts"));
  CHECK_THAT(cut_damage(pair, {0, 1}, {4, 3}), Contains("no axis 1 of 2 equal parts"));
  CHECK_THAT(cut_damage(pair, {0, 0}, {}), Contains("no axis 0"));
  CHECK(cut_damage(pair, {0, 1, 1, {4, 2}}, {4, 6}) == "ok");
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{4}, {3, 3}, {2, 2}, {6}, {8, -2}, {6, 0}})
    CHECK_THAT(cut_damage(pair, {0, 1, 1, extents}, {4, 6}),
               Contains("no axis 1 of 2 equal parts in each of segments"));
  CHECK_THAT(cut_damage(pair, {0, 1, 2, {4, 2}}, {4, 6}), Contains("in each of segments of other extents"));
}

TEST_CASE("slots of values say of which cut they are a part or a share") {
  const std::vector<Chunk> kChunks = {{"c0", "c0", {}}};
  const auto read = [&](const std::string& from, const std::string& to) {
    Program program = example::two_ranks().programs[0];
    REQUIRE(program.slots[0].of.empty());
    program.slots[0].role = SlotRole::kOutput;
    program.slots[0].spread = Spread::kShare;
    program.slots[0].cut = 3;
    std::string text = print_program(program, kChunks);
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    const auto parsed = parse_program(text.replace(at, from.size(), to), "p", kChunks);
    if (!parsed.ok()) return message(parsed.status());
    CHECK(parsed->slots[0].spread == Spread::kShare);
    CHECK(parsed->slots[0].cut == 3);
    return std::string("ok");
  };
  CHECK(read("\"cut\":3", "\"cut\":3") == "ok");
  CHECK(read(",\"cut\":3", "").ends_with("a part or a share, and nothing else, is of a cut"));
  CHECK(read("\"spread\":\"share\",", "").ends_with("a part or a share, and nothing else, is of a cut"));
  CHECK(read("\"output\"", "\"saved\"")
            .ends_with("only what arrives or leaves is a part or a share, and a gradient a share"));
  CHECK(read("\"output\"", "\"gradient\"") == "ok");
  CHECK(read("\"share\"", "\"whole\"").find("\"whole\"") != std::string::npos);
}
