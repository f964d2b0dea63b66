// A search of a small model's strategies: what it finds, writes and says.
#include "compiler/search/search.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "compiler/search/made_ahead.h"
#include "schemas/base/parallel.h"
#include "schemas/timeline/priced.h"
#include "tests/source_path.h"
#include "tests/unit/search_on.h"

namespace piper::search {
namespace {

constexpr const char* kBase = "piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\n";

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
bool holds(const std::string& all, const std::string& part) { return all.find(part) != std::string::npos; }

struct Done {
  Status status;
  std::string told, errors;
};
SearchOptions options_of(const TempFolder& folder, const std::string& base) {
  SearchOptions options;
  options.compile.model = test::source_path("tests/models/tiny_gpt.onnx");
  options.compile.strategy = folder.write("base.yaml", base);
  options.compile.machine = machine_of("fast links", 4);
  options.directory = folder / "found";
  options.nodes = 2;
  options.keep = 3;
  options.candidates = 10;
  return options;
}
Done searched(const SearchOptions& options, bool only_fits = false) {
  diag::Diagnostics diags;
  std::ostringstream out;
  Done done;
  done.status = only_fits ? fits(options, diags, out) : search(options, diags, out);
  done.told = out.str();
  done.errors = diags.render_text(false) + (done.status.ok() ? "" : done.status.error().message);
  return done;
}

}  // namespace

TEST_CASE("a search writes strategies that compile, with a table of them") {
  const TempFolder folder;
  const SearchOptions options = options_of(folder, kBase);
  const Done done = searched(options);
  INFO(done.errors << done.told);
  REQUIRE(done.status.ok());
  const std::string first = read(options.directory + "/01.yaml");
  CHECK(holds(first, "# 1. "));
  CHECK(holds(first, kBase));
  CHECK(holds(first, "schedule: {family: "));
  CHECK(std::filesystem::exists(options.directory + "/03.yaml"));
  CHECK(!std::filesystem::exists(options.directory + "/04.yaml"));
  CHECK(holds(read(options.directory + "/table.md"), "| 01.yaml | "));
  CHECK(read(options.directory + "/table.md") == done.told);
  CHECK(holds(read(options.directory + "/rejected.md"), "| microbatches: "));
  CHECK(holds(read(options.directory + "/tradeoff.html"), "<circle "));
  // The price that the table has is that of the file.
  Pricer pricer(SearchedSpace::options(), model_of("tiny_gpt.onnx"), *options.compile.machine);
  const auto again = pricer.price(first);
  REQUIRE(again.ok());
  SearchOptions as_json = options;
  as_json.json = true;
  const Done json = searched(as_json);
  std::ostringstream step;
  CHECK(holds(json.told, "\"complete\":true"));
  CHECK(holds(json.told, "\"tp\":1"));
  CHECK(holds(json.told, "\"sequence\":false"));
  CHECK(holds(json.told, "\"tuned\":\"01.tuned.yaml\""));
  CHECK(!holds(json.told, "dollars"));
  CHECK(holds(json.told, "\"peak_bytes\":" + std::to_string(again->peak_bytes)));
  CHECK(read(options.directory + "/01.yaml") == first);
}

TEST_CASE("a search that is stopped writes the best so far, or says that there is none") {
  const TempFolder folder;
  SearchOptions options = options_of(folder, kBase);
  options.stop = [] { return true; };
  const Done none = searched(options);
  CHECK(!none.status.ok());
  CHECK(holds(none.errors, "P0271"));
  CHECK(holds(none.errors, "was ended before"));
  CHECK(!std::filesystem::exists(options.directory + "/01.yaml"));
}

TEST_CASE("a search that is stopped when it has one strategy writes that one, proved, and says that it was ended") {
  const TempFolder folder;
  SearchOptions options = options_of(folder, kBase);
  options.worth = 0;
  bool found = false;
  options.progress = [&](size_t, size_t, double best_us) { found = found || best_us > 0; };
  options.stop = [&] { return found; };
  const Done one = searched(options);
  INFO(one.errors);
  REQUIRE(one.status.ok());
  CHECK(holds(one.told, "| 01.yaml | "));
  CHECK(holds(one.told, "The search was ended before its end."));
  CHECK(holds(one.told, " 1 were compiled whole"));
  CHECK(holds(one.told, "The best of this space is at most "));
  CHECK(read(options.directory + "/table.md") == one.told);
  CHECK(!std::filesystem::exists(options.directory + "/02.yaml"));
  CHECK(!std::filesystem::exists(options.directory + "/01.tuned.yaml"));
  Pricer pricer(SearchedSpace::options(), model_of("tiny_gpt.onnx"), *options.compile.machine);
  CHECK(pricer.price(read(options.directory + "/01.yaml")).ok());
}

TEST_CASE("a search takes away what an earlier one has written, and nothing else") {
  const TempFolder folder;
  SearchOptions options = options_of(folder, kBase);
  REQUIRE(searched(options).status.ok());
  std::ofstream(options.directory + "/mine.yaml") << "mine";
  REQUIRE(std::filesystem::exists(options.directory + "/01.tuned.yaml"));
  options.keep = 1;
  options.candidates = 0;
  options.dollars_per_hour = 2;
  options.json = true;
  const Done again = searched(options);
  REQUIRE(again.status.ok());
  CHECK(std::filesystem::exists(options.directory + "/01.yaml"));
  CHECK(!std::filesystem::exists(options.directory + "/01.tuned.yaml"));
  CHECK(!std::filesystem::exists(options.directory + "/02.yaml"));
  CHECK(read(options.directory + "/mine.yaml") == "mine");
  CHECK(holds(again.told, "\"dollars_a_step\":"));
  CHECK(!holds(again.told, "\"tuned\""));
}

TEST_CASE("a search that is stopped while it tunes writes what it has") {
  const TempFolder folder;
  SearchOptions options = options_of(folder, kBase);
  options.keep = 1;
  options.candidates = 60;
  int64_t asked = 0;
  options.stop = [&] { return ++asked, false; };
  REQUIRE(searched(options).status.ok());
  const int64_t whole = asked;
  // The last questions are those of tuning.
  options.stop = [&, left = whole - 5]() mutable { return --left < 0; };
  const Done done = searched(options);
  INFO(done.errors);
  REQUIRE(done.status.ok());
  CHECK(std::filesystem::exists(options.directory + "/01.tuned.yaml"));
}

TEST_CASE("a choice that is fixed to a value that there is not") {
  const TempFolder folder;
  SearchOptions options = options_of(folder, kBase);
  options.fixed = {"tp=abc"};
  const Done done = searched(options);
  CHECK(!done.status.ok());
  INFO(done.errors);
  CHECK(holds(done.errors, "'tp=abc'; tp may be 1, 2"));
  // Each value is there, and not both of them on four ranks.
  options.fixed = {"tp=2", "dp=4"};
  CHECK(holds(searched(options).errors, "P0271"));
}

// Each of the 16 blocks is a stage then.
TEST_CASE("all ranks in one pipeline may have eight stages each") {
  const TempFolder folder;
  SearchOptions options = options_of(folder, kBase);
  options.compile.model = test::source_path("tests/models/chain.onnx");
  options.nodes = 1;  // two ranks
  options.keep = 1;
  options.fixed = {"pp=2", "virtual=8"};
  const Done done = searched(options);
  INFO(done.errors);
  REQUIRE(done.status.ok());
  CHECK(holds(read(options.directory + "/01.yaml"), "{tag: PP, stages: 16, "));
}

TEST_CASE("a base that says how to spread the step is refused") {
  const TempFolder folder;
  const Done done = searched(options_of(folder, std::string(kBase) + "schedule: {family: 1f1b, microbatches: 2}\n"));
  CHECK(!done.status.ok());
  CHECK(holds(done.errors, "error[P0270]"));
  CHECK(holds(done.errors, "'schedule'"));
  CHECK(holds(searched(options_of(folder, "piper: 1\noptimizer: {sgd: {lr: 0.1}}\n")).errors, "P0228"));
}

TEST_CASE("an error of the base has its line") {
  const TempFolder folder;
  const Done done = searched(options_of(folder, "piper: 1\nmodel: {batch: 8}\noptimizer: {sgdd: {lr: 0.1}}\n"));
  CHECK(!done.status.ok());
  INFO(done.errors);
  CHECK(holds(done.errors, "base.yaml:3:"));
  CHECK(holds(done.errors, "error[P0201]"));
}

// Whoever compiles the files gives no --set.
TEST_CASE("strategies have the values of --set, and are what was priced") {
  const TempFolder folder;
  SearchOptions options =
      options_of(folder, "# mine\npiper: 1\nmodel: {batch: 8}   # samples\noptimizer: {sgd: {lr: 0.1}}\n");
  options.compile.overrides = {"model.batch=4", "clip_grad_norm=1"};
  options.json = true;
  const Done done = searched(options);
  INFO(done.errors << done.told);
  REQUIRE(done.status.ok());
  for (const char* name : {"/01.yaml", "/03.yaml", "/01.tuned.yaml"})
    CHECK(holds(read(options.directory + name),
                "# mine\npiper: 1\nmodel: {batch: 4}   # samples\noptimizer: {sgd: {lr: 0.1}}\nclip_grad_norm: 1\n"));
  Pricer pricer(SearchedSpace::options(), model_of("tiny_gpt.onnx"), *options.compile.machine);
  const auto again = pricer.price(read(options.directory + "/01.yaml"));
  REQUIRE(again.ok());
  CHECK(holds(done.told, "\"peak_bytes\":" + std::to_string(again->peak_bytes)));
  const std::string step = "\"step_us\":";
  const size_t priced = done.told.find(step, done.told.find("\"01.yaml\""));
  REQUIRE(priced != std::string::npos);
  CHECK(std::stod(done.told.substr(priced + step.size())) == Approx(again->step_us).epsilon(1e-9));
  // Errors have their places in what the user wrote.
  options.compile.overrides = {"optimizer.sgd.lr=x"};
  CHECK(holds(searched(options).errors, "--set:1:18: error[P0202]"));
  options.compile.overrides = {"schedule={family: 1f1b, microbatches: 2}"};
  CHECK(holds(searched(options).errors, "--set:1:1: error[P0270]"));
}

TEST_CASE("a base in JSON is a base") {
  const TempFolder folder;
  SearchOptions options =
      options_of(folder, R"({"piper": 1, "model": {"batch": 8}, "optimizer": {"sgd": {"lr": 0.1}}})");
  options.keep = 1;
  const Done done = searched(options);
  INFO(done.errors);
  REQUIRE(done.status.ok());
  CHECK(
      holds(read(options.directory + "/01.yaml"), "piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\nmesh: "));
}

TEST_CASE("a price is that of all ranks where replicas lie differently on nodes") {
  // Nodes of four, replicas of three: the second and the third lie on two nodes.
  timeline::Machine machine = machine_of("slow links", 8);
  Pricer pricer(SearchedSpace::options(), model_of("tiny_gpt.onnx"), machine);
  Point point;
  point.pp = 3;
  point.dp = 4;
  point.microbatches = 3;
  point.pipeline_inside = true;
  const BaseStrategy base{"piper: 1\nmodel: {batch: 12}\noptimizer: {sgd: {lr: 0.1}}\n", 12};
  const std::string text = strategy_of(point, base, {});
  const Compiled compiled = pricer.compile(text);
  REQUIRE(compiled.compilation != nullptr);
  const auto all = timeline::simulate_on(compiled.bundle(), timeline::Priced(compiled.bundle(), machine));
  const auto cost = pricer.price(text);
  REQUIRE(all.ok());
  REQUIRE(cost.ok());
  CHECK(cost->step_us == Approx(all->step).epsilon(1e-9));
}

TEST_CASE("strategies over several nodes say how many ranks a node has") {
  Point point;
  point.pp = 2;
  point.dp = 4;
  point.microbatches = 2;
  BaseStrategy base{"piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\n", 8};
  CHECK(!holds(strategy_of(point, base, {}), "node:"));
  base.ranks_of_node = 8;
  CHECK(!holds(strategy_of(point, base, {}), "node:"));
  base.ranks_of_node = 4;
  CHECK(holds(strategy_of(point, base, {}), "mesh: {pp: 2, dp: 4}\nnode: {ranks: 4, inside: []}\n"));
  const TempFolder folder;
  const SearchOptions options = options_of(folder, kBase);  // two nodes of two ranks
  REQUIRE(searched(options).status.ok());
  CHECK(holds(read(options.directory + "/01.yaml"), "node: {ranks: 2, inside: []}\n"));
  SearchOptions of_one_node = options;
  of_one_node.nodes = 1;
  REQUIRE(searched(of_one_node).status.ok());
  CHECK(!holds(read(options.directory + "/01.yaml"), "node:"));
}

TEST_CASE("a capacity that is fixed is that of all strategies") {
  const TempFolder folder;
  SearchOptions options = options_of(folder, kBase);
  options.compile.model = test::source_path("tests/models/tiny_routed.onnx");
  options.fixed = {"capacity=1.25", "tp=1", "microbatches=2"};
  for (const char* ep : {"ep=1", "ep=2"})
    for (const char* pp : {"pp=1", "pp=2"}) {
      SearchOptions one = options;
      one.fixed.insert(one.fixed.end(), {ep, pp});
      const Done done = searched(one);
      INFO(ep << " " << pp << ": " << done.errors);
      REQUIRE(done.status.ok());
      CHECK(holds(read(options.directory + "/01.yaml"), "over: ep, capacity: {factor: 1.25}}\n"));
    }
  options.fixed = {"capacity=0"};
  CHECK(holds(searched(options).errors, "a capacity is a factor greater than 0"));
  options.fixed = {"capacity=1.25"};
  options.compile.model = test::source_path("tests/models/tiny_gpt.onnx");
  CHECK(holds(searched(options).errors, "error[P0272]"));
}

TEST_CASE("no bound of memory is above what GPUs on several nodes need") {
  SearchedSpace space("tiny_gpt.onnx", "slow links", 8, plan::DeviceKind::kCuda);
  size_t compared = 0;
  for (const Point& point : space.points) {
    if (point.microbatches > 2 || point.repeated != Repeated::kNothing || point.divided > Divided::kOptimizer ||
        point.sequence || point.vocabulary || (point.family != "1f1b" && point.family != "interleaved_1f1b"))
      continue;
    const auto cost = space.pricer.price(space.text_of(point));
    if (!cost.ok()) continue;
    ++compared;
    for (const Bound& bound : {space.bounds.by_model(point), space.bounds.by_cut(point), space.bounds.by_stages(point)})
      if (bound.peak_bytes > cost->peak_bytes)
        FAIL_CHECK(describe(point) << ": " << bound.peak_bytes << " > " << cost->peak_bytes);
  }
  CHECK(compared > 20);
}

TEST_CASE("where nothing fits the nearest is named with what it lacks") {
  const TempFolder folder;
  SearchOptions options = options_of(folder, kBase);
  options.compile.memory_limit = 100;
  const Done done = searched(options);
  CHECK(!done.status.ok());
  INFO(done.errors);
  CHECK(holds(done.errors, "P0271"));
  CHECK(holds(done.errors, " more than the limit: "));
}

TEST_CASE("whether a model fits is one line") {
  const TempFolder folder;
  SearchOptions options = options_of(folder, kBase);
  options.compile.strategy = "";
  const Done done = searched(options, true);
  INFO(done.errors);
  REQUIRE(done.status.ok());
  CHECK(holds(done.told, "fits on 4 ranks: "));
  CHECK(std::count(done.told.begin(), done.told.end(), '\n') == 1);
}

TEST_CASE("work that is made ahead is done once, by whoever comes first") {
  const KeptHelpers helpers(2);
  MadeAhead ahead;
  std::atomic<int> done = 0;
  std::vector<MadeAhead::Handle> offered;
  for (int i = 0; i < 50; ++i) offered.push_back(ahead.offer([&done] { ++done; }));
  const MadeAhead::Handle fails = ahead.offer([] { throw std::runtime_error("a bug"); });
  for (const MadeAhead::Handle& work : offered) ahead.finish(work);
  CHECK(done == 50);
  CHECK_THROWS_AS(ahead.finish(fails), std::runtime_error);
  bool begun = false;
  const MadeAhead::Handle unwanted = ahead.offer([&begun] { begun = true; });
  MadeAhead::abandon(unwanted);
  const bool was = begun;
  ahead.finish(ahead.offer([] {}));
  CHECK(begun == was);
}

TEST_CASE("helpers change nothing that a search finds") {
  const auto found = [] {
    SearchedSpace space("tiny_llama.onnx", "fast links", 4);
    space.memory_limit = 400'000;
    const Explored explored = space.explored(3);
    std::string text = std::to_string(explored.priced) + " " + std::to_string(explored.bounded) + " " +
                       std::to_string(space.probes.compiled()) + " " + std::to_string(explored.least_us);
    for (const auto* list : {&explored.fit, &explored.too_large})
      for (const Found& one : *list)
        text += "\n" + describe(one.point) + ": " + std::to_string(one.cost.step_us) + ", " +
                std::to_string(one.cost.peak_bytes);
    return text;
  };
  const std::string alone = found();
  CHECK(alone.find('\n') != std::string::npos);
  const KeptHelpers helpers(3);
  CHECK(found() == alone);
}

TEST_CASE("a probe needs no more memory and no more time than the plan that runs") {
  const SearchedSpace space("tiny_gpt.onnx", "fast links", 4);
  Point point;
  point.dp = 2;
  point.tp = 2;
  point.microbatches = 2;
  const std::string text = space.text_of(point);
  Compiled probe = space.pricer.probe(text, space.base.batch), whole = space.pricer.compile(text);
  REQUIRE(probe.compilation != nullptr);
  REQUIRE(whole.compilation != nullptr);
  const auto peak = [](const Compiled& one) { return one.bundle().manifest.ranks[0].peak_bytes; };
  CHECK(peak(probe) <= peak(whole));
  CHECK(static_cast<double>(peak(probe)) > 0.9 * static_cast<double>(peak(whole)));
  const auto step = [&](Compiled one) { return space.pricer.play(std::move(one))->timeline.step; };
  const double packed_us = step(std::move(whole));
  CHECK(step(std::move(probe)) <= packed_us);
}

TEST_CASE("dualpipe's two groups divide what they share") {
  SearchedSpace space("tiny_gpt.onnx", "fast links", 4);
  size_t divided = 0;
  for (const Point& point : space.points) {
    if (point.family != "dualpipe" || point.divided == Divided::kNothing) continue;
    ++divided;
    INFO(describe(point));
    CHECK(space.pricer.price(space.text_of(point)).ok());
  }
  CHECK(divided > 0);
}

}  // namespace piper::search
