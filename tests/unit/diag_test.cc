#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "compiler/diag/diagnostics.h"
#include "compiler/diag/explain.h"
#include "tests/source_path.h"

namespace piper::diag {
namespace {

Status fail(Diagnostics& diags, Span span) { return diags.error("P0203", span) << "no node has tag '" << "PQ" << "'"; }

Result<int> fail_value(Diagnostics& diags, Span span) {
  return diags.error("P0203", span).note("known: PP").help("did you mean 'PP'?") << "no node has tag 'PQ'";
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("an error is rendered with its line, a caret, notes and help") {
  Diagnostics diags;
  const uint32_t file = diags.add_file("dir/pp2.yaml", "directives:\n  filter: {PQ: 1}\n");
  Result<int> result = fail_value(diags, {file, 2, 12, 2});
  REQUIRE(!result.ok());
  CHECK(result.error().reported);
  CHECK(result.error().code == "P0203");
  CHECK(diags.render_text(false) ==
        "dir/pp2.yaml:2:12: error[P0203]: no node has tag 'PQ'\n"
        "   2 |   filter: {PQ: 1}\n"
        "     |            ^~\n"
        "note: known: PP\n"
        "help: did you mean 'PP'?   (piperc --explain P0203)\n");
  CHECK(diags.place({file, 2, 12, 2}) == "pp2.yaml:2:12");
}

TEST_CASE("errors come in source order, at most twenty are shown, repetitions once") {
  Diagnostics diags;
  const uint32_t file = diags.add_file("s.yaml", "a\nb\n");
  (void)fail(diags, {file, 2, 1, 1});
  (void)fail(diags, {file, 1, 1, 1});
  (void)fail(diags, {file, 1, 1, 1});
  CHECK(diags.num_errors() == 2);
  const std::string text = diags.render_text(false);
  CHECK(text.find("s.yaml:1:1") < text.find("s.yaml:2:1"));
  for (uint32_t i = 0; i < 30; ++i) diags.error("P0202") << "error " << i;
  CHECK(diags.num_errors() == 32);
  CHECK(diags.render_text(false).find("12 more errors are not shown") != std::string::npos);
}

TEST_CASE("warnings and remarks are no errors; remarks are shown on request") {
  Diagnostics diags;
  diags.warning("P0227") << "odd";
  diags.remark("placed");
  CHECK(!diags.failed());
  CHECK(diags.render_text(false) == "warning[P0227]: odd\n");
  CHECK(diags.render_text(true) == "warning[P0227]: odd\nnote: placed\n");
}

TEST_CASE("diagnostics collected apart stand behind, repetitions once") {
  Diagnostics diags, apart;
  diags.error("P0202") << "first";
  apart.error("P0202") << "second";
  apart.error("P0202") << "first";
  diags.append(std::move(apart));
  CHECK(diags.num_errors() == 2);
  CHECK(diags.render_text(false) ==
        "error[P0202]: first\nhelp: Write a value of the type that the message names.   (piperc --explain "
        "P0202)\nerror[P0202]: second\nhelp: Write a value of the type that the message names.   (piperc --explain "
        "P0202)\n");
}

TEST_CASE("a long line is shown near the caret, tabs and UTF-8 keep the caret in place") {
  Diagnostics diags;
  std::string source(5000, 'x');
  source += "\n\t\xc3\xa9y\n";
  const uint32_t file = diags.add_file("s.json", source);
  diags.error("P0202", {file, 1, 2500, 3}) << "here";
  diags.error("P0202", {file, 2, 4, 1}) << "there";
  const std::string text = diags.render_text(false);
  CHECK(text.size() < 700);
  CHECK(text.find("  2 | \t\xc3\xa9y\n     | \t ^\n") != std::string::npos);
}

TEST_CASE("JSON form survives bytes that are no UTF-8") {
  Diagnostics diags;
  const uint32_t file = diags.add_file("s\xff.yaml", "x");
  diags.error("P0202", {file, 1, 1, 1}).note("n", {file, 1, 1, 1}).help("h") << "bad \xfe";
  const std::string json = diags.render_json();
  CHECK(json.find("\"code\": \"P0202\"") != std::string::npos);
  CHECK(json.find("\"line\": 1") != std::string::npos);
  CHECK(json.find("\"errors\": 1") != std::string::npos);
}

TEST_CASE("nearest finds misspellings and nothing else") {
  const std::vector<std::string> keys = {"devices", "stream", "filter", "PP"};
  CHECK(nearest("device", keys) == "devices");
  CHECK(nearest("fliter", keys) == "filter");
  CHECK(nearest("PQ", keys) == "PP");
  CHECK(nearest("bucket", keys).empty());
}

// PIPER_UPDATE_GENERATED=1 writes the pages instead of comparing them.
TEST_CASE("every code has a page that says what the table says") {
  std::string last;
  for (const CodeEntry& entry : all_codes()) {
    INFO(entry.code);
    CHECK(last < entry.code);
    last = entry.code;
    const std::string path = test::source_path("docs/errors/" + std::string(entry.code) + ".md");
    const std::string page = explain(entry.code);
    if (std::getenv("PIPER_UPDATE_GENERATED") != nullptr) {
      std::ofstream(path, std::ios::binary) << page;
    } else {
      CHECK(slurp(path) == page);
    }
  }
  CHECK(explain("P9999").empty());
}

// A code is a quoted "Pdddd" in the sources of compiler, schemas and tools.
TEST_CASE("every code that the sources emit is in the table") {
  std::set<std::string> known;
  for (const CodeEntry& entry : all_codes()) known.emplace(entry.code);
  for (const char* folder : {"compiler", "schemas", "tools"}) {
    const std::filesystem::path root = test::source_path(folder);
    if (!std::filesystem::is_directory(root)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
      const std::string text = slurp(entry.path().string());
      for (size_t at = text.find("\"P0"); at != std::string::npos; at = text.find("\"P0", at + 1)) {
        const std::string code = text.substr(at + 1, 5);
        const bool is_code =
            at + 6 < text.size() && text[at + 6] == '"' && code.find_first_not_of("0123456789", 1) == std::string::npos;
        if (is_code && known.count(code) == 0) FAIL_CHECK(entry.path().string() << " emits " << code);
      }
    }
  }
}

}  // namespace piper::diag
