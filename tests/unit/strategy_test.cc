// The strategy loader on right programs, overrides, bare lists, and what is generated from specs.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compiler/directives/directive_table.h"
#include "compiler/strategy/describe_specs.h"
#include "compiler/strategy/directive_args.h"
#include "compiler/strategy/filter.h"
#include "compiler/strategy/loader.h"
#include "tests/source_path.h"

namespace piper::strategy {
namespace {

Strategy load(const std::string& text, const std::vector<std::string>& overrides = {},
              diag::Diagnostics* remarks = nullptr) {
  diag::Diagnostics own;
  diag::Diagnostics& diags = remarks != nullptr ? *remarks : own;
  auto strategy = parse_strategy("dir/s.yaml", text, overrides, directives::all_specs(), diags);
  INFO(diags.render_text(true));
  REQUIRE(strategy.ok());
  return std::move(strategy).value();
}

// The rendered errors of a wrong program.
std::string errors(const std::string& text, const std::vector<std::string>& overrides = {}) {
  diag::Diagnostics diags;
  auto strategy = parse_strategy("s.yaml", text, overrides, directives::all_specs(), diags);
  CHECK(!strategy.ok());
  return diags.render_text(false);
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

const char* const kEveryKey = R"(piper: 1
model:
  batch: 64
  dims: {S: 128}
  loss: {cross_entropy: {logits: logits, labels: labels}}
  inputs: {input_ids: tokens, labels: next_tokens}
  freeze: ["*.wte"]
annotate:
  - {tag: PP, starts: ["*.h.0", "*.h.4"]}
  - {tag: XX, stages: 4, balance: flops}
  - {tag: EP, modules: ["*.mlp.experts"]}
directives:
  - {op: place,     filter: {PP: 0}, devices: [0, 1], stream: pp}
  - {op: place,     filter: {PP: 1}, devices: [2, 3]}
  - {op: replicate, filter: {PP: 0}, devices: [0, 1], bucket_size: 25, shard_params: true, residency: step, prefetch: 2}
  - {op: split, num_microbatches: 2}
  - {op: order, filters: [[{PP: 0, MB: 0, PASS: F}], [{PP: 0, MB: [0, 2, "4..6"], PASS: BI}, {PP: "*"}], [{PASS: BW}]]}
  - {op: shard, filter: {EP: "*"}, devices: [[0, 1], [2, 3]], capacity: {factor: 1.25, overflow: error}}
  - op: recompute
    filter: {PP: "0..1"}
  - {op: stream, filter: {PP: 0, PASS: BW}, name: weights}
streams: {ep: {priority: high, max_ctas: 8}}
per_microbatch: ["*.mlp.router"]
optimizer: {adamw: {lr: 3.0e-4, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.1, no_decay: ["*.bias", "*norm*"]}}
lr_schedule: {warmup: 100, cosine: {until: 2000, to: 0.1}}
clip_grad_norm: 1.0
run: {data: corpus.bin, steps: 2000, seed: 1, sampling: shuffled}
)";

}  // namespace

TEST_CASE("operators need a tag where directives place tags alone") {
  const auto needs = [](const std::string& directives, const std::string& more = "") {
    return load("piper: 1\nmodel: {batch: 8}\ndirectives: [" + directives + "]\n" + more +
                "optimizer: {sgd: {lr: 0.1}}\n")
        .needs_tag.value_or("none");
  };
  CHECK(needs("") == "none");
  CHECK(needs(R"({op: recompute, filter: {EP: "*"}})") == "none");
  CHECK(needs(R"({op: replicate, filter: {}, devices: [0, 1]}, {op: shard, filter: {EP: "*"}, devices: [0, 1]})") ==
        "none");
  CHECK(needs(R"({op: place, filter: {EP: 0}, devices: [0]}, {op: place, filter: {EP: "-"}, devices: [1]})") == "none");
  CHECK(needs("{op: place, filter: {MB: 0}, devices: [0]}, {op: place, filter: {MB: 1}, devices: [1]}") == "none");
  CHECK(needs("{op: shard, filter: {}, dim: column, devices: [0, 1]}") == "none");
  const std::string places =
      "{op: place, filter: {PP: 0}, devices: [0, 1]}, {op: place, filter: {PP: 1}, devices: [2, 3]}";
  CHECK(needs(places).empty());
  // It divides weights over devices that others give.
  CHECK(needs(places + ", {op: shard, filter: {}, dim: column, devices: [[0, 1], [2, 3]]}").empty());
  // It divides no region without experts.
  CHECK(needs("{op: replicate, filter: {}, devices: [0, 1]}, {op: shard, filter: {}, devices: [0, 1]}").empty());
  CHECK(needs("", "schedule: {family: 1f1b, microbatches: 2, stages: BLOCK}\n") == "BLOCK");
}

TEST_CASE("every key of the language is read") {
  const Strategy s = load(kEveryKey);
  CHECK(s.file_name == "s.yaml");
  CHECK(s.sha256().size() == 64);
  CHECK(!s.bare_list);
  CHECK(s.model.batch == 64);
  CHECK(s.model.dims.at("S") == 128);
  CHECK(s.model.loss.kind == LossChoice::Kind::kCrossEntropy);
  CHECK(s.model.loss.labels == "labels");
  CHECK(s.model.inputs.at("labels").feed == plan::Feed::kNextTokens);
  CHECK(s.model.freeze == std::vector<std::string>{"*.wte"});
  CHECK(s.model.batch_span.line == 3);
  CHECK(s.model.batch_span.column == 10);
  REQUIRE(s.annotations.size() == 3);
  CHECK(s.annotations[0].globs.size() == 2);
  CHECK(s.annotations[0].glob_spans[1].column == 33);
  CHECK(s.annotations[1].stages == 4);
  CHECK(s.annotations[2].kind == Annotation::Kind::kModules);
  REQUIRE(s.directives.size() == 8);
  CHECK(s.streams[0].name == "ep");
  CHECK(s.per_microbatch.size() == 1);
  CHECK(s.optimizer->values.kind == "adamw");
  CHECK(s.optimizer->values.lr == 3e-4);
  CHECK(s.optimizer->values.beta2 == 0.95);
  CHECK(s.optimizer->weight_decay == 0.1);
  CHECK(s.optimizer->no_decay.size() == 2);
  CHECK(s.lr_schedule.kind == "cosine");
  CHECK(s.lr_schedule.warmup == 100);
  CHECK(s.lr_schedule.until == 2000);
  CHECK(s.lr_schedule.to == 0.1);
  CHECK(s.clip_grad_norm == 1.0);
  REQUIRE(s.run.data.size() == 1);
  CHECK(s.run.data[0].path == "corpus.bin");
  CHECK(s.run.data[0].weight == 0);
  CHECK(s.run.data[0].at == "s.yaml:27:13");
  CHECK(s.run.steps == 2000);
  CHECK(s.run.seed == 1);
}

TEST_CASE("a directive printed as YAML is read back the same") {
  const Strategy s = load(kEveryKey);
  std::string text;
  for (const Directive& d : s.directives) text += "- " + to_string(d) + "\n";
  const Strategy again = load(text);
  REQUIRE(again.directives.size() == s.directives.size());
  for (size_t i = 0; i < s.directives.size(); ++i) CHECK(to_string(again.directives[i]) == to_string(s.directives[i]));
}

TEST_CASE("names that YAML would read as something else are printed in quotes") {
  const Strategy s = load(R"(directives:
  - {op: place, filter: {"a b": 1}, devices: [0], stream: "x: \"y\""}
  - {op: place, filter: {}, devices: [0], stream: "true"}
  - {op: place, filter: {}, devices: [0], stream: "1e3"}
  - {op: place, filter: {}, devices: [0], stream: dp-1.a_B}
)");
  CHECK(to_string(s.directives[0]) == R"({op: place, filter: {"a b": 1}, devices: [0], stream: "x: \"y\""})");
  CHECK(to_string(s.directives[1]) == R"({op: place, filter: {}, devices: [0], stream: "true"})");
  CHECK(to_string(s.directives[2]) == R"({op: place, filter: {}, devices: [0], stream: "1e3"})");
  CHECK(to_string(s.directives[3]) == R"({op: place, filter: {}, devices: [0], stream: dp-1.a_B})");
}

TEST_CASE("a bare list's null is a key that is not given; elsewhere it is an error") {
  CHECK(find_arg<std::string>(
            load(R"([{"op": "place", "filter": {"PP": 0}, "devices": [0], "device": null, "stream": null}])")
                .directives[0],
            "stream") == nullptr);
  diag::Diagnostics diags;
  CHECK(!parse_strategy("s.yaml", "directives: [{op: place, filter: {}, devices: [0], stream: null}]", {},
                        directives::all_specs(), diags)
             .ok());
  CHECK(diags.all()[0].code == "P0202");
  diag::Diagnostics missing;
  CHECK(!parse_strategy("s.json", R"([{"op": "place", "filter": {}, "devices": null}])", {}, directives::all_specs(),
                        missing)
             .ok());
  CHECK(missing.all()[0].code == "P0206");
}

TEST_CASE("a bare list of the prototype is read: device, quoted integers, sparse labels, its streams") {
  diag::Diagnostics diags;
  const Strategy s = load(R"([{"op": "place", "filter": {"PP": 0}, "device": [4, 6]},
 {"op": "place", "filter": {"PP": 1}, "device": ["5", "9"], "stream": "pp_stream"},
 {"op": "split", "filter": {}, "dim_name": "MB", "num_microbatches": "2"},
 {"op": "replicate", "filter": {"PP": "0"}, "devices": [4, 6], "reduce_stream": "dp", "bucket_size": "1000"}])",
                          {"model.batch=8", "optimizer.sgd.lr=0.1", "model.loss=loss"}, &diags);
  CHECK(s.bare_list);
  CHECK(find_arg<Devices>(s.directives[0], "devices")->ranks == std::vector<int32_t>{0, 2});
  CHECK(find_arg<Devices>(s.directives[1], "devices")->ranks == std::vector<int32_t>{1, 3});
  CHECK(*find_arg<std::string>(s.directives[1], "stream") == "pp_stream");
  CHECK(*find_arg<int64_t>(s.directives[2], "num_microbatches") == 2);
  CHECK(*find_arg<double>(s.directives[3], "bucket_size") == 1000);
  CHECK(s.model.batch == 8);
  CHECK(s.optimizer->values.lr == 0.1);
  CHECK(diags.render_text(true).find("4 -> 0, 5 -> 1, 6 -> 2, 9 -> 3") != std::string::npos);
  diag::Diagnostics silent;
  load(R"([{"op": "place", "filter": {"PP": 0}, "device": [1, 0]}])", {}, &silent);
  CHECK(silent.all().empty());
}

TEST_CASE("schedules of the learning rate are phases") {
  using plan::LrCurve;
  const auto wsd = load("lr_schedule: {warmup: 5, wsd: {until: 50, decay: 20, to: 0.1, shape: 1-sqrt}}").lr_schedule;
  CHECK(wsd.kind == "phases");
  CHECK(wsd.warmup == 5);
  REQUIRE(wsd.phases.size() == 2);
  CHECK(wsd.phases[0].curve == LrCurve::kConstant);
  CHECK(wsd.phases[0].steps == 25);
  CHECK(wsd.phases[1].curve == LrCurve::kOneMinusSqrt);
  CHECK(wsd.phases[1].steps == 20);
  CHECK(wsd.phases[1].from == 1);
  CHECK(wsd.phases[1].to == 0.1);
  CHECK(load("lr_schedule: {wsd: {until: 50, decay: 50}}").lr_schedule.phases.size() == 1);
  const auto inverse = load("lr_schedule: {warmup: 5, inverse_sqrt: {}}").lr_schedule;
  REQUIRE(inverse.phases.size() == 1);
  CHECK(inverse.phases[0].timescale == 5);
  CHECK(inverse.phases[0].steps == 0);
  const auto polynomial = load("lr_schedule: {warmup: 5, polynomial: {until: 15, power: 3}}").lr_schedule;
  CHECK(polynomial.phases.at(0).steps == 10);
  CHECK(polynomial.phases.at(0).power == 3);
  // A phase goes on from where the one in front has ended.
  const auto list = load(
      "lr_schedule: {phases: [{steps: 4, linear: {from: 0, to: 0.5}}, {steps: 2, cosine: {to: 0.25}}, {constant: 2}]}");
  const auto& phases = list.lr_schedule.phases;
  REQUIRE(phases.size() == 3);
  CHECK(phases[0].from == 0);
  CHECK(phases[1].from == 0.5);
  CHECK(phases[2].from == 2);
  CHECK(phases[2].steps == 0);
}

TEST_CASE("defaults of optimizers are PyTorch's, alternatives of lr_schedule and loss are read") {
  CHECK(load("optimizer: {adamw: {lr: 1}}").optimizer->weight_decay == 0.01);
  CHECK(load("optimizer: {adam: {lr: 1}}").optimizer->weight_decay == 0);
  const auto sgd = load("optimizer: {sgd: {lr: .5, momentum: 0.9, nesterov: true}}").optimizer->values;
  CHECK(sgd.lr == 0.5);
  CHECK(sgd.nesterov);
  const auto muon = load("optimizer: {muon: {lr: .02, rest: {sgd: {lr: .1}}}}").optimizer;
  CHECK(muon->values.momentum == 0.95);
  CHECK(muon->values.nesterov);
  CHECK(muon->values.steps == 5);
  CHECK(muon->values.eps == 1e-7);
  CHECK(muon->values.adjust == plan::RateByShape::kOriginal);
  CHECK(muon->weight_decay == 0.1);
  CHECK(muon->rest->values.kind == "sgd");
  CHECK(muon->rest->values.momentum == 0);
  CHECK(load("optimizer: {muon: {lr: 1, adjust: match_rms_adamw, rest: {sgd: {lr: .1}}}}").optimizer->values.adjust ==
        plan::RateByShape::kMatchRmsAdamw);
  CHECK(load("lr_schedule: {constant: 0.5}").lr_schedule.constant == 0.5);
  CHECK(load("lr_schedule: {warmup: 5}").lr_schedule.kind == "constant");
  CHECK(load("lr_schedule: {linear: {until: 10}}").lr_schedule.to == 0);
  CHECK(load("lr_schedule: {linear: {until: 10}}").lr_schedule.kind == "linear");
  CHECK(load("model: {loss: out}").model.loss.output == "out");
  CHECK(load("model: {loss: {mse: {prediction: y, target: t}}}").model.loss.kind == LossChoice::Kind::kMse);
  CHECK(load("schedule: {family: 1f1b, microbatches: 4, ranks: [[0, 1], [2, 3]], virtual: 2}").schedule->ranks.size() ==
        2);
  CHECK(load("schedule: {family: 1f1b, microbatches: 4, ranks: [0, 1, 2]}").schedule->ranks[2].ranks[0] == 2);
  CHECK(load("schedule: {csv: table.csv}").schedule->csv == "table.csv");
}

TEST_CASE("scalars follow the YAML 1.2 core schema") {
  auto kind = [](const std::string& text, bool quoted = false) {
    Value value;
    value.text = text;
    value.quoted = quoted;
    resolve_scalar(value);
    return value.kind;
  };
  using K = Value::Kind;
  for (const char* t : {"", "~", "null", "Null", "NULL"}) CHECK(kind(t) == K::kNull);
  for (const char* t : {"true", "True", "FALSE"}) CHECK(kind(t) == K::kBool);
  for (const char* t : {"0", "-12", "+3", "0x1F", "0o17", "007"}) CHECK(kind(t) == K::kInt);
  for (const char* t : {"1e-8", "1.", ".5", "-1.5E+3", ".inf", "-.Inf", ".nan", "1e400", "99999999999999999999"}) {
    CHECK(kind(t) == K::kFloat);
  }
  for (const char* t : {"yes", "no", "on", "1_000", "0..3", "1:30", "nan", "inf", "1e", ".", "-", "e5", "0x", "0o8"}) {
    CHECK(kind(t) == K::kString);
  }
  CHECK(kind("1", true) == K::kString);
}

TEST_CASE("--set changes, adds and reaches into lists; a wrong one points into the command line") {
  const Strategy s = load(kEveryKey, {"model.batch=128", "model.dims.T=7", "annotate.1.stages=8", "run={steps: 3}",
                                      "directives.3.num_microbatches=4"});
  CHECK(s.model.batch == 128);
  CHECK(s.model.dims.size() == 2);
  CHECK(s.annotations[1].stages == 8);
  CHECK(s.run.steps == 3);
  CHECK(s.run.data.empty());
  CHECK(*find_arg<int64_t>(s.directives[3], "num_microbatches") == 4);
  CHECK(s.sha256() != load(kEveryKey).sha256());
  CHECK(errors(kEveryKey, {"model.batch"}).find("--set:1:1: error[P0103]") != std::string::npos);
  CHECK(errors(kEveryKey, {"model.batch=x"}).find("--set:1:13: error[P0202]") != std::string::npos);
  CHECK(errors(kEveryKey, {"model.batch.x=1"}).find("error[P0103]") != std::string::npos);
  CHECK(errors(kEveryKey, {"annotate.7.stages=1"}).find("error[P0103]") != std::string::npos);
  CHECK(errors(kEveryKey, {"modle.batch=1"}).find("did you mean 'model'?") != std::string::npos);
  CHECK(errors(kEveryKey, {"run={steps: "}).find("error[P0102]") != std::string::npos);
  CHECK(errors(kEveryKey, {"a..b=1"}).find("error[P0103]") != std::string::npos);
}

TEST_CASE("hostile files end in diagnostics") {
  errors("");
  errors("# only a comment\n");
  errors("--- 1\n--- 2\n");
  errors(std::string(3000, '['));
  errors(std::string(100, '[') + std::string(100, ']'));
  errors("a: &a [*a]");
  errors("&a [&b [*a]]");
  errors("a: *b");
  errors("x: !!python/object 1");
  errors("? [a]\n: 1");
  errors("'unclosed");
  errors(std::string("model: {batch: 1}\0", 18) + "\x01\xff");
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string p = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + p;
    for (int k = 0; k < 9; ++k) bomb += ", " + p;
    bomb += "]\n";
  }
  CHECK(errors(bomb).find("P0105") != std::string::npos);
}

TEST_CASE("a file that is not there is named") {
  diag::Diagnostics diags;
  CHECK(!load_strategy("no/such/file.yaml", {}, directives::all_specs(), diags).ok());
  CHECK(diags.render_text(false).find("no/such/file.yaml") != std::string::npos);
}

TEST_CASE("every directive's example is a right directive, and help shows every field") {
  for (const DirectiveSpec* spec : directives::all_specs()) {
    INFO(spec->name);
    const Strategy s = load("[" + std::string(spec->example) + "]");
    CHECK(s.directives[0].spec == spec);
    const std::string help = directives::help_directive(spec->name);
    for (const ArgSpec& arg : spec->args) CHECK(help.find(std::string(arg.name) + " (") != std::string::npos);
  }
  CHECK(directives::help_directive("plaec").empty());
}

// PIPER_UPDATE_GENERATED=1 writes the files instead of comparing them.
template <class T>
void check_default(const Directive& said, std::string_view name) {
  const T* value = find_arg<T>(said, name);
  REQUIRE(value != nullptr);
  CHECK(*value == default_of<T>(*said.spec, name));
}

TEST_CASE("a directive that says a default is as one that leaves it out") {
  for (const DirectiveSpec* spec : directives::all_specs())
    for (const ArgSpec& arg : spec->args) {
      const std::string example(spec->example);
      const bool is_said = example.find(std::string(arg.name) + ":") != std::string::npos;
      if (arg.default_text.empty() || is_said) continue;
      INFO(spec->name << " " << arg.name);
      const std::string said = example.substr(0, example.rfind('}')) + ", " + std::string(arg.name) + ": " +
                               std::string(arg.default_text) + "}";
      const Directive directive = load("[" + said + "]").directives.at(0);
      switch (arg.kind) {
        case ArgKind::kName:
        case ArgKind::kChoice: check_default<std::string>(directive, arg.name); break;
        case ArgKind::kFlag: check_default<bool>(directive, arg.name); break;
        case ArgKind::kCount: check_default<int64_t>(directive, arg.name); break;
        case ArgKind::kMebibytes:
        case ArgKind::kShare: check_default<double>(directive, arg.name); break;
        default: CHECK(arg.kind == ArgKind::kFilter);  // of all chunks, as none
      }
    }
}

TEST_CASE("schema and reference page are those of the specs") {
  const std::pair<std::string, std::string> files[] = {
      {"schemas/strategy.schema.json", json_schema(directives::all_specs())},
      {"docs/directives.md", reference_page(directives::all_specs())}};
  for (const auto& [path, text] : files) {
    INFO(path);
    if (std::getenv("PIPER_UPDATE_GENERATED") != nullptr) {
      std::ofstream(test::source_path(path), std::ios::binary) << text;
    } else {
      CHECK(slurp(test::source_path(path)) == text);
    }
  }
}

}  // namespace piper::strategy
