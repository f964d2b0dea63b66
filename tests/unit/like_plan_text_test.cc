// The text of plans that do what another rank's plan does: what they say, and what is refused of it.
#include <algorithm>
#include <catch2/catch.hpp>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/like_ranks.h"
#include "tests/unit/plan_bundle_example.h"

using namespace piper;
using namespace piper::plan;

namespace {

std::string message(const Status& status) {
  return status.ok() ? "ok" : status.error().code + " " + status.error().message;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Two ranks that do the same on other samples.
Bundle alike() {
  auto bundle = example::two_ranks();
  RankPlan other = bundle.ranks[0];
  other.rank = 1;
  for (auto& channel : other.channels) channel.peer = 0;
  other.inputs[0].first = 4;
  other.scalars[0].values = {8};
  for (auto& placement : other.placements) placement.part.owner = false;
  bundle.ranks[1] = other;
  return bundle;
}

std::string like_text(const Bundle& bundle) {
  return print_rank_plan(bundle.ranks[1], bundle.provenance, bundle.programs, &bundle.ranks[0]);
}

}  // namespace

TEST_CASE("a plan that does what another rank's does says only what is its own") {
  const auto bundle = alike();
  CHECK(like_ranks(bundle) == std::vector<int32_t>{-1, 0});
  const auto text = like_text(bundle);
  CHECK(text ==
        "{\n\"rank\":1,\n\"like\":0,\n\"arena_bytes\":640,\n\"seed_step\":\"seed_step\",\n"
        "\"learning_rate\":\"learning_rate\",\n"
        "\"communicators\":[\n{\"communicator\":\"dp:0,1\",\"ranks\":[0,1],\"max_ctas\":8}\n],\n"
        "\"channels\":[\n{\"channel\":\"there\",\"peer\":0,\"id\":0},\n{\"channel\":\"back\",\"peer\":0,\"id\":1}\n],\n"
        "\"inputs\":[\n{\"input\":\"input\",\"first\":4,\"count\":4,\"in\":\"x\"}\n],\n"
        "\"scalars\":[\n{\"scalar\":\"sample_offset\",\"values\":[8]}\n]\n}\n");
  const PlanOfRank first = [&](int32_t rank) -> Result<OtherPlan> {
    return OtherPlan{&bundle.ranks[static_cast<size_t>(rank)]};
  };
  const auto parsed = parse_rank_plan(text, "r", bundle.provenance, bundle.programs, first);
  REQUIRE(message(parsed.status()) == "ok");
  CHECK(same_work(*parsed, bundle.ranks[0]));
  CHECK(print_rank_plan(*parsed, bundle.provenance, bundle.programs, &bundle.ranks[0]) == text);
  CHECK(print_rank_plan(*parsed, bundle.provenance, bundle.programs) ==
        print_rank_plan(bundle.ranks[1], bundle.provenance, bundle.programs));
  // Where one of them is changed, they are alike no more.
  auto changed = bundle;
  changed.ranks[1].instructions.edit().pop_back();
  CHECK(changed.ranks[0].instructions.size() == bundle.ranks[0].instructions.size());
  CHECK(like_ranks(changed) == std::vector<int32_t>{-1, -1});
}

TEST_CASE("plans that cannot be like another are refused") {
  const auto bundle = alike();
  const auto refused = [&](const std::string& from, const std::string& to, bool at_hand = true) {
    PlanOfRank first;
    if (at_hand)
      first = [&](int32_t rank) -> Result<OtherPlan> { return OtherPlan{&bundle.ranks[static_cast<size_t>(rank)]}; };
    return message(
        parse_rank_plan(replaced(like_text(bundle), from, to), "r", bundle.provenance, bundle.programs, first)
            .status());
  };
  CHECK(refused("\"rank\":1", "\"rank\":1", false) == "P0611 r:3: it is like rank 0, whose plan is not at hand");
  CHECK(refused("\"like\":0", "\"like\":1") == "P0611 r:3: a plan can only be like that of an earlier rank");
  CHECK(refused("\"arena_bytes\":640", "\"arena_bytes\":704") == "P0611 r:3: arena_bytes is not that of rank 0");
  CHECK(refused("\"channel\":\"back\"", "\"channel\":\"home\"") ==
        "P0611 r:3: the channels are not called like those of rank 0");
  CHECK(refused("\"ranks\":[0,1]", "\"ranks\":[0,1,2]") ==
        "P0611 r:3: the communicators differ from those of rank 0 in name or size");
  CHECK(refused("\"scalars\":[", "\"arguments\":[") == "P0605 r:17: expected the key \"scalars\", found \"arguments\"");
}

// Argument list 0 is of c0.F.b4 on ["x", "weight", "act y m0"]: a parameter is persistent, an activation is not.
TEST_CASE("a plan like another has argument lists of its own where parts of persistent buffers differ") {
  auto bundle = alike();
  const PlanOfRank first = [&](int32_t rank) -> Result<OtherPlan> {
    return OtherPlan{&bundle.ranks[static_cast<size_t>(rank)]};
  };
  const ArgumentList list = bundle.ranks[0].arguments[0];
  const auto persistent = static_cast<size_t>(
      std::find_if(list.arguments.begin(), list.arguments.end(),
                   [&](const BufferRange& where) {
                     return bundle.ranks[0].buffers[static_cast<size_t>(where.buffer)].cls != BufferClass::kArena;
                   }) -
      list.arguments.begin());
  REQUIRE(persistent < list.arguments.size());
  auto& buffers = bundle.ranks[0].buffers.edit();  // room for two parts
  buffers[static_cast<size_t>(list.arguments[persistent].buffer)].bytes *= 2;
  bundle.ranks[1].buffers = bundle.ranks[0].buffers;
  ArgumentList own = list;
  own.arguments[persistent].offset += 64;
  bundle.ranks[1].arguments.set_own(0, own);
  CHECK(like_ranks(bundle) == std::vector<int32_t>{-1, 0});
  CHECK(own_lists(bundle.ranks[1], bundle.ranks[0]) == std::vector<size_t>{0});
  const auto text = like_text(bundle);
  const std::string part = "\"offsets\":[" + std::to_string(persistent) + ",";
  CHECK(text.find("\"arguments\":[\n{\"args\":\"" + own.name + "\"," + part + "64]}\n]") != std::string::npos);
  const auto parsed = parse_rank_plan(text, "r", bundle.provenance, bundle.programs, first);
  REQUIRE(message(parsed.status()) == "ok");
  CHECK(same_work(*parsed, bundle.ranks[0]));
  CHECK(parsed->arguments[0] == own);
  CHECK(parsed->arguments[1] == bundle.ranks[0].arguments[1]);
  CHECK(print_rank_plan(*parsed, bundle.provenance, bundle.programs, &bundle.ranks[0]) == text);
  CHECK(print_rank_plan(*parsed, bundle.provenance, bundle.programs) ==
        print_rank_plan(bundle.ranks[1], bundle.provenance, bundle.programs));
  const std::string no_pairs = "P0607 r:21: offsets of \"" + own.name + "\" are no pairs of an argument and its bytes";
  const auto refused = [&](const std::string& from, const std::string& to) {
    return message(parse_rank_plan(replaced(text, from, to), "r", bundle.provenance, bundle.programs, first).status());
  };
  CHECK(refused("\"args\":\"" + own.name + "\"", "\"args\":\"none\"") ==
        "P0606 r:21: there is no argument list \"none\"");
  CHECK(refused(part, part + "65536,1,").substr(0, 6) == "P0607 ");
  CHECK(refused(part, part + "-64,1,").substr(0, 6) == "P0607 ");
  CHECK(refused(part + "64]", part + "64,0]") == no_pairs);
  CHECK(refused(part + "64]", "\"offsets\":[-1,64]") == no_pairs);
  CHECK(refused(part + "64]", "\"offsets\":[3,64]") == no_pairs);
  CHECK(refused("{\"args\"", "{\"args\":\"" + own.name + "\"," + part + "64]},\n{\"args\"") ==
        "P0606 r:22: there is no argument list \"" + own.name + "\" after those before it");
  const auto arena = static_cast<size_t>(
      std::find_if(list.arguments.begin(), list.arguments.end(),
                   [&](const BufferRange& where) {
                     return bundle.ranks[0].buffers[static_cast<size_t>(where.buffer)].cls == BufferClass::kArena;
                   }) -
      list.arguments.begin());
  REQUIRE(arena < list.arguments.size());
  own.arguments[arena].buffer = list.arguments[persistent].buffer;
  bundle.ranks[1].arguments.set_own(0, own);
  CHECK(like_ranks(bundle) == std::vector<int32_t>{-1, -1});
}

TEST_CASE("a plan like another says which parts of tensors it has by what differs") {
  auto bundle = alike();
  auto& others = bundle.ranks[0].placements;
  REQUIRE(!others.empty());
  // The other plan has three more; of these one is here in another part, one is not, and one is new.
  Placement part = others[0];
  REQUIRE(!part.shape.empty());
  part.part.count = 1;
  part.part.owner = true;
  for (const char* name : {"first", "second", "third"}) {
    part.name = name;
    others.push_back(part);
  }
  auto& own = bundle.ranks[1].placements;
  own = others;
  own[own.size() - 3].part.first = 2;
  own[own.size() - 3].part.where.offset += 4;
  own[own.size() - 1].part.owner = false;
  own.erase(own.end() - 2);
  Placement fresh = part;
  fresh.name = "fresh";
  fresh.kind = PlacementKind::kFirstMoment;
  own.push_back(fresh);
  const auto text = like_text(bundle);
  std::string unchanged;
  for (size_t i = 3; i < others.size(); ++i) unchanged += "{},\n";
  CHECK(text.find("\"placements\":[\n" + unchanged + "{\"first\":2,\"offset\":" +
                  std::to_string(part.part.where.offset + 4) + "},\n{\"skips\":1,\"owner\":false},\n" +
                  "{\"placement\":{\"tensor\":\"fresh\",\"kind\":\"m\"") != std::string::npos);
  const PlanOfRank first = [&](int32_t rank) -> Result<OtherPlan> {
    return OtherPlan{&bundle.ranks[static_cast<size_t>(rank)]};
  };
  const auto parsed = parse_rank_plan(text, "r", bundle.provenance, bundle.programs, first);
  REQUIRE(message(parsed.status()) == "ok");
  CHECK(print_rank_plan(*parsed, bundle.provenance, bundle.programs) ==
        print_rank_plan(bundle.ranks[1], bundle.provenance, bundle.programs));
  const auto refused = [&](const std::string& from, const std::string& to) {
    const auto damaged = parse_rank_plan(replaced(text, from, to), "r", bundle.provenance, bundle.programs, first);
    const std::string all = message(damaged.status());
    return all.substr(0, 6) + all.substr(std::min(all.find(": ") + 2, all.size()));
  };
  const std::string none = "P0606 rank 0 has no such placement: it has " + std::to_string(others.size());
  CHECK(refused("\"skips\":1", "\"skips\":2") == none);
  CHECK(refused("\"skips\":1", "\"skips\":9223372036854775807") == none);
  CHECK(refused("\"skips\":1", "\"skips\":0") == "P0607 skips is not positive");
  CHECK(refused("\"owner\":false}", "\"owner\":false},\n{}") == none);
  CHECK(refused("\"first\":2", "\"first\":65536").substr(0, 6) == "P0607 ");
  CHECK(refused("\"offset\":", "\"offset\":65536").substr(0, 6) == "P0607 ");
  CHECK(refused("{\"placement\"", "{\"skips\":1,\"placement\"") == "P0605 a placement of its own is said alone");
}
