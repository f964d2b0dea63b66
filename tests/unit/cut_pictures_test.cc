// What is said of cuts: why each collective is there and which line asks for it, by piper-plan and by piperc's
// remarks, and the groups of ranks in pictures and traces.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "schemas/base/byte_text.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/provenance_text.h"
#include "tests/unit/compiled_plans.h"
#include "tests/unit/temp_folder.h"
#include "tools/piper_plan/commands.h"
#include "tools/piper_plan/cut_collectives.h"
#include "tools/piper_plan/drawn_step.h"
#include "tools/piper_plan/perfetto_trace.h"

using namespace piper;
using Catch::Matchers::Contains;

namespace {

constexpr int kColumns = 5, kRows = 6, kSequence = 7;  // lines of `strategy`
std::string strategy(bool sequence) {
  return "piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\ndirectives:\n"
         "  - {op: shard, filter: {}, dim: column, over: [[0, 1]]}\n"
         "  - {op: shard, filter: {}, dim: vocabulary, over: [[0, 1]]}\n" +
         std::string(sequence ? "  - {op: shard, filter: {}, dim: sequence, over: [[0, 1]]}\n" : "");
}

struct Told {
  int line;
  const char* kind;
  int64_t times, bytes;
  const char* why;
};
// Every collective of rank 0 over the cut, in these words.
void check_all(const plan::Bundle& bundle, const std::vector<Told>& expected) {
  const auto found = tools::cut_collectives(bundle, bundle.ranks[0]);
  std::string all;
  for (const auto& of : found)
    all +=
        of.line + " " + std::to_string(of.times) + " " + of.kind + " " + std::to_string(of.bytes) + " " + of.why + "\n";
  INFO(all);
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].line == "s.yaml:" + std::to_string(expected[i].line) + ":5");
    CHECK(found[i].kind == expected[i].kind);
    CHECK(found[i].times == expected[i].times);
    CHECK(found[i].bytes == expected[i].bytes);
    CHECK(found[i].why == expected[i].why);
  }
}

std::string text(const Result<std::string>& result) {
  REQUIRE(result.ok());
  return *result;
}

}  // namespace

TEST_CASE("a plan says why each collective of cut columns and tables is there") {
  check_all(
      compiled::bundle("tiny_gpt.onnx", strategy(false)),
      {{kRows, "all_reduce", 1, 1536, "partial sums of 'embedding' of wte are summed before 'add'"},
       {kColumns, "all_reduce", 2, 3072, "partial sums of 'linear' of h.*.proj are summed before 'add' of h.*.proj"},
       {kColumns, "all_reduce", 2, 3072, "partial sums of 'linear' of h.*.out are summed before 'add' of h.*.out"},
       {kRows, "all_reduce", 1, 768, "partial sums of 'row_lse' are summed before 'cross_entropy_sum'"},
       {kRows, "all_reduce", 1, 1536,
        "in the backward pass, partial sums of 'linear_backward_input' of lm_head are summed before "
        "'layer_norm_backward_input' of ln_f "
        "and 'layer_norm_backward_weight' of ln_f"},
       {kColumns, "all_reduce", 2, 3072,
        "in the backward pass, partial sums of 'linear_backward_input' of h.*.fc are summed before "
        "'layer_norm_backward_input' of "
        "h.*.ln2 and 'layer_norm_backward_weight' of h.*.ln2"},
       {kColumns, "all_reduce", 2, 3072,
        "in the backward pass, partial sums of 'linear_backward_input' of h.*.qkv are summed before "
        "'layer_norm_backward_input' of "
        "h.*.ln1 and 'layer_norm_backward_weight' of h.*.ln1"}});
}

// Where the sequence is cut, its line asks for what gathers it and leaves parts; two numbers a row of logits are added
// up for the line of the vocabulary.
TEST_CASE("a plan says which of several lines asks for a collective") {
  const auto bundle = compiled::bundle("tiny_gpt.onnx", strategy(true));
  int64_t gathered = 0, scattered = 0, summed = 0;
  for (const auto& of : tools::cut_collectives(bundle, bundle.ranks[0])) {
    INFO(of.why);
    const bool of_rows = of.why.find("row_lse") != std::string::npos;
    CHECK(of.line == "s.yaml:" + std::to_string(of_rows ? kRows : kSequence) + ":5");
    CHECK_THAT(of.why, Contains(of.kind == "all_gather"       ? "parts of "
                                : of.kind == "reduce_scatter" ? ", and each device gets its part of the sum"
                                                              : "partial sums of "));
    (of.kind == "all_gather" ? gathered : of.kind == "reduce_scatter" ? scattered : summed) += of.times;
  }
  CHECK(gathered == 15);  // five of them again, for the backward
  CHECK(scattered == 10);
  CHECK(summed == 1);
}

TEST_CASE("explain, show and traces have the groups of a cut and its collectives") {
  const TempFolder folder;
  auto bundle = compiled::bundle("tiny_gpt.onnx", strategy(false));
  const std::string plans = folder / "plans";
  REQUIRE(plan::write_bundle(plans, bundle, {}, {}, plan::WeightMode::kNone).ok());
  const std::string why = "partial sums of 'row_lse' are summed before 'cross_entropy_sum'";
  tools::ExplainOptions options;
  options.rank = 0;
  const std::string told = text(tools::explain(plans, options));
  CHECK_THAT(told, Contains("  s.yaml:6:5 "));
  CHECK_THAT(told, Contains("shard at s.yaml:6:5\n"));  // one line, however many reasons
  CHECK_THAT(told, Contains("all_reduce    768 B  tp:0,1  " + why + "\n"));
  options.json = true;
  CHECK_THAT(text(tools::explain(plans, options)),
             Contains(R"({"collective":"all_reduce","stream":"tp:0,1","line":"s.yaml:6:5","why":")" + why +
                      R"(","times":1,"bytes":768})"));
  CHECK_THAT(text(tools::show(plans, {})), Contains("\nCuts\n"));
  CHECK_THAT(text(tools::show(plans, {})), Contains("[0, 1]                            13 of 28  11 all_reduce of"));
  const std::string drawn = text(tools::draw_svg(plans, {}));
  CHECK_THAT(drawn, Contains("collectives of cuts; tp: ranks [0, 1] share samples"));
  CHECK_THAT(drawn, Contains("<path stroke=\"#aa3377\" stroke-width=\"1.5\" d=\"M"));
  const auto played = tools::play_bundle(plans, {});
  REQUIRE(played.ok());
  CHECK_THAT(tools::drawn_step(*played), Contains("tp: ranks [0, 1] share samples"));
  CHECK_THAT(tools::drawn_step(*played), Contains(R"("text":"shard at s.yaml:6:5","why":")" + why));
  const std::string trace = tools::perfetto_trace(*played);
  CHECK_THAT(trace, Contains("rank 1, place 1 of tp [0, 1]"));
  CHECK_THAT(trace, Contains("shard at s.yaml:6:5: " + why));
}

TEST_CASE("piperc says what cut weights become and what conversions move") {
  std::string remarks = compiled::remarks("tiny_gpt.onnx", strategy(false));
  CHECK_THAT(remarks, Contains("h.0.qkv.weight [24, 8] as [12, 8]"));
  CHECK_THAT(remarks, Contains("h.0.proj.weight [8, 8] as [8, 4]"));
  CHECK_THAT(remarks, Contains("lm_head.weight [19, 8] as [10, 8]"));
  CHECK_THAT(remarks, Contains("2 times a microbatch, 3072 bytes together, all_reduce: shard at s.yaml:5:5: partial "
                               "sums of 'linear' of h.*.out are summed before 'add' of h.*.out"));
  CHECK_THAT(remarks, !Contains("whole on every device: h.0.proj.weight"));  // it is cut by its input features
  remarks = compiled::remarks("tiny_gpt.onnx", strategy(true));
  CHECK_THAT(remarks,
             Contains("2 times a microbatch, 3072 bytes together, reduce_scatter: shard at s.yaml:7:5: partial "
                      "sums of 'linear' of h.*.out"));
}

TEST_CASE("reasons of several layers are one") {
  CHECK(plan::of_any_layer("of h.12.mlp, h.3 meet h.0") == "of h.*.mlp, h.* meet h.*");
  CHECK(plan::of_any_layer("v1.2b and 3.5x") == "v1.2b and 3.5x");
  CHECK(plan::strategy_line({"all.sum@s.yaml:3:5", ""}) == "s.yaml:3:5");
  CHECK(plan::strategy_line({"s.yaml:3:5", ""}) == "s.yaml:3:5");
  CHECK(plan::whole_text({"s.yaml:3:5", "place at s.yaml:3:5"}) == "place at s.yaml:3:5");
  CHECK(plan::whole_text({"a@s.yaml:3:5", "shard at s.yaml:3:5", "shares"}) == "shard at s.yaml:3:5: shares");
  CHECK(tools::groups_text({"tp", {{0, 1}, {2, 3}}}) == "[0, 1] [2, 3]");
  plan::Cut many{"tp", {}};
  for (int32_t g = 0; g < 10; ++g) many.groups.push_back({2 * g, 2 * g + 1});
  CHECK_THAT(tools::groups_text(many), Contains("[14, 15] and 2 more"));
}
