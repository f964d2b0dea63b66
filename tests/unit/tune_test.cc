// Strategies that are tuned: they are never worse, fit, are proved, and say what changed.
#include "compiler/tune/tune.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "compiler/frontend/model_file.h"
#include "compiler/machine/load_machine.h"
#include "compiler/tune/pass_times.h"
#include "compiler/tune/trial.h"
#include "tests/source_path.h"
#include "tests/unit/temp_folder.h"

namespace piper::tune {
namespace {

constexpr const char* kPipeline = R"(piper: 1
model: {batch: 8}
annotate: [{tag: PP, starts: ["h.0", "h.1"]}]
# kept as it is
schedule: {family: 1f1b, microbatches: 4}
optimizer: {sgd: {lr: 0.1}}
)";

constexpr const char* kReplicas = R"(piper: 1
model: {batch: 8}
directives:
  - {op: replicate, filter: {}, devices: [0, 1], bucket_size: 1}
optimizer: {sgd: {lr: 0.1}}
)";

std::string machine(const TempFolder& folder) {
  return folder.write("m.yaml", R"(name: two slow ones
device: cpu
ranks_per_node: 1
flops: {f32: 1.0e9}
memory_bytes: 1.0e9
memory_bytes_per_second: 1.0e9
efficiency: {product: 1, grouped_product: 1, attention: 1, memory: 1}
kernel_us: 0
host_us: 0
inside_node: {latency_us: 1, bytes_per_second: 1.0e8}
between_nodes: {latency_us: 1, bytes_per_second: 1.0e8}
)");
}

struct Tuned {
  Status status;
  std::string text, told, errors;
};
Tuned tuned(const TempFolder& folder, const std::string& strategy, int64_t limit = 0, int64_t candidates = 150,
            const std::vector<std::string>& sets = {}) {
  TuneOptions options;
  options.compile.model = test::source_path("tests/models/tiny_gpt.onnx");
  options.compile.strategy = folder.write("s.yaml", strategy);
  diag::Diagnostics diags;
  options.compile.machine = machine::load_machine(machine(folder), diags).value();
  options.compile.memory_limit = limit;
  options.compile.overrides = sets;
  options.output = folder / "tuned.yaml";
  options.candidates = candidates;
  std::ostringstream out;
  Tuned done;
  done.status = tune(options, diags, out);
  std::ifstream file(options.output);
  done.text.assign(std::istreambuf_iterator<char>(file), {});
  done.told = out.str();
  done.errors = diags.render_text(false);
  return done;
}

// What a strategy costs, by whoever did not tune it.
Trial judged(const TempFolder& folder, const std::string& text) {
  diag::Diagnostics diags;
  driver::CompileOptions options;
  options.strategy = "s.yaml";
  auto model = frontend::open_model(test::source_path("tests/models/tiny_gpt.onnx"), "auto", diags);
  REQUIRE(model.ok());
  const auto target = machine::load_machine(machine(folder), diags);
  REQUIRE(target.ok());
  Judge judge(options, std::move(model).value(), *target, {}, 0);
  auto trial = judge.judge(text, diags);
  INFO(diags.render_text(false));
  REQUIRE(trial.ok());
  return std::move(trial).value();
}

bool holds(const std::string& all, const std::string& part) { return all.find(part) != std::string::npos; }

}  // namespace

// "L2" with index 1 is stage 1 of tag L2, not stage 21 of tag L.
TEST_CASE("passes of stages are found by a tag that ends in a digit") {
  plan::Bundle bundle;
  timeline::Timeline timeline;
  plan::RankPlan& plan = bundle.ranks.emplace_back();
  timeline.activities.emplace_back();
  for (int32_t stage = 0; stage < 2; ++stage) {
    bundle.manifest.chunks.push_back({"L2" + std::to_string(stage), "L2" + std::to_string(stage), {{"L2", stage}}});
    bundle.programs.push_back(
        {"p" + std::to_string(stage), {}, 0, {}, plan::ChunkPass{stage, plan::Pass::kForward, 1}});
    plan.arguments.push_back({"a" + std::to_string(stage), {}, 0});
    plan.instructions.push_back({0, plan::Run{stage, stage, {}}, -1});
    timeline.activities[0].push_back({timeline::Kind::kRun, 0, 0.0, 3.0 + stage});
  }
  const PassTimes times(bundle, timeline, "L2", 2);
  CHECK(times.of(0, strategy::Pass::kF).compute == 3);
  CHECK(times.of(1, strategy::Pass::kF).compute == 4);
  CHECK(PassTimes(bundle, timeline, "L", 22).of(21, strategy::Pass::kF).compute == 0);
}

TEST_CASE("a pipeline's passes are moved, and every change says what it gained") {
  const TempFolder folder;
  const Tuned done = tuned(folder, kPipeline);
  INFO(done.errors << done.told << done.text);
  REQUIRE(done.status.ok());
  CHECK(holds(done.text, "# kept as it is\n# schedule: {family: 1f1b, microbatches: 4}\n"));
  CHECK(holds(done.text, "  # tuned: passes by list scheduling"));
  CHECK(holds(done.told, "tuned: "));
  const Trial before = judged(folder, kPipeline), after = judged(folder, done.text);
  CHECK(after.step_us < before.step_us);
  // The same input, the same file.
  CHECK(tuned(folder, kPipeline).text == done.text);
  // What was tuned is a start like any other, and is never made worse.
  const Tuned again = tuned(folder, done.text);
  REQUIRE(again.status.ok());
  CHECK(judged(folder, again.text).step_us <= after.step_us);
}

// All gradients in one bucket leave behind the backward; in small ones most of them leave beside it. The first smaller
// sizes hold all of them, too.
TEST_CASE("buckets become smaller where reductions are exposed") {
  const TempFolder folder;
  const Tuned done = tuned(folder, kReplicas);
  INFO(done.errors << done.told << done.text);
  REQUIRE(done.status.ok());
  CHECK(holds(done.text, "  # tuned: bucket_size 1 -> 0.00"));
  CHECK(judged(folder, done.text).step_us < judged(folder, kReplicas).step_us);
}

TEST_CASE("what does not fit is made to fit, and what cannot be is refused") {
  const TempFolder folder;
  const Trial start = judged(folder, kPipeline);
  const int64_t limit = start.peak_bytes - 4096;
  const Tuned done = tuned(folder, kPipeline, limit);
  INFO(done.errors << done.told << done.text);
  REQUIRE(done.status.ok());
  CHECK(judged(folder, done.text).peak_bytes <= limit);
  const Tuned refused = tuned(folder, kPipeline, 1000);
  CHECK(!refused.status.ok());
  CHECK(holds(refused.errors, "error[P0520]: nothing that was tried needs at most 1000 bytes a rank; the least is "));
}

// What strategies for many ranks are written in.
TEST_CASE("a pipeline of a mesh is tuned") {
  const TempFolder folder;
  const std::string strategy = R"(piper: 1
mesh: {pp: 2, dp: 2}
model: {batch: 16}
annotate: [{tag: PP, starts: ["h.0", "h.1"]}]
schedule: {family: 1f1b, microbatches: 4, ranks: {pp: each}}
optimizer: {sgd: {lr: 0.1}}
)";
  const Tuned done = tuned(folder, strategy);
  INFO(done.errors << done.told << done.text);
  REQUIRE(done.status.ok());
  CHECK(holds(done.text, "# mesh: {pp: 2, dp: 2}\n"));
  CHECK(judged(folder, done.text).step_us < judged(folder, strategy).step_us);
}

// A bare list has no comments of its own; what is written is YAML.
TEST_CASE("a list of directives in JSON is tuned") {
  const TempFolder folder;
  const Tuned done =
      tuned(folder, R"([{"op": "split", "num_microbatches": 4},
 {"op": "place", "filter": {"PP": 0}, "devices": [0]}, {"op": "place", "filter": {"PP": 1}, "devices": [1]},
 {"op": "order", "filters": [[{"PP": 0, "MB": 0, "PASS": "F"}], [{"PP": 0, "MB": 0, "PASS": "B"}],
   [{"PP": 0, "MB": 1, "PASS": "F"}], [{"PP": 0, "MB": 1, "PASS": "B"}], [{"PP": 0, "MB": 2, "PASS": "F"}],
   [{"PP": 0, "MB": 2, "PASS": "B"}], [{"PP": 0, "MB": 3, "PASS": "F"}], [{"PP": 0, "MB": 3, "PASS": "B"}]]}]
)",
            0, 150, {"model.batch=8", "annotate=[{tag: PP, starts: [h.0, h.1]}]", "optimizer.sgd.lr=0.1"});
  INFO(done.errors << done.told << done.text);
  REQUIRE(done.status.ok());
  CHECK(holds(done.text, "# tuned: passes by list scheduling"));
}

// Nobody who compiles the file later gives --set again.
TEST_CASE("what is written has the values of --set, and is what was priced") {
  const TempFolder folder;
  std::string expected = kPipeline;
  expected.replace(expected.find("batch: 8"), 8, "batch: 16");
  CHECK(tuned(folder, kPipeline, 0, 1, {"model.batch=16"}).text == expected);
  const Tuned done = tuned(folder, kPipeline, 0, 150, {"model.batch=16", "schedule.microbatches=8"});
  INFO(done.errors << done.told << done.text);
  REQUIRE(done.status.ok());
  CHECK(holds(done.text, "# kept as it is\n# schedule: {family: 1f1b, microbatches: 8}\n"));
  const Trial after = judged(folder, done.text);
  const size_t said = done.told.find("\ntuned: ");
  REQUIRE(said != std::string::npos);
  CHECK(std::stod(done.told.substr(said + 8)) == Approx(after.step_us / 1000).epsilon(1e-3));
  CHECK(holds(tuned(folder, kPipeline, 0, 1, {"model.batch=x"}).errors, "--set:1:13: error[P0202]"));
}

// A recomputation that the machine's memory does not need.
TEST_CASE("recomputation is left out where there is memory for what it saves") {
  const TempFolder folder;
  std::string strategy = kPipeline;
  strategy += "directives:\n  - {op: recompute, filter: {PP: 0}}\n";
  const Tuned done = tuned(folder, strategy);
  INFO(done.errors << done.told << done.text);
  REQUIRE(done.status.ok());
  CHECK(holds(done.text, "# tuned: without {op: recompute, filter: {PP: 0}}: "));
  CHECK(!holds(done.text, "\n  - {op: recompute"));
}

// The whole loss is one stage: MLPs and attention are what can be repeated. All of it would cost the most.
TEST_CASE("of what is repeated to fit only what is needed stays") {
  const TempFolder folder;
  const std::string strategy = R"(piper: 1
model: {batch: 8}
optimizer: {sgd: {lr: 0.1}}
)";
  const Trial start = judged(folder, strategy);
  const Trial all = judged(folder, strategy + "directives: [{op: recompute}]\n");
  REQUIRE(all.peak_bytes < start.peak_bytes);
  const int64_t limit = start.peak_bytes - (start.peak_bytes - all.peak_bytes) / 3;
  const Tuned done = tuned(folder, strategy, limit);
  INFO(done.errors << done.told << done.text);
  REQUIRE(done.status.ok());
  const Trial after = judged(folder, done.text);
  CHECK(after.peak_bytes <= limit);
  CHECK(after.step_us < all.step_us);
  CHECK(holds(done.text, "op: recompute"));
  // Each kind says the best of what was no better, and what it lacked.
  CHECK(holds(done.told, "recomputation: "));
  CHECK(holds(done.told, " none better; the best, "));
}

TEST_CASE("replicas keep shards where whole copies do not fit") {
  const TempFolder folder;
  std::string strategy = kReplicas;
  strategy.replace(strategy.find("sgd: {lr: 0.1}"), 14, "adamw: {lr: 0.1}");
  std::string sharded = strategy;
  sharded.replace(sharded.find("bucket_size: 1"), 14, "bucket_size: 1, shard_optimizer: true");
  const Trial start = judged(folder, strategy), parts = judged(folder, sharded);
  REQUIRE(parts.peak_bytes < start.peak_bytes);
  const Tuned done = tuned(folder, strategy, parts.peak_bytes);
  INFO(done.errors << done.told << done.text);
  REQUIRE(done.status.ok());
  CHECK(judged(folder, done.text).peak_bytes <= parts.peak_bytes);
  CHECK(holds(done.text, "shard_"));
  CHECK(holds(done.text, "# tuned: replicas with shard_"));
}

TEST_CASE("a start that does not compile is told as piperc tells it") {
  const TempFolder folder;
  const Tuned done =
      tuned(folder, "piper: 1\nmodel: {batch: 8}\ndirectives: [{op: plaze}]\noptimizer: {sgd: {lr: 1}}\n");
  CHECK(!done.status.ok());
  CHECK(holds(done.errors, "s.yaml:3:19: error[P0205]"));
}

TEST_CASE("as many strategies are compiled as one asks for") {
  const TempFolder folder;
  const Tuned done = tuned(folder, kPipeline, 0, 1);
  REQUIRE(done.status.ok());
  CHECK(holds(done.told, "nothing that was tried is better"));
  CHECK(done.text == kPipeline);
}

}  // namespace piper::tune
