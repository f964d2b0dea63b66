// Weights of which each place has a part, in whole steps: plans are proved, every element of a tensor is saved and
// counted by one rank, and no bucket has parts beside whole weights.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"

namespace piper {
namespace {

using plan::PlacementKind;

// Two replicas of two places.
std::string replicas(const std::string& more, const std::string& model = "", const std::string& rest = "") {
  return "piper: 1\nmodel: {batch: 16" + model + "}\noptimizer: {adamw: {lr: 0.001}}\nclip_grad_norm: 1.0\n" + rest +
         "directives:\n  - {op: split, num_microbatches: 2}\n"
         "  - {op: replicate, filter: {}, devices: [0, 1, 2, 3]" +
         more + "}\n  - {op: shard, filter: {}, dim: column, over: [[0, 1], [2, 3]]}\n";
}

// Two stages of two places.
std::string stages(const std::string& family, const std::string& more) {
  return "piper: 1\nmodel: {batch: 16}\nannotate: [{tag: PP, starts: [wte, h.1]}]\noptimizer: {adamw: {lr: 0.001}}\n"
         "clip_grad_norm: 1.0\nschedule: {family: " +
         family + ", microbatches: 2, ranks: [[0, 1], [2, 3]]}\ndirectives:\n" + more +
         "  - {op: shard, filter: {}, dim: column, over: [[0, 1], [2, 3]]}\n";
}

const plan::TensorInfo& tensor(const plan::Bundle& bundle, const std::string& name) {
  const auto& all = bundle.manifest.tensors;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& t) { return t.name == name; });
  REQUIRE(found != all.end());
  return *found;
}

// What each rank owns of each kind is each element once, whether places have parts or all of it.
void check_owners(const plan::Bundle& bundle) {
  std::map<std::pair<std::string, PlacementKind>, std::vector<std::pair<int64_t, int64_t>>> owned;
  for (const plan::RankPlan& rank : bundle.ranks)
    for (const plan::Placement& p : rank.placements) {
      if (p.kind == PlacementKind::kConstant || p.kind == PlacementKind::kWorking) continue;
      auto& ranges = owned[{p.name, p.kind}];
      if (p.part.owner) ranges.emplace_back(p.part.first, p.part.first + p.part.count);
    }
  REQUIRE_FALSE(owned.empty());
  for (auto& [what, ranges] : owned) {
    INFO(what.first << ", kind " << static_cast<int>(what.second));
    int64_t elements = 1, end = 0;
    for (const int64_t extent : tensor(bundle, what.first).shape) elements *= extent;
    std::sort(ranges.begin(), ranges.end());
    for (const auto& [first, last] : ranges) {
      CHECK(first == end);
      end = last;
    }
    CHECK(end == elements);
  }
}

// What of a part lies where parts of other tensors do.
void check_buckets(const plan::Bundle& bundle) {
  for (const plan::RankPlan& rank : bundle.ranks) {
    std::map<int32_t, std::set<bool>> cut;  // buffer -> of tensors that are cut, or not
    for (const plan::Placement& p : rank.placements)
      if (p.kind != PlacementKind::kConstant) cut[p.part.where.buffer].insert(tensor(bundle, p.name).cut.has_value());
    for (const auto& [buffer, kinds] : cut) CHECK(kinds.size() == 1);
  }
}

void check(const std::string& model, const std::string& strategy) {
  INFO(strategy);
  const plan::Bundle bundle = compiled::bundle(model, strategy);
  const auto report = verify::verify(bundle);
  INFO((report.ok() ? "" : report.error().code + " " + report.error().message));
  REQUIRE(report.ok());
  REQUIRE(bundle.manifest.cuts.size() == 1);
  CHECK(bundle.manifest.cuts[0].name == "tp");
  std::set<int32_t> axes;
  for (const plan::TensorInfo& t : bundle.manifest.tensors)
    if (t.cut) axes.insert(t.cut->axis);
  CHECK(axes == std::set<int32_t>{0, 1});
  check_owners(bundle);
  check_buckets(bundle);
}

}  // namespace

TEST_CASE("places have parts of weights, replicas the same parts") {
  for (const char* zero : {"", ", shard_optimizer: true", ", shard_grads: true", ", shard_params: true",
                           ", shard_params: true, parts_over: [[0, 1], [2, 3]]"})
    for (const char* model : {"tiny_mlp.onnx", "tiny_gpt.onnx"}) check(model, replicas(zero));
}

TEST_CASE("frozen weights that are cut are saved by the places of one replica") {
  check("tiny_gpt.onnx", replicas("", ", freeze: [\"h.*\"]"));
  check("tiny_gpt.onnx", replicas(", shard_params: true", ", freeze: [\"*.weight\"]"));
}

TEST_CASE("masters and working copies of parts") {
  const std::string mixed = "precision: {compute: bf16, master: f32}\n";
  for (const char* zero : {"", ", shard_optimizer: true", ", shard_params: true"})
    check("tiny_mlp.onnx", replicas(zero, "", mixed));
}

TEST_CASE("stages of places") {
  for (const char* family : {"gpipe", "1f1b", "zero_bubble"}) check("tiny_gpt.onnx", stages(family, ""));
  check("tiny_gpt.onnx", stages("1f1b", "  - {op: recompute, filter: {PP: 0}}\n"));
}

}  // namespace piper
