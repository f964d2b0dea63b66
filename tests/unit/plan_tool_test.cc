// The commands of piper-plan on hand-made bundles.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>

#include "schemas/base/byte_text.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/verify/live_at_peak.h"
#include "tests/source_path.h"
#include "tests/unit/plan_bundle_example.h"
#include "tests/unit/temp_folder.h"
#include "tools/piper_plan/commands.h"
#include "tools/piper_plan/text_table.h"

using namespace piper;

namespace {

std::string write(const TempFolder& folder, const std::string& name, plan::Bundle bundle) {
  REQUIRE(plan::write_bundle(folder / name, bundle, {}, {}, plan::WeightMode::kNone).ok());
  return folder / name;
}

std::string text(const Result<std::string>& result) {
  return result.ok() ? *result : result.error().code + " " + result.error().message;
}
bool holds(const std::string& all, const std::string& part) { return all.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("rank lists") {
  CHECK(tools::rank_list({0, 1, 2, 5, 7, 8}) == "0-2,5,7,8");
  CHECK(tools::merge_ranks({{"0", "a"}, {"1", "b"}, {"2", "a"}}) ==
        std::vector<std::vector<std::string>>{{"0,2", "a"}, {"1", "b"}});
  CHECK(human_bytes(1536) == "1.5 KiB");
}

// Four chunks, four microbatches: (p - 1 + m) * (forward + backward).
TEST_CASE("show draws the schedule") {
  TempFolder dir;
  const auto plans = write(dir, "p", plan::example::pipeline(4, 4));
  const auto shown = text(tools::show(plans, {}));
  INFO(shown);
  CHECK(holds(shown, "0     |F0 F1 F2 F3 ...........................B0--- B1--- B2--- B3--- |"));
  CHECK(holds(shown, "3     |.........F0 F1 F2 F3 B0--- B1--- B2--- B3--- ..................|"));
  CHECK(holds(shown,
              "\nSchedule: step 21 units, bubble 42.9 % (only passes of stages take time: a forward 1, a backward 2 "
              "units)\n"));
  CHECK(holds(text(tools::show(plans, {.costs = {2, 1}})), "0     |F0--- F1--- "));
  CHECK(holds(shown, "m.onnx with s.yaml: 4 ranks, batch 8, 8 programs, sgd"));
  CHECK(holds(shown, "sgd\ndata: 85.71 % web.bin, 14.29 % books\n"));
  auto other = plan::example::pipeline(4, 4);
  other.manifest.run.data = {{"corpus.bin", 0, ""}};
  CHECK(holds(text(tools::show(write(dir, "one", other), {})), "sgd\ndata: corpus.bin\n"));
  other.manifest.run.data.clear();
  CHECK(!holds(text(tools::show(write(dir, "none", other), {})), "data: "));
  CHECK(text(tools::simulate_bundle(plans, {})).find("step: 21 units") == 0);
  CHECK(text(tools::simulate_bundle(plans, {1, 1})).find("step: 14 units") == 0);
  CHECK(holds(text(tools::verify_bundle(plans)), "proved for 4 ranks"));
  for (const char* part : {"rules 1, 2, 3: messages, collectives, events", "rule 4: no deadlock",
                           "rules 5, 6, 7: no data race, contents, programs", "rule 7: programs",
                           "rules 8, 9, 10, 13: sums, meaning, updates, whole matrices"})
    CHECK(holds(text(tools::verify_bundle(plans, {true})), part));
}

// Every run 10 us, everything else 1 us; two ranks with one chunk each and two microbatches.
TEST_CASE("simulate with the times of a run") {
  TempFolder dir;
  const auto bundle = plan::example::pipeline(2, 2);
  const auto plans = write(dir, "p", bundle);
  const auto profile = [&](size_t leave_out) {
    const std::string path = dir / "profile";
    std::ofstream file(path);
    for (const auto& rank : bundle.ranks)
      for (size_t i = 0; i + leave_out < rank.instructions.size(); ++i) {
        const bool run = std::holds_alternative<plan::Run>(rank.instructions[i].action);
        file << "{\"rank\":" << rank.rank << ",\"instruction\":" << i
             << ",\"stream\":\"s\",\"what\":\"w\",\"begin_us\":0.0,\"end_us\":0.0,\"cpu_us\":" << (run ? "10.0" : "0.0")
             << "}\n";
      }
    return path;
  };
  const auto step = [&](const tools::Link& link) {
    const auto told = text(tools::simulate_measured(plans, profile(0), link));
    INFO(told);
    REQUIRE(told.find("step: ") == 0);
    return std::stod(told.substr(6));
  };
  const double free_links = step({});
  // All forwards go before the backwards: the way forth and the way back are on the critical path.
  CHECK(step({5, 0}) == Approx(free_links + 10));
  CHECK(step({5, 1e6}) > step({5, 1e9}));
  CHECK(holds(text(tools::simulate_measured(plans, profile(0), {})), " us (runs as measured in " + (dir / "profile")));
  CHECK(holds(text(tools::simulate_measured(plans, profile(1), {})), "lacks instructions of rank 0"));
  CHECK(holds(text(tools::simulate_measured(plans, dir / "none", {})), "none"));
}

// Runs take 10 us, one after the other on each rank, and everything else nothing.
TEST_CASE("report sets a predicted step beside a measured one") {
  TempFolder dir;
  auto bundle = plan::example::pipeline(2, 2);
  bundle.provenance = {{"s.yaml:1:3", "place at s.yaml:1:3"}};
  for (auto& rank : bundle.ranks)
    for (auto& instruction : rank.instructions.edit()) instruction.provenance = 0;
  const auto plans = write(dir, "p", bundle);
  std::string lines;
  for (const auto& rank : bundle.ranks) {
    int now = 0;
    for (size_t i = 0; i < rank.instructions.size(); ++i) {
      const int before = now;
      if (std::holds_alternative<plan::Run>(rank.instructions[i].action)) now += 10;
      lines += "{\"rank\":" + std::to_string(rank.rank) + ",\"instruction\":" + std::to_string(i) +
               ",\"stream\":\"s\",\"what\":\"w\",\"begin_us\":" + std::to_string(before) +
               ".0,\"end_us\":" + std::to_string(now) + ".0,\"cpu_us\":0.0}\n";
    }
  }
  const auto profile = dir.write("profile", lines);
  const auto log =
      dir.write("log", "{\"step\": 1}\n{\"summary\": {\"steps\": 1, \"peak_memory_bytes\": [1024, 2048]}}\n");
  tools::ReportOptions options;
  const auto told = text(tools::report_lines(plans, profile, options));
  INFO(told);
  CHECK(told.find("step: predicted 9 units by unit costs (forward 1, backward 2); measured 0.04 ms by " + profile +
                  "\n") == 0);
  CHECK(holds(told, "s.yaml:1:3 place"));
  CHECK(holds(told, "the critical paths differ from where the predicted one has\n    rank 1 instruction 3 "));
  options.log = log;
  CHECK(holds(text(tools::report_lines(plans, profile, options)), "2.0 KiB"));
  options.form = tools::TableForm::kMarkdown;
  CHECK(holds(text(tools::report_lines(plans, profile, options)), "| line of the strategy | step | lost |"));
  options.form = tools::TableForm::kJson;
  const auto json = text(tools::report_lines(plans, profile, options));
  CHECK(holds(json, "\"measured_by\":\"" + profile + "\",\"unit\":\"units\",\"step\":[9.0,40.0]"));
  CHECK(holds(json, "{\"line\":\"s.yaml:1:3\",\"directive\":\"place\""));
  options.log = dir.write("other", "{\"summary\": {\"peak_memory_bytes\": [1]}}\n");
  CHECK(holds(text(tools::report_lines(plans, profile, options)), "is of 1 ranks, the bundle has 2"));
  options.log = profile;
  CHECK(holds(text(tools::report_lines(plans, profile, options)), "it is no log of a run that ended"));
}

// The compiler tunes; which one, with what, the bundle says.
TEST_CASE("tune calls piperc for the bundle's device and strategy") {
  TempFolder dir;
  const std::string strategy = dir.write("s.yaml", "piper: 1\n");
  auto bundle = plan::example::pipeline(2, 2);
  bundle.manifest.strategy.sha256 = plan::sha256(std::string("piper: 1\n\0model.batch=4", 23));
  bundle.manifest.target = {plan::DeviceKind::kCuda, plan::Summing::kLibrary};
  const auto plans = write(dir, "p", bundle);
  tools::TuneOptions options;
  options.strategy = strategy;
  options.target = "t.yaml";
  const auto another = tools::tune_command(plans, options);
  REQUIRE(!another.ok());
  CHECK(holds(another.error().message, "differs from what was compiled: compile it again"));
  options.sets = {"model.batch=4"};
  options.limit = 7;
  const auto words = tools::tune_command(plans, options);
  REQUIRE(words.ok());
  std::string line;
  for (const std::string& word : *words) line += word + " ";
  CHECK(holds(line, "/piperc m.onnx --strategy " + strategy +
                        " --tune s.tuned.yaml --target t.yaml --device cuda --reduction library --memory-limit 7 "
                        "--set model.batch=4 "));
}

// The file of a machine is the caller's; what it is made of is printed, as text and as JSON.
TEST_CASE("simulate prices a bundle for a machine") {
  TempFolder dir;
  const auto plans = write(dir, "p", plan::example::pipeline(2, 2));
  const std::string machine = dir.write("m.yaml", R"(name: slow ones
device: cpu
ranks_per_node: 2
flops: {f32: 1.0e6}
memory_bytes: 1
memory_bytes_per_second: 1.0e6
efficiency: {product: 1, grouped_product: 1, attention: 1, memory: 1}
kernel_us: 0
host_us: 0
inside_node: {latency_us: 1, bytes_per_second: 1.0e6}
between_nodes: {latency_us: 1, bytes_per_second: 1.0e6}
)");
  const auto told = text(tools::price(plans, {machine, "", false, 0}));
  INFO(told);
  CHECK(told.find("step: ") == 0);
  for (const char* part : {" on slow ones\n", "collectives: rings", "oom", "critical path by line of the strategy:"})
    CHECK(holds(told, part));
  const auto json = text(tools::price(plans, {machine, "", true, 0}));
  INFO(json);
  for (const char* part : {"\"step_us\":", "\"fits\":\"oom\"", "\"critical_path\":[\n{\"line\":"})
    CHECK(holds(json, part));
  CHECK(holds(told, " ms with kernels 20 % more or less efficient) on slow ones\n"));
  std::ifstream file(machine);
  const std::string same((std::istreambuf_iterator<char>(file)), {});
  const auto known = dir.write("known.yaml", same + "nine_of_ten: [0.5, 2]\n");
  CHECK(holds(text(tools::price(plans, {known, "", false, 0})), " ms as nine of ten published runs) on slow ones\n"));
  const auto ranged = nlohmann::json::parse(text(tools::price(plans, {known, "", true, 0})));
  CHECK(ranged["step_us_least"] == 0.5 * ranged["step_us"].get<double>());
  CHECK(ranged["step_us_most"] == 2 * ranged["step_us"].get<double>());
  const auto no_times = dir.write("times", "{\"call\":\"matmul\",\"us\":-1.0,\"count\":1}\n");
  CHECK(holds(text(tools::price(plans, {machine, no_times, false, 0})), "times:1: this is no line of kernel times"));
  CHECK(tools::price(plans, {dir / "none.yaml", "", false, 0}).error().code == "P0101");
}

TEST_CASE("verify tells the refutation") {
  TempFolder dir;
  auto bundle = plan::example::pipeline(2, 2);
  bundle.ranks[1].instructions.edit().pop_back();
  CHECK(holds(text(tools::verify_bundle(write(dir, "p", bundle))),
              "P0631 rule 1: nothing on rank 1 sends what rank 0 instruction"));
  CHECK(holds(text(tools::verify_bundle(dir / "none")), "P0603"));
}

TEST_CASE("diff tells lines and ranks") {
  TempFolder dir;
  auto bundle = plan::example::pipeline(3, 2);
  const auto a = write(dir, "a", bundle);
  CHECK(!tools::diff(a, write(dir, "b", bundle), 0)->differs);
  bundle.provenance[0].key = "s.yaml:4:5";
  bundle.manifest.optimizer.lr = 0.5;
  const auto changed = tools::diff(a, write(dir, "c", bundle), 0);
  REQUIRE(changed.ok());
  INFO(changed->text);
  CHECK(changed->differs);
  CHECK(holds(changed->text, "+2: \"provenance\"") == false);
  CHECK(holds(changed->text, "manifest.json\n  -22: \"optimizer\":{\"kind\":\"sgd\",\"lr\":0.01,"));
  CHECK(holds(changed->text, "provenance.json\n  -3: \"s.yaml:3:5\":\"place at s.yaml:3:5\"\n  +3: \"s.yaml:4:5\""));
  CHECK_FALSE(holds(changed->text, "rank 2"));  // what it does is the same, from the same directive
  const auto cut = tools::diff(a, dir / "c", 1);
  CHECK(holds(cut->text, "more lines; --lines 0 shows all)"));
}

// Two ranks that do the same: the second one's file says so and does not change.
TEST_CASE("diff tells what ranks do, wherever it is spelt out") {
  TempFolder dir;
  auto bundle = plan::example::two_ranks();
  const auto second_does_the_same = [&bundle] {
    plan::RankPlan same = bundle.ranks[0];
    same.rank = 1;
    for (auto& channel : same.channels) channel.peer = 0;
    bundle.ranks[1] = same;
  };
  second_does_the_same();
  const auto a = write(dir, "a", bundle);
  bundle.ranks[0].instructions.edit()[0].provenance = 1;
  second_does_the_same();
  const auto b = write(dir, "b", bundle);
  const auto changed = tools::diff(a, b, 0);
  REQUIRE(changed.ok());
  INFO(changed->text);
  CHECK(holds(changed->text, "ranks 0,1\n  -"));
  // A rank that leaves its kind is the only one that differs.
  bundle.ranks[1].instructions.edit()[0].provenance = 0;
  const auto left = tools::diff(b, write(dir, "c", bundle), 0);
  REQUIRE(left.ok());
  INFO(left->text);
  CHECK(holds(left->text, "rank 1\n  -"));
  CHECK_FALSE(holds(left->text, "rank 0"));
}

TEST_CASE("explain tells the chain") {
  TempFolder dir;
  const auto plans = write(dir, "p", plan::example::pipeline(2, 2));
  tools::ExplainOptions options;
  options.rank = 1;
  options.instruction = 3;
  const auto chain = text(tools::explain(plans, options));
  INFO(chain);
  CHECK(holds(chain,
              "rank 1 instruction 3 (run PP1.F.b1 with \"PP1.F m0\", on stream \"compute\"; s.yaml:3:5)\n  from "
              "s.yaml:3:5: place at s.yaml:3:5"));
  CHECK(holds(chain, "  reads \"in PP1.F m0\" 0 to 64\n    written by rank 1 instruction 0 (recv"));
  options.instruction = 99;
  CHECK(text(tools::explain(plans, options)) == " there is no instruction 99");
  options.instruction = -1;
  options.buffer = "in PP1.F m1";
  CHECK(holds(text(tools::explain(plans, options)), "  read by rank 1 instruction 7 (run PP1.F.b1"));
  options.buffer = "PP1.B";
  CHECK(holds(text(tools::explain(plans, options)),
              " no buffer is called \"PP1.B\"; these hold it: \"out PP1.B m0\", \"out PP1.B m1\""));
  options.buffer = "";
  CHECK(holds(text(tools::explain(plans, options)), "s.yaml:3:5"));
}

TEST_CASE("show and explain tell what is alive in the arena") {
  TempFolder dir;
  const auto bundle = plan::example::pipeline(2, 2);
  const auto plans = write(dir, "p", bundle);
  const auto live = verify::live_at_peak(bundle, bundle.ranks[0]);
  const auto shown = text(tools::show(plans, {}));
  INFO(shown);
  CHECK(holds(shown, "arena/live"));
  CHECK(holds(shown, human_bytes(live.bytes) + "       3.000"));
  tools::ExplainOptions options;
  options.rank = 0;
  const auto told = text(tools::explain(plans, options));
  INFO(told);
  CHECK(holds(told, "  arena: " + std::to_string(bundle.ranks[0].arena_bytes) + " bytes, 3.000 of the " +
                        std::to_string(live.bytes) + " that are alive at rank 0 instruction " +
                        std::to_string(live.instruction) + " (run PP0."));
  for (const int32_t buffer : live.buffers) {
    const auto& alive = bundle.ranks[0].buffers[static_cast<size_t>(buffer)];
    CHECK(holds(told, "    \"" + alive.name + "\": " + std::to_string(alive.bytes) + " bytes\n"));
  }
  CHECK(holds(told, "    kept for messages, holes and alignment: " +
                        std::to_string(bundle.ranks[0].arena_bytes - live.bytes) + " bytes\n"));
}

// PIPER_UPDATE_GENERATED=1 writes the file instead of comparing it.
TEST_CASE("show draws the schedule as SVG") {
  TempFolder dir;
  const auto drawn = tools::draw_svg(write(dir, "p", plan::example::pipeline(2, 3)), {});
  REQUIRE(drawn.ok());
  const std::string golden = test::source_path("tests/unit/plan_schedule.svg");
  if (std::getenv("PIPER_UPDATE_GENERATED") != nullptr) std::ofstream(golden, std::ios::binary) << *drawn;
  std::ifstream file(golden, std::ios::binary);
  CHECK(*drawn == std::string(std::istreambuf_iterator<char>(file), {}));
}

// One rank with three stages, a file of a long name: shades of each pass's colour, and all of the title is seen.
TEST_CASE("stages of one rank are drawn in shades of their colour") {
  TempFolder dir;
  auto bundle = plan::example::pipeline(1, 3);
  bundle.manifest.strategy.name = std::string(100, 's') + ".yaml";
  for (int32_t stage = 1; stage < 3; ++stage) {
    bundle.manifest.chunks.push_back({"PP" + std::to_string(stage), "", {{"PP", stage}}});
    for (size_t p = 0, count = bundle.programs.size(); p < count; ++p) {
      auto program = bundle.programs[p];
      if (!program.of || program.of->chunk != 0) continue;
      program.name = "PP" + std::to_string(stage) + program.name.substr(3);
      program.of->chunk = stage;
      bundle.programs.push_back(std::move(program));
    }
  }
  for (auto& instruction : bundle.ranks[0].instructions.edit())
    if (auto* const run = std::get_if<plan::Run>(&instruction.action)) {
      const auto& of = bundle.programs[static_cast<size_t>(run->program)].of;
      const int32_t stage = bundle.ranks[0].arguments[static_cast<size_t>(run->arguments)].microbatch;
      for (size_t p = 0; of && p < bundle.programs.size(); ++p)
        if (bundle.programs[p].of && bundle.programs[p].of->chunk == stage && bundle.programs[p].of->pass == of->pass)
          run->program = static_cast<int32_t>(p);
    }
  const auto drawn = text(tools::draw_svg(write(dir, "p", bundle), {}));
  INFO(drawn);
  for (const char* pass : {"F", "B"}) {
    CHECK(holds(drawn, "<rect class=\"" + std::string(pass) + "\" x="));
    CHECK(holds(drawn, "<rect class=\"" + std::string(pass) + "\" fill-opacity=\"0.75\" x="));
    CHECK(holds(drawn, "<rect class=\"" + std::string(pass) + "\" fill-opacity=\"0.5\" x="));
  }
  CHECK(holds(drawn, ">2F2</text>"));
  CHECK(std::stod(drawn.substr(drawn.find("width=\"") + 7)) > 8 * 100);
}

TEST_CASE("ranks that do the same share a row of the drawing") {
  TempFolder dir;
  auto bundle = plan::example::two_ranks();
  bundle.ranks[1].arguments.edit()[0].name = bundle.ranks[0].arguments[0].name;
  CHECK(holds(text(tools::draw_svg(write(dir, "p", bundle), {})), ">0,1</text>"));
}

TEST_CASE("show colours cells and dims idle time") {
  TempFolder dir;
  const auto plans = write(dir, "p", plan::example::pipeline(2, 2));
  tools::ShowOptions options;
  const auto plain = text(tools::show(plans, options));
  CHECK(!holds(plain, "\x1b"));
  options.colour = true;
  auto coloured = text(tools::show(plans, options));
  INFO(coloured);
  CHECK(holds(coloured, "|\x1b[34mF0\x1b[0m \x1b[34mF1\x1b[0m \x1b[2m.........\x1b[0m\x1b[32mB0---\x1b[0m"));
  for (size_t at; (at = coloured.find('\x1b')) != std::string::npos;)
    coloured.erase(at, coloured.find('m', at) + 1 - at);
  CHECK(coloured == plain);
}

// Slices of a track nest, every flow begins once and ends once, after its begin.
TEST_CASE("simulate writes a trace of slices and flows") {
  TempFolder dir;
  const auto bundle = plan::example::pipeline(2, 2);
  const auto trace = tools::trace_bundle(write(dir, "p", bundle), {});
  REQUIRE(trace.ok());
  std::map<uint64_t, int> open;              // slices by track
  std::map<uint64_t, uint64_t> begun, over;  // flows: when
  size_t tracks = 0, slices = 0;
  uint64_t last = 0;
  for (protozero::pbf_reader all(*trace); all.next(1);) {
    protozero::pbf_reader packet = all.get_message();
    uint64_t time = 0;
    while (packet.next()) {
      if (packet.tag() == 8) last = std::max(last, time = packet.get_uint64());
      else if (packet.tag() == 60) ++tracks, packet.skip();
      else if (packet.tag() == 11) {
        protozero::pbf_reader event = packet.get_message();
        uint64_t track = 0;
        int32_t type = 0;
        while (event.next()) {
          if (event.tag() == 9) type = event.get_enum();
          else if (event.tag() == 11) track = event.get_uint64();
          else if (event.tag() == 47) CHECK(begun.emplace(event.get_fixed64(), time).second);
          else if (event.tag() == 48) CHECK(over.emplace(event.get_fixed64(), time).second);
          else event.skip();
        }
        open[track] += type == 1 ? 1 : -1;
        slices += type == 1 ? 1 : 0;
        CHECK(open[track] >= 0);
      } else packet.skip();
    }
  }
  for (const auto& [track, count] : open) CHECK(count == 0);
  CHECK(tracks == 2 + bundle.ranks[0].streams.size() + bundle.ranks[1].streams.size());
  CHECK(slices > 8);
  CHECK(begun.size() == 4);
  for (const auto& [flow, time] : over) CHECK(begun.count(flow) == 1);
  CHECK(over.size() == 4);
  CHECK(last == 9'000'000);  // two forwards, a third one's wait, two backwards after it: a unit is a millisecond
}

// As in a review: the file before the change has another name, and has one line more at its beginning.
TEST_CASE("diff matches lines of two files by directive, and says the change in the strategy's words") {
  TempFolder dir;
  const auto of = [&](const char* name, const std::string& text, auto change) {
    auto bundle = plan::example::pipeline(2, 2);
    for (auto& entry : bundle.provenance) {
      const std::string other = std::string(name) == "old.yaml" ? "3" : "7";
      for (std::string* word : {&entry.key, &entry.text})
        if (const size_t at = word->find("s.yaml:3"); at != std::string::npos)
          word->replace(at, 8, std::string(name) + ":" + other);
    }
    bundle.manifest.strategy.name = name;
    bundle.manifest.strategy.sha256 = plan::sha256(text);
    dir.write(name, text);
    change(bundle);
    return write(dir, (std::string(name) + ".plans").c_str(), bundle);
  };
  const auto before = of("old.yaml",
                         "schedule: {family: 1f1b, microbatches: 2}\ndirectives:\n  - {op: place, filter: {PP: 0}, "
                         "devices: [0]}\n",
                         [](auto&) {});
  const auto after =
      of("new.yaml",
         "schedule: {family: zero_bubble, microbatches: 2}\ndirectives:\n  - {op: stream, filter: {}, name: c}\n"
         "  - {op: place, filter: {PP: 0}, devices: [1]}\nclip_grad_norm: 1\n",
         [](auto& bundle) {
           auto& instructions = bundle.ranks[0].instructions.edit();
           std::vector<size_t> runs;
           for (size_t i = 0; i < instructions.size(); ++i)
             if (std::holds_alternative<plan::Run>(instructions[i].action)) runs.push_back(i);
           std::swap(instructions[runs[0]].action, instructions[runs[1]].action);
         });
  const auto told = tools::diff_steps(before, after, {});
  REQUIRE(told.ok());
  INFO(told->text);
  CHECK(told->text.find(
            "schedule.family: 1f1b -> zero_bubble\n"
            "directives[place {PP: 0}]: {op: place, filter: {PP: 0}, devices: [0]} -> {op: place, filter: {PP: 0}, "
            "devices: [1]}\n"
            "directives[stream {}]: {op: stream, filter: {}, name: c}, added\nclip_grad_norm: 1, added\n") == 0);
  CHECK(holds(told->text, "place at old.yaml:3:5 -> new.yaml:7:5"));
  // Rank 1 does what it did, though every line has another name.
  const auto lines = tools::diff(before, after, 0);
  REQUIRE(lines.ok());
  INFO(lines->text);
  CHECK(holds(lines->text, "rank 0\n"));
  CHECK_FALSE(holds(lines->text, "rank 1\n"));
}

TEST_CASE("diff tells what came, went and moved, by line of the strategy") {
  TempFolder dir;
  auto bundle = plan::example::pipeline(2, 2);
  const auto a = write(dir, "a", bundle);
  const auto json = [&](const std::string& b) {
    const auto told = tools::diff_steps(a, b, {tools::TableForm::kJson, {}, "", "", {}});
    return told.ok() ? told->text : told.error().message;
  };
  CHECK(holds(json(a), "{\"differs\":false,\"strategy\":[],\"unit\":\"work\",\"step\":[4.5,4.5]"));
  CHECK(holds(json(a), "\"ranks\":[],\"lines\":[]}"));

  // Rank 0 runs its second forward first.
  auto& instructions = bundle.ranks[0].instructions.edit();
  std::vector<size_t> runs;
  for (size_t i = 0; i < instructions.size(); ++i)
    if (std::holds_alternative<plan::Run>(instructions[i].action)) runs.push_back(i);
  std::swap(instructions[runs[0]].action, instructions[runs[1]].action);
  const auto moved = json(write(dir, "moved", bundle));
  INFO(moved);
  CHECK(holds(moved, "{\"differs\":true,"));
  CHECK(holds(moved,
              "\"ranks\":[0],\"lines\":[{\"line\":\"place at s.yaml:3:5\",\"removed\":0,\"added\":0,\"moved\":2}]}"));

  // A third microbatch: on each rank a forward and a backward, on each way a message of two ends.
  const auto longer = json(write(dir, "longer", plan::example::pipeline(2, 3)));
  INFO(longer);
  // More, smaller microbatches: the passes of each take less.
  CHECK(holds(longer, "\"step\":[4.5,3.99"));
  CHECK(holds(longer, "{\"line\":\"place at s.yaml:3:5\",\"removed\":0,\"added\":8,\"moved\":0}]}"));
  const auto tables = tools::diff_steps(a, dir / "longer", {tools::TableForm::kMarkdown, tools::Costs{}, "", "", {}});
  REQUIRE(tables.ok());
  INFO(tables->text);
  CHECK(holds(tables->text, "| step, units of one microbatch's forward | 9 | 12 | +33.3 % |\n"));
  CHECK(holds(tables->text, "| line of the strategy | removed | added | moved |\n|---|---:|---:|---:|\n"));
  const auto plain = tools::diff_steps(a, dir / "longer", {});
  CHECK(holds(plain->text, "on ranks 0,1\n"));
}
