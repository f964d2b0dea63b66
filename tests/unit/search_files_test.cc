// The folder of a search, whatever ends it: what is in it was proved, and the table has it.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "compiler/search/write_found.h"
#include "tests/unit/search_on.h"

namespace piper::search {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
bool holds(const std::string& all, const std::string& part) { return all.find(part) != std::string::npos; }

// Three strategies that a search has found, and a folder in which an earlier one has written five.
struct Found3 {
  Found3() {
    options.directory = folder / "found";
    options.keep = 3;
    options.compile.machine = machine_of("fast links", 4);
    std::filesystem::create_directories(options.directory);
    for (const char* name :
         {"table.md", "rejected.md", "tradeoff.html", "01.tuned.yaml", "01.yaml", "05.yaml", "my.yaml"})
      std::ofstream(path(name)) << "earlier";
    for (int i = 0; i < 3; ++i) {
      Found one;
      one.point.dp = 4;
      one.point.microbatches = 1 << i;
      one.cost.step_us = 100 + i;
      one.cost.peak_bytes = 1000;
      found.explored.fit.push_back(one);
      found.points.push_back(one.point);
    }
    found.explored.least_us = 100;
    found.explored.complete = true;
    found.memory_limit = 2000;
  }

  std::string path(const std::string& name) const { return options.directory + "/" + name; }
  bool has(const std::string& name) const { return std::filesystem::exists(path(name)); }
  // `fails_at`: the proof of this place (from 0) does not succeed, by `failure`.
  Status write(size_t fails_at, const std::function<Status()>& failure) {
    size_t place = 0;
    Writers writers;
    writers.text_of = [](const Point& point, const std::string& head) { return head + describe(point) + "\n"; };
    writers.prove = [&, fails_at](const std::string& text) {
      CHECK(holds(text, "# " + std::to_string(place + 1) + ". "));
      before_proof(place);
      return place++ == fails_at ? failure() : Status();
    };
    writers.tune = [](size_t at, const Found&, const std::string&) -> Result<Tuned> {
      return at == 0 ? Tuned{"01.tuned.yaml", "what tuning said\n"} : Tuned();
    };
    return write_found(options, found, {}, writers, out);
  }

  const TempFolder folder;
  SearchOptions options;
  Searched found;
  std::ostringstream out;
  std::function<void(size_t)> before_proof = [](size_t) {};
};

}  // namespace

TEST_CASE("a strategy is written when it is proved, and the table has what is written") {
  Found3 three;
  three.before_proof = [&](size_t place) {
    if (place == 0) CHECK(read(three.path("table.md")) == "earlier");
    if (place == 0) return;
    CHECK(!three.has(place == 1 ? "02.yaml" : "03.yaml"));
    const std::string table = read(three.path("table.md"));
    CHECK(holds(table, place == 1 ? "| 01.yaml | " : "| 02.yaml | "));
    CHECK(!holds(table, place == 1 ? "| 02.yaml | " : "| 03.yaml | "));
    CHECK(holds(table, "what tuning said"));
  };
  REQUIRE(three.write(3, [] { return Status(); }).ok());
  CHECK(read(three.path("table.md")) == three.out.str());
  CHECK(holds(three.out.str(), "| 03.yaml | "));
  CHECK(holds(read(three.path("rejected.md")), "# One choice changed"));
  CHECK(holds(read(three.path("tradeoff.html")), "<circle "));
  CHECK(!three.has("05.yaml"));
  CHECK(read(three.path("my.yaml")) == "earlier");
}

TEST_CASE("where a proof fails, what was proved before is there with its table, and the message says so") {
  const auto refuted = []() -> Status { throw std::runtime_error("the emitted plan was refuted"); };
  const auto refused = [] { return Status::failure("P0331", "losses mix samples"); };
  for (const bool throws : {true, false}) {
    Found3 three;
    std::string said;
    if (throws) {
      try {
        (void)three.write(1, refuted);
      } catch (const std::exception& bug) {
        said = bug.what();
      }
      CHECK(holds(said, "with this strategy:\n# 2. "));
    } else {
      const Status status = three.write(1, refused);
      REQUIRE(!status.ok());
      CHECK(status.error().code == "P0331");
      said = status.error().message;
    }
    INFO(said);
    CHECK(holds(said, "the proof of 02.yaml (dp 4, 2 microbatches) failed, so it is not written"));
    CHECK(holds(said, "proved before, and written: 01.yaml in " + three.options.directory));
    CHECK(holds(said, throws ? "refuted" : "mix samples"));
    CHECK(three.has("01.yaml"));
    for (const char* name : {"02.yaml", "03.yaml", "05.yaml"}) CHECK(!three.has(name));
    CHECK(holds(read(three.path("table.md")), "| 01.yaml | "));
    CHECK(read(three.path("table.md")) == three.out.str());
  }
}

TEST_CASE("where the first proof fails, the folder stays as an earlier search left it") {
  Found3 three;
  const Status status = three.write(0, [] { return Status::failure("", "no"); });
  REQUIRE(!status.ok());
  CHECK(holds(status.error().message, "nothing was changed in "));
  for (const char* name :
       {"table.md", "rejected.md", "tradeoff.html", "01.tuned.yaml", "01.yaml", "05.yaml", "my.yaml"})
    CHECK(read(three.path(name)) == "earlier");
  CHECK(three.out.str().empty());
}

}  // namespace piper::search
