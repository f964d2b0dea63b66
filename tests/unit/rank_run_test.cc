// Ranks of a communicator as plans write them.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/rank_run.h"
#include "tests/unit/plan_bundle_example.h"

using namespace piper;
using namespace piper::plan;

namespace {

std::string message(const Status& status) {
  return status.ok() ? "ok" : status.error().code + " " + status.error().message;
}

// What reading says of the example's second rank with one text in place of another.
std::string damage(const std::string& from, const std::string& to) {
  const auto bundle = example::two_ranks();
  std::string text = print_rank_plan(bundle.ranks[1], bundle.provenance, bundle.programs);
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  return message(parse_rank_plan(text, "r", bundle.provenance, bundle.programs).status());
}

}  // namespace

TEST_CASE("a run of more ranks than the bundle has is refused") {
  CHECK(ranks_of_run("0..31", 32).size() == 32);
  CHECK(ranks_of_run("0..31", 31).empty());
  CHECK(ranks_of_run("0..1048575", 1000).empty());
}

TEST_CASE("many ranks at equal distances are one text") {
  auto bundle = example::two_ranks();
  RankPlan& plan = bundle.ranks[1];
  const auto printed = [&](std::vector<int32_t> ranks) {
    plan.communicators.at(0).ranks = ranks;
    const auto text = print_rank_plan(plan, bundle.provenance, bundle.programs);
    const auto parsed = parse_rank_plan(text, "r", bundle.provenance, bundle.programs);
    REQUIRE(message(parsed.status()) == "ok");
    CHECK(parsed->communicators.at(0).ranks == ranks);
    const size_t begin = text.find("\"ranks\":") + 8;
    return text.substr(begin, text.find(",\"max_ctas\"", begin) - begin);
  };
  const auto spaced = [](int32_t first, int32_t count, int32_t distance) {
    std::vector<int32_t> ranks;
    for (int32_t i = 0; i < count; ++i) ranks.push_back(first + i * distance);
    return ranks;
  };
  CHECK(printed(spaced(0, 8192, 1)) == "\"0..8191\"");
  CHECK(printed(spaced(1, 16, 8)) == "\"1..121 by 8\"");
  CHECK(printed(spaced(0, 15, 1)).starts_with("[0,1,2,"));
  // The order of a sum is that of the list.
  std::vector<int32_t> others = spaced(0, 16, 1);
  std::swap(others[3], others[4]);
  CHECK(printed(others).starts_with("[0,1,2,4,3,"));
  CHECK(printed({others.rbegin(), others.rend()}).starts_with("[15,14,"));
  others = spaced(0, 16, 1);
  others.back() = 17;
  CHECK(printed(others).ends_with("14,17]"));

  for (const char* text :
       {"", "..", "0..", "..31", "0..14", "31..0", "0..31 by 1", "0..31 by 0", "0..31 by -1", "0..31 by 2", "0..31 by",
        "0..31 ", "-1..31", "0..31..63", "0..2147483647", "0..99999999999", "0..62 by 2 "}) {
    INFO(text);
    CHECK(damage("[0,1]", '"' + std::string(text) + '"') ==
          "P0605 r:14: \"" + std::string(text) +
              "\" is no run of at least 16 of the 1048576 ranks, as in \"0..63\" or \"1..505 by 8\"");
  }
  CHECK(damage("[0,1]", "\"0..30 by 2\"") == "P0607 r:14: communicator \"dp:0,1\" does not hold rank 1");
  std::string many = "[0,1],\"max_ctas\":8}";
  for (int i = 0; i < 16; ++i) many += ",\n{\"communicator\":\"" + std::to_string(i) + "\",\"ranks\":\"0..1048575\"}";
  CHECK(damage("[0,1],\"max_ctas\":8}", many) == "ok");
  many += ",\n{\"communicator\":\"c\",\"ranks\":\"0..15\"}";
  CHECK(damage("[0,1],\"max_ctas\":8}", many) ==
        "P0607 r:31: the communicators of a rank have too many ranks together");
}
