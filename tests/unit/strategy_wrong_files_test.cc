// Every file of tests/golden/strategy: the expected errors, and no others, at the expected lines.
// "# expect-error@+N CODE: {{substring}}" names the line N below the comment's own.
#include <catch2/catch.hpp>

#include <dirent.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "compiler/diag/explain.h"
#include "compiler/directives/directive_table.h"
#include "compiler/strategy/loader.h"
#include "tests/source_path.h"

namespace piper::strategy {
namespace {

struct Expected {
  uint32_t line = 0;
  std::string code, text;
};

std::vector<Expected> expectations(const std::string& text) {
  std::vector<Expected> list;
  std::istringstream in(text);
  std::string line;
  for (uint32_t number = 1; std::getline(in, line); ++number) {
    const std::string key = "# expect-error@+";
    const size_t at = line.find(key);
    if (at == std::string::npos) continue;
    const size_t code = line.find(" P", at);
    const size_t open = line.find("{{"), close = line.rfind("}}");
    REQUIRE(code != std::string::npos);
    REQUIRE(open != std::string::npos);
    REQUIRE(close != std::string::npos);
    Expected e;
    e.line = number + static_cast<uint32_t>(std::stoul(line.substr(at + key.size())));
    e.code = line.substr(code + 1, 5);
    e.text = line.substr(open + 2, close - open - 2);
    list.push_back(std::move(e));
  }
  return list;
}

}  // namespace

TEST_CASE("wrong strategy files give their expected errors") {
  const std::string folder = test::source_path("tests/golden/strategy");
  std::vector<std::string> names;
  DIR* dir = opendir(folder.c_str());
  REQUIRE(dir != nullptr);
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name.size() > 5 && name.substr(name.size() - 5) == ".yaml") names.push_back(name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  CHECK(names.size() >= 25);
  for (const std::string& name : names) {
    std::ifstream in(folder + "/" + name, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    diag::Diagnostics diags;
    auto result = parse_strategy(name, text.str(), {}, directives::all_specs(), diags);
    INFO(name << "\n" << diags.render_text(false));
    CHECK(!result.ok());
    std::vector<Expected> expected = expectations(text.str());
    CHECK(!expected.empty());
    for (const diag::Diagnostic& d : diags.all()) {
      if (d.severity != diag::Severity::kError) continue;
      const auto found = std::find_if(expected.begin(), expected.end(), [&](const Expected& e) {
        return e.line == d.span.line && e.code == d.code && d.message.find(e.text) != std::string::npos;
      });
      INFO(d.code << " at line " << d.span.line << ": " << d.message);
      CHECK(found != expected.end());
      CHECK(!diag::explain(d.code).empty());
      if (found != expected.end()) expected.erase(found);
    }
    for (const Expected& e : expected) FAIL_CHECK("missing " << e.code << " at line " << e.line << ": " << e.text);
  }
}

}  // namespace piper::strategy
