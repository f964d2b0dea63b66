// What --expand prints is the program that was compiled: read back, as directives or as a table, it gives the same
// plans.
#include <catch2/catch.hpp>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include "compiler/driver/compile.h"
#include "compiler/strategy/families.h"
#include "tests/source_path.h"
#include "tests/unit/temp_folder.h"

namespace piper::driver {
namespace {

std::string run(const std::string& strategy, CompileOptions options) {
  options.model = test::source_path("tests/models/tiny_gpt.onnx");
  options.strategy = strategy;
  diag::Diagnostics diags;
  std::ostringstream out, err;
  const auto status = compile(options, diags, out, err);
  if (!status.ok()) FAIL(status.error().message << "\n" << diags.render_text(false));
  return out.str();
}

std::string expansion(const std::string& strategy, Expand form) {
  CompileOptions options;
  options.expand = form;
  options.stop_after = "place";
  return run(strategy, options);
}

// All ranks' plans, less the places in the strategy file that instructions come from.
std::string plans(const std::string& strategy) {
  CompileOptions options;
  options.emit = Emit::kPlan;
  return std::regex_replace(run(strategy, options), std::regex("\"at\":\"[^\"]*\""), "\"at\":\"\"");
}

// The passes of every rank's plan as table cells, "0F1", in the order in which they are issued.
std::vector<std::vector<std::string>> issued(const std::string& plans) {
  std::vector<std::vector<std::string>> ranks;
  const std::regex run("^\\{\"run\":\"[^\"]*\",\"args\":\"PP([0-9]+)\\.(F|B|BI|BW) m([0-9]+)\"");
  std::istringstream in(plans);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("\"rank\":", 0) == 0) ranks.emplace_back();
    std::smatch match;
    if (!std::regex_search(line, match, run)) continue;
    const std::string pass = match[2] == "BI" ? "I" : match[2] == "BW" ? "W" : match[2].str();
    ranks.back().push_back(match[1].str() + pass + match[3].str());
  }
  return ranks;
}

const char* const kHead =
    "model: {batch: 16}\n"
    "annotate: [{tag: PP, starts: [\"h.0.ln1\", \"h.0.ln2\", \"h.1.ln1\", \"h.1.ln2\"]}]\n"
    "optimizer: {sgd: {lr: 0.1}}\n";

}  // namespace

TEST_CASE("the expansion of every family reads back to the same plans, as directives and as a table") {
  const TempFolder folder;
  for (std::string_view family : strategy::family_names()) {
    const std::string name(family);
    INFO(name);
    const std::string schedule =
        folder.write("family.yaml", kHead + ("schedule: {family: " + name + ", microbatches: 8}\n"));
    const std::string directives = expansion(schedule, Expand::kYaml), table = expansion(schedule, Expand::kCsv);
    const std::string by_hand = folder.write("directives.yaml", kHead + directives);
    folder.write("table.csv", table);
    const std::string by_table = folder.write("table.yaml", kHead + std::string("schedule: {csv: table.csv}\n"));
    CHECK(expansion(by_hand, Expand::kYaml) == directives);
    CHECK(expansion(by_table, Expand::kCsv) == table);
    CHECK(expansion(by_table, Expand::kYaml) == directives);
    const std::string plan = plans(schedule);
    CHECK(plan.size() > 10000);
    CHECK(plans(by_hand) == plan);
    CHECK(plans(by_table) == plan);
  }
}

TEST_CASE("every rank issues the passes of its row, in the row's order; members of a slot may change places") {
  const TempFolder folder;
  for (std::string_view family : strategy::family_names()) {
    const std::string name(family);
    INFO(name);
    const std::string schedule =
        folder.write("family.yaml", kHead + ("schedule: {family: " + name + ", microbatches: 8}\n"));
    const auto table = strategy::parse_csv(expansion(schedule, Expand::kCsv)).value();
    const auto ranks = issued(plans(schedule));
    REQUIRE(ranks.size() == table.rows.size());
    std::set<int32_t> split;  // stages with a split backward
    for (const auto& row : table.rows)
      for (const strategy::Slot& slot : row)
        for (const strategy::Action& a : slot)
          if (a.pass == strategy::Pass::kBW) split.insert(a.stage);
    for (size_t r = 0; r < ranks.size(); ++r) {
      size_t at = 0;
      for (const strategy::Slot& slot : table.rows[r]) {
        std::vector<std::string> wanted;
        for (const strategy::Action& a : slot) {
          // Where some backward of a stage is split, a whole one is its halves, one after the other.
          const bool halves = a.pass == strategy::Pass::kB && split.count(a.stage) > 0;
          for (char pass : std::string(halves ? "IW" : std::string(1, "FBIW"[static_cast<size_t>(a.pass)])))
            wanted.push_back(std::to_string(a.stage) + pass + std::to_string(a.microbatch));
        }
        REQUIRE(at + wanted.size() <= ranks[r].size());
        std::vector<std::string> found(ranks[r].begin() + at, ranks[r].begin() + at + wanted.size());
        std::sort(wanted.begin(), wanted.end());
        std::sort(found.begin(), found.end());
        REQUIRE(found == wanted);
        at += wanted.size();
      }
      CHECK(at == ranks[r].size());
    }
  }
}

TEST_CASE("groups, streams and names of directives read back") {
  const TempFolder folder;
  const char* const body =
      "directives:\n"
      "  - {op: place, filter: {PP: \"0..1\"}, devices: [2, 0], stream: \"a: b\"}\n"
      "  - {op: replicate, filter: {PP: [0, 1]}, devices: [2, 0], reduce_stream: \"0\", bucket_size: 0.05}\n"
      "  - {op: replicate, filter: {PP: [2, 3]}, devices: [1, 3], reduce_stream: \"null\", bucket_size: 1e-7}\n"
      "  - {op: split, num_microbatches: 4}\n";
  const std::string first = folder.write("first.yaml", std::string(kHead) + body);
  const std::string again = folder.write("again.yaml", kHead + expansion(first, Expand::kYaml));
  CHECK(expansion(again, Expand::kYaml) == expansion(first, Expand::kYaml));
  CHECK(plans(again) == plans(first));
}

TEST_CASE("a strategy without directives expands to an empty list that reads back") {
  const TempFolder folder;
  const std::string first = folder.write("first.yaml", kHead);
  CHECK(expansion(first, Expand::kYaml) == "directives: []\n");
}

TEST_CASE("a table's rows go to the devices of ranks, or to those where its stages are placed, in any order") {
  const TempFolder folder;
  folder.write("table.csv", "1F0,1B0,1F1,1B1\n0F0,0F1,0B0,0B1\n");
  const std::string head =
      "model: {batch: 8}\nannotate: [{tag: PP, starts: [\"h.0\", \"h.1\"]}]\noptimizer: {sgd: {lr: 0.1}}\n";
  const auto places = [&](const std::string& rest) {
    const std::string text = expansion(folder.write("s.yaml", head + rest), Expand::kYaml);
    std::string found;
    for (const char* stage : {"0", "1"}) {
      const std::string key = "{op: place, filter: {PP: " + std::string(stage) + "}, devices: ";
      const size_t at = text.find(key);
      found += at == std::string::npos
                   ? "-"
                   : text.substr(at + key.size(), text.find('}', at + key.size()) - at - key.size());
    }
    return found;
  };
  CHECK(places("schedule: {csv: table.csv}\n") == "[1][0]");
  CHECK(places("schedule: {csv: table.csv, ranks: [[2, 3], [0, 1]]}\n") == "[0, 1][2, 3]");
  CHECK(places("directives: [{op: place, filter: {PP: 0}, devices: [0]}, {op: place, filter: {PP: 1}, devices: [1]}]\n"
               "schedule: {csv: table.csv, microbatches: 2}\n") == "[0][1]");
}

}  // namespace piper::driver
