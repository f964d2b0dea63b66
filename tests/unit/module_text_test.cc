// The text form of a module, and the rules that its verifier checks.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "compiler/ir/module_text.h"

namespace piper::ir {
namespace {

// As print writes it: two chunks, the second of experts, each field somewhere not what it is by default.
const std::string kModule = R"(module {
  step batch 24 microbatches 3 split cut by @1:4:5+6
  per_microbatch ["h.*", "*.bn"]
  training clip 1.5 by 0 update 1
  precision compute f16 master f32 reduce bf16 loss_scale dynamic 65536.0 keep ["*.router"] by 1
}
provenance {
  prov 0 directive "clip" "s.yaml:1:1"
  prov 1 unknown "no \"optimizer\""
  prov 2 derived "place" [0, -1] "\"x\" meets y"
}
variant 8 {
  tag "PP" 2
  chunk 0 "PP0" tags ["MB" 3, "PP" 0] region 0
  chunk 1 "PP1" tags ["PP" 1] region 4 shard 0
  chunk 2 "all" exchange
  graph {
    prov 0 unknown "test"
    %x = input "x" : f32[8, 4]
    %w = parameter ["w"] : f32[4, 4]
    %y = matmul(%x, %w) : f32[8, 4] chunk 0 prov 0
    %"z of 1" = relu(%y) : f32[8, 4] chunk 1 prov 0
    output "z" = %"z of 1"
  }
  gradients {
    %y = %w
    %"z of 1" = %x
  }
  repeating
  graph {
    prov 0 unknown "test"
    %x = input "x" : f32[8, 4]
    %w = parameter ["w"] : f32[4, 4]
    %y = matmul(%x, %w) : f32[8, 4] chunk 0 prov 0
    %"z of 1" = relu(%y) : f32[8, 4] chunk 1 prov 0
  }
}
variant 4 {
  tag "PP" 2
  chunk 0 "PP0" tags ["MB" 3, "PP" 0] region 0
  chunk 1 "PP1" tags ["PP" 1] region 4 shard 0
  chunk 2 "all" exchange
  graph {
    prov 0 unknown "test"
    %x = input "x" : f32[4, 4]
    %w = parameter ["w"] : f32[4, 4]
    %y = matmul(%x, %w) : f32[4, 4] chunk 0 prov 0
    %"z of 1" = relu(%y) : f32[4, 4] chunk 1 prov 0
    output "z" = %"z of 1"
  }
}
distribution {
  world 4
  stream 0 "compute"
  stream 1 "ep"
  group 0 [0..3]
  group 1 [1, 0]
  group 2 [2..3]
  expert_groups 0 [[0..1], [3, 2]] stream 1 by 2 @1:2:3+4
  expert_groups 1 [[0..3]] stream 0 @1:2:3+4 bound 1.25 strict @1:2:9+1
  chunk 0 {
    groups [1 x2, 2]
    devices [@1:3:12+6 x2, @0:0:0+1]
    placed 2
    messages 1
    replicate bucket 1000 stream 1 gather 1 sharded gradients residency microbatch prefetch 0 parts_over [[1], [0]] by 2
    segment 4096
    shard 0
    backward_split
    recomputed [0, 1 x2]
    repeats attention layers 0.5 modules ["*.mlp"]
    computes [F 0 x3 on 1, B 1 on 1, BW 0 on 1, BW 2 on 1]
    notes [0, 2]
  }
  chunk 1 {
    groups [0 x3]
    replicate bucket -1 stream 0 gather 0 sharded parameters residency step prefetch 3 whole_below 512
    shard 0
    recomputed [1 x3]
  }
  chunk 2 {
    groups [0, 1, 0]
    replicate bucket 0 stream 0 gather 0 sharded optimizer residency use prefetch 1 by 0
  }
}
schedule {
  told_apart_by ["EP", "PP"]
  order @1:9:3+5 {
    slot in_sequence {
      member "{PP: 0}" chunks [0..1] microbatches [0, 2] phases [F, B] half @1:9:8+7
      member "{PASS: C}" chunks [2] microbatches [] phases [C, N, BW] @0:0:0+1
    }
  }
  order {
    slot {
      member "" chunks [] microbatches [0..2] phases [F] @4294967295:1:2+3
    }
  }
}
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

Module parsed(const std::string& text) {
  Result<Module> module = parse_module(text, "m.pir");
  INFO((module.ok() ? "" : module.error().message));
  REQUIRE(module.ok());
  return std::move(module).value();
}

// "P0402 m.pir:2:3: message" of a text that does not parse, or "P0413 message" of a module that breaks a rule.
std::string failure(const std::string& text) {
  Result<Module> module = parse_module(text, "m.pir");
  const Status status = module.ok() ? verify(*module) : module.take_status();
  return status.ok() ? "" : status.error().code + " " + status.error().message;
}

// What is wrong once the first `from` of the module above is `to`.
std::string broken(const std::string& from, const std::string& to) { return failure(replaced(kModule, from, to)); }

// The message of the parser about such a text; "+1: " before it where it names the line after that of `from`.
std::string refused(const std::string& from, const std::string& to) {
  const auto line = std::count(kModule.begin(), kModule.begin() + static_cast<int64_t>(kModule.find(from)), '\n') + 1;
  const std::string text = broken(from, to), place = "P0402 m.pir:";
  if (text.compare(0, place.size(), place) != 0) return text;
  const int64_t behind = std::strtol(text.c_str() + place.size(), nullptr, 10) - line;
  return (behind == 0 ? "" : "+" + std::to_string(behind) + ": ") + text.substr(text.find(": ") + 2);
}

// One to three characters, stretches or ends changed.
std::string damaged(std::string text, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const std::string alphabet = "{}[](),=:%@\"\\ \nx0123456789.-+eafFBWNCn_/";
  for (size_t edits = 1 + below(3); edits > 0 && !text.empty(); --edits) {
    const size_t at = below(text.size());
    switch (below(5)) {
      case 0: text[at] = alphabet[below(alphabet.size())]; break;
      case 1: text.erase(at, 1 + below(12)); break;
      case 2: text.insert(at, 1, alphabet[below(alphabet.size())]); break;
      case 3: text.insert(at, text.substr(below(text.size()), below(60))); break;
      case 4:
        if (below(4) == 0) text.resize(at + 1);
        break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("a module without parts is its header") {
  CHECK(print(Module()) == "module {\n  step batch 1 microbatches 1\n  training clip 0.0\n}\n");
  CHECK(print(parsed(print(Module()))) == print(Module()));
  CHECK(verify(Module()).ok());
}

TEST_CASE("every field is printed as it was read") {
  const Module module = parsed(kModule);
  CHECK(print(module) == kModule);
  CHECK(failure(kModule).empty());
  CHECK(module.step == Step{24, 3, true, true, {1, 4, 5, 6}, {"h.*", "*.bn"}});
  CHECK(module.training.clip_grad_norm == 1.5);
  CHECK(module.training.update_prov == ProvId(1));
  REQUIRE(module.variants.size() == 2);
  CHECK(module.variants[1].local_batch == 4);
  REQUIRE(module.variants[0].gradients.size() == 4);
  CHECK(module.variants[0].gradients[2] == ValueId(1));
  CHECK_FALSE(module.variants[0].gradients[0].valid());
  CHECK(module.variants[1].gradients.empty());
  REQUIRE(module.variants[0].repeating);
  CHECK(module.variants[0].repeating->num_ops() == 2);
  CHECK_FALSE(module.variants[1].repeating);
  const ExpertGroups& experts = module.distribution.expert_groups[1];
  CHECK(experts.span == diag::Span{1, 2, 3, 4});
  CHECK(experts.bound == RowBound{1.25, true, {1, 2, 9, 1}});
  CHECK_FALSE(module.distribution.expert_groups[0].bound);
  CHECK(module.distribution.chunks[0].shard == 0);
  CHECK(module.distribution.chunks[0].notes == std::vector<ProvId>{ProvId(0), ProvId(2)});
  const Chunk& chunk = module.chunks()[1];
  CHECK(chunk.tags == TagSet{{"PP", 1}});
  CHECK(chunk.region == 4);
  CHECK(chunk.shard == 0);
  CHECK(module.chunks()[2].exchange);
  CHECK(module.distribution.groups[1].ranks == std::vector<int32_t>{1, 0});
  const ChunkProperties& row = module.distribution.chunks[0];
  CHECK(row.groups == std::vector<GroupId>{GroupId(1), GroupId(1), GroupId(2)});
  CHECK(row.devices[1] == diag::Span{1, 3, 12, 6});
  CHECK(row.replication ==
        Replication{1000, 1, 1, Sharded::kGradients, {{1}, {0}}, 0, Residency::kMicrobatch, 0, ProvId(2)});
  CHECK(module.distribution.chunks[1].replication.whole_below == 512);
  CHECK(row.recomputed == std::vector<bool>{false, true, true});
  CHECK(row.repeats == Repeats{RepeatedOps::kAttention, {"*.mlp"}, 0.5});
  CHECK(row.compute_streams.size() == 6);
  CHECK(row.compute_streams.at({Phase::kBackwardWeight, 2}) == 1);
  CHECK(module.distribution.chunks[2].recomputed == std::vector<bool>(3));
  const Order& order = module.schedule.orders[0];
  CHECK(order.made_at == diag::Span{1, 9, 3, 5});
  CHECK_FALSE(module.schedule.orders[1].made_at);
  CHECK(order.slots[0].members[0].half);
  CHECK(order.slots[0].members[0].microbatches == std::vector<int32_t>{0, 2});
}

// What a module may hold between two passes, or by mistake, comes back as well.
TEST_CASE("lists that are not of every microbatch, and ids of nothing, are printed as they are") {
  Module module = parsed(kModule);
  module.distribution.chunks[0].groups = {GroupId(), GroupId(7)};
  module.distribution.chunks[1].groups.clear();
  module.distribution.chunks[1].devices.clear();
  module.distribution.chunks[1].recomputed.clear();
  module.distribution.streams.clear();
  module.variants[1].chunked.graph = Graph();
  module.provenance = Provenance();
  module.schedule.told_apart_by.clear();
  const std::string text = print(module);
  const Module again = parsed(text);
  CHECK(print(again) == text);
  CHECK(again.distribution.chunks[0].groups == module.distribution.chunks[0].groups);
  CHECK(again.distribution.chunks[1].devices.empty());
  CHECK(again.distribution.chunks[1].recomputed.empty());
}

TEST_CASE("ranks that share samples are printed where there are some") {
  const std::string text = replaced(kModule, "group 2 [2..3]\n", "group 2 [2..3]\n  group 3 [0..3] places 2\n");
  const Module module = parsed(text);
  CHECK(module.distribution.groups[2] == DeviceGroup{{2, 3}, 1});
  CHECK(module.distribution.groups[3] == DeviceGroup{{0, 1, 2, 3}, 2});
  CHECK(print(module) == text);
}

TEST_CASE("a lowered module says so") {
  Module module = parsed(kModule);
  module.shapes.resize(3);
  const std::string text = print(module);
  const Result<ModuleText> read = parse_module_text(text, "m.pir");
  REQUIRE(read.ok());
  CHECK(read.value().lowered);
  CHECK(read.value().module.shapes.empty());
  CHECK(text == replaced(kModule, "by 1\n}", "by 1\n  lowered\n}"));
}

TEST_CASE("comments, white space and the order of sections do not matter") {
  std::string text = replaced(kModule, "  world 4\n", "world\n 4 // ranks\n");
  const size_t variant = text.find("variant 8"), distribution = text.find("distribution {");
  text = text.substr(0, variant) + text.substr(distribution) + text.substr(variant, distribution - variant);
  CHECK(print(parsed(text)) == kModule);
}

// A row has an entry for each microbatch; who makes one for each line of a text takes seconds here.
TEST_CASE("a line costs what it says") {
  std::string text = "module {\n  step batch 1048576 microbatches 1048576\n}\ndistribution {\n";
  for (int s = 0; s < 5000; ++s) text += "  stream " + std::to_string(s) + " \"" + std::to_string(s) + "\"\n";
  CHECK(parsed(text + "}\n").distribution.streams.size() == 5000);
}

TEST_CASE("a text that does not parse is refused at its place") {
  CHECK(failure("graph {}") == "P0402 m.pir:1:1: expected 'module'");
  CHECK(failure("module {") ==
        "P0402 m.pir:1:9: expected step, per_microbatch, training, precision, head, lowered or '}'");
  CHECK(failure("module {}\nmodule {}") == "P0402 m.pir:2:1: no section 'module'");
  CHECK(failure("module {}\nschedule {} schedule {}") == "P0402 m.pir:2:13: section schedule appears twice");
  CHECK(failure("module {}\n\"variant\"") ==
        "P0402 m.pir:2:1: expected provenance, variant, distribution, schedule, dag or state");
  CHECK(broken("@1:4:5+6", "@1:4:5") == "P0402 m.pir:2:45: expected a place, @FILE:LINE:COLUMN+LENGTH");
  CHECK(refused("microbatches 3", "microbatches 0") == "expected a number of microbatches from 1 to 1048576");
  CHECK(refused("clip 1.5", "clip x") == "expected a number");
  CHECK(refused("prov 1 unknown", "prov 2 unknown") == "provenance entries are numbered in order from 0");
  CHECK(refused("chunk 1 \"PP1\"", "chunk 2 \"PP1\"") == "chunks are numbered in order from 0");
  CHECK(refused("@1:4:5+6", "@1:4:5") == "expected a place, @FILE:LINE:COLUMN+LENGTH");
  CHECK(refused("@1:4:5+6", "@1:4:5+6x") == "expected a place, @FILE:LINE:COLUMN+LENGTH");
  CHECK(refused("@1:4:5+6", "1") == "expected a place, @FILE:LINE:COLUMN+LENGTH");
  CHECK(refused("matmul(%x, %w)", "matmul(%x, %v)") == "no value 'v' is defined before this line");
  CHECK(refused("    output \"z\" = %\"z of 1\"\n", "    output \"z\" = %\"z of 1\"\n  } graph {\n") ==
        "+1: a variant has one graph");
  CHECK(refused("stream 1 \"ep\"", "stream 1") == "+1: expected a string");
  CHECK(refused("[1 x2, 2]", "[1 x0, 2]") == "expected how often, x2");
  CHECK(refused("[1 x2, 2]", "[1 x16777217, 2]") == "expected how often, x2");
  CHECK(refused("[1 x2, 2]", "[1 x16777216, 2]") == "too many entries");
  CHECK(refused("[1 x2, 2]", "[4294967295]") == "expected a group from 0 to 4294967294");
  CHECK(refused("gradients residency", "all residency") == "expected nothing, optimizer, gradients or parameters");
  CHECK(refused("F 0 x3 on 1", "F 0 x3 on 1, F 2 on 1") == "the compute appears twice");
  CHECK(refused("F 0 x3", "F 2147483647 x3") == "no such microbatch");
  CHECK(refused("F 0 x3", "G 0 x3") == "expected a phase: C, N, F, B or BW");
  CHECK(refused("segment 4096", "segments 4096") ==
        "expected groups, devices, placed, messages, replicate, segment, shard, cuts, backward_split, "
        "recomputed, repeats, computes, notes or '}'");
  CHECK(refused("chunks [0..1]", "chunks [1..0]") == "expected a chunk or a range, FIRST..LAST");
  CHECK(refused("chunks [0..1]", "chunks [0..99999999]") == "too many entries");
  CHECK(refused("slot in_sequence", "slots") == "expected 'slot'");
}

TEST_CASE("rule M1: a step has samples and microbatches") {
  CHECK(broken("batch 24", "batch 0") == "P0413 a batch of 0 samples in 3 microbatches");
  CHECK(broken("clip 1.5", "clip -1.5") == "P0413 gradients are clipped to a negative norm");
  CHECK(broken("clip 1.5", "clip nan") == "P0413 gradients are clipped to a negative norm");
}

TEST_CASE("rule M2: the largest variant stands first") {
  CHECK(broken("variant 4", "variant 8") == "P0414 variant 8 is not in its place, the largest first");
  CHECK(broken("variant 4", "variant 0") == "P0414 variant 0 is not in its place, the largest first");
}

TEST_CASE("rule M3: variants have the same chunks") {
  CHECK(broken("region 4 shard 0", "region 3 shard 0") == "P0415 variant 4 has other chunks than variant 8");
  CHECK(broken("tag \"PP\" 2", "tag \"PP\" 3") == "P0415 variant 4 has other chunks than variant 8");
  CHECK(broken("chunk 2 \"all\" exchange", "") == "P0415 variant 4 has other chunks than variant 8");
}

TEST_CASE("rule M4: forward ops are in chunks that exist") {
  CHECK(broken("chunk 0 prov 0", "prov 0") == "P0416 variant 8: 'matmul' of 'y' is in no chunk");
  CHECK(broken("chunk 1 prov 0", "chunk 3 prov 0") ==
        "P0416 variant 8: 'relu' of 'z of 1' is in chunk 3, which does not exist");
}

TEST_CASE("rule M5: chunks read from chunks before them") {
  CHECK(broken("chunk 0 prov 0", "chunk 2 prov 0") ==
        "P0417 variant 8: 'relu' of 'z of 1' in chunk PP1 reads 'y' of chunk all, which comes after it");
}

TEST_CASE("rule M6: chunks have names of their own, sorted tags and shards that exist") {
  CHECK(broken("\"PP1\"", "\"PP0\"") == "P0418 variant 8: two chunks are named 'PP0'");
  CHECK(broken("[\"MB\" 3, \"PP\" 0]", "[\"PP\" 0, \"MB\" 3]") ==
        "P0418 variant 8: tags of chunk PP0 are not in order of their names");
  CHECK(broken("shard 0\n", "shard 2\n") == "P0418 variant 8: chunk PP1 is of shard 2, which does not exist");
}

TEST_CASE("rule M7: origins exist") {
  CHECK(broken("clip 1.5 by 0", "clip 1.5 by 3") == "P0419 the origin of clipping is entry 3 of 3");
  CHECK(broken("update 1", "update 4") == "P0419 the origin of the update is entry 4 of 3");
  CHECK(broken("placed 2", "placed 9") == "P0419 distribution: chunk PP0: the origin of its place is entry 9 of 3");
  CHECK(broken("notes [0, 2]", "notes [0, 5]") ==
        "P0419 distribution: chunk PP0: the origin of a note is entry 5 of 3");
  CHECK(broken("[[1], [0]] by 2", "[[1], [0]] by 3") ==
        "P0419 distribution: chunk PP0: the origin of its replication is entry 3 of 3");
  CHECK(broken("stream 1 by 2", "stream 1 by 3") == "P0419 distribution: the origin of a shard is entry 3 of 3");
}

TEST_CASE("rule M8: gradients are values") {
  Module module = parsed(kModule);
  module.variants[0].gradients[1] = ValueId(4);
  CHECK(verify(module).error().code == "P0423");
  module.variants[0].gradients.assign(5, ValueId());
  CHECK(verify(module).error().message == "variant 8: gradients of 5 of 4 values");
}

TEST_CASE("rule M9: the graph that repeats forwards numbers values as the graph does") {
  Module module = parsed(kModule);
  Graph& repeating = module.variants[0].repeating.emplace(module.graph());
  CHECK(verify(module).ok());
  std::swap(repeating.value(ValueId(0)).name, repeating.value(ValueId(1)).name);
  CHECK(verify(module).error().code == "P0424");
}

TEST_CASE("rule M10: a precision that cannot be") {
  CHECK(broken("compute f16", "compute f32").substr(0, 5) == "P0425");
  CHECK(broken("reduce bf16", "reduce i64").substr(0, 5) == "P0425");
  CHECK(broken("dynamic 65536.0", "dynamic 0.0").substr(0, 5) == "P0425");
}

TEST_CASE("rules of the graphs hold in each variant") {
  CHECK(broken("f32[4, 4] chunk 0", "f32[4, 5] chunk 0").substr(0, 17) == "P0405 variant 4: ");
}

TEST_CASE("rule D1: there is a row per chunk") {
  CHECK(
      broken("  chunk 2 {\n    groups [0, 1, 0]\n    replicate bucket 0 stream 0 gather 0 sharded optimizer residency "
             "use prefetch 1 by 0\n  }\n",
             "") == "P0430 distribution: 2 rows for 3 chunks");
}

TEST_CASE("rule D2: rows speak of every microbatch") {
  CHECK(broken("groups [1 x2, 2]", "groups [1 x2]") ==
        "P0431 distribution: chunk PP0: 2 groups, 3 places and 3 repetitions for 3 microbatches");
  CHECK(broken("recomputed [0, 1 x2]", "recomputed []") ==
        "P0431 distribution: chunk PP0: 3 groups, 3 places and 0 repetitions for 3 microbatches");
}

// The module with a cut over these groups.
static std::string with_cut(const std::string& groups) {
  const std::string last = "bound 1.25 strict @1:2:9+1\n";
  return broken(last, last + "  cut 0 " + groups + " stream 1 @1:2:3+4\n");
}

TEST_CASE("rule D3: groups have distinct ranks of the world") {
  CHECK(broken("world 4", "world 0") == "P0432 distribution: there is no rank");
  CHECK(broken("world 4", "world 3") == "P0432 distribution: group 0 has rank 3 in a world of 3");
  CHECK(broken("group 1 [1, 0]", "group 1 [1, 1]") == "P0432 distribution: group 1 has rank 1 twice");
  CHECK(broken("group 1 [1, 0]", "group 1 []") == "P0432 distribution: group 1 is empty");
  CHECK(broken("group 2 [2..3]", "group 2 [1, 0]") == "P0432 distribution: group 2 is the same as one before");
  CHECK(broken("group 0 [0..3]", "group 0 [0..3] places 3") == "P0432 distribution: group 0 has 3 places for 4 ranks");
  CHECK(broken("group 0 [0..3]", "group 0 [0..3] places 0") == "P0432 distribution: group 0 has 0 places for 4 ranks");
  CHECK(refused("group 0 [0..3]", "group 0 [0..3] places -1") ==
        "expected a number of ranks that share samples from 0 to 2147483647");
  CHECK(broken("group 2 [2..3]\n", "group 2 [2..3]\n  group 3 [2..3] places 2\n").empty());
  CHECK(broken("group 2 [2..3]\n", "group 2 [2..3]\n  group 3 [2..3] places 2\n  group 4 [2..3] places 2\n") ==
        "P0432 distribution: group 4 is the same as one before");
  CHECK(with_cut("[[0..1], [2]]") == "P0432 distribution: the groups of a cut have several sizes");
  CHECK(with_cut("[[0], [1]]") == "P0432 distribution: a cut has no two places");
  CHECK(with_cut("[[0..1], [1..2]]") == "P0432 distribution: a cut has rank 1 twice");
}

TEST_CASE("rule D4: every microbatch runs on a group") {
  CHECK(broken("groups [1 x2, 2]", "groups [1 x2, 3]") == "P0433 distribution: chunk PP0: runs on group 3 of 3");
  CHECK(broken("groups [1 x2, 2]", "groups [1 x2, none]") == "P0433 distribution: chunk PP0: runs on no group");
  CHECK(with_cut("[[0..1]]") ==
        "P0433 distribution: chunk PP0: rank 1 shares samples with other ranks in group 1 than in its cut");
  CHECK(broken("group 2 [2..3]", "group 2 [2..3] places 2") ==
        "P0433 distribution: chunk PP0: runs on groups of 1 and of 2 places");
  const auto shared = [](const std::string& first, const std::string& second, const std::string& third) {
    std::string text = replaced(kModule, "group 0 [0..3]", "group 0 " + first);
    text = replaced(text, "expert_groups 0 [[0..1], [3, 2]]", "expert_groups 0 [[0], [1], [3], [2]]");
    return failure(
        replaced(replaced(text, "group 1 [1, 0]", "group 1 " + second), "group 2 [2..3]", "group 2 " + third));
  };
  CHECK(shared("[1, 0, 2..3] places 2", "[1, 0] places 2", "[2..3] places 2").empty());
  CHECK(shared("[0..3] places 2", "[1, 0] places 2", "[2..3] places 2") ==
        "P0433 distribution: chunk PP1: rank 0 shares samples with other ranks in group 0 than in one before");
  CHECK(shared("[1, 0, 2..3] places 2", "[1, 0] places 2", "[3, 2] places 2") ==
        "P0433 distribution: chunk PP1: rank 2 shares samples with other ranks in group 0 than in one before");
  CHECK(shared("[1, 0, 2..3]", "[1, 0] places 2", "[2..3] places 2") ==
        "P0433 distribution: chunk PP1: rank 1 shares samples with other ranks in group 0 than in one before");
}

TEST_CASE("rule D5: streams exist") {
  CHECK(broken("stream 1 \"ep\"\n", "stream 1 \"compute\"\n") == "P0434 distribution: two streams are named 'compute'");
  CHECK(broken("messages 1", "messages 2") == "P0434 distribution: chunk PP0: messages on stream 2 of 2");
  CHECK(broken("stream 1 gather 1", "stream 2 gather 1") ==
        "P0434 distribution: chunk PP0: reductions on stream 2 of 2");
  CHECK(broken("stream 1 gather 1", "stream 1 gather 2") == "P0434 distribution: chunk PP0: gathers on stream 2 of 2");
  CHECK(broken("B 1 on 1", "B 1 on 2") == "P0434 distribution: chunk PP0: a compute on stream 2 of 2");
  CHECK(broken("B 1 on 1", "B 1 on 0") ==
        "P0434 distribution: chunk PP0: a compute of microbatch 1 is put on stream 0");
  CHECK(broken("B 1 on 1", "B 3 on 1") ==
        "P0434 distribution: chunk PP0: a compute of microbatch 3 is put on stream 1");
  CHECK(broken("[3, 2]] stream 1 by", "[3, 2]] stream 2 by") == "P0434 distribution: exchanges on stream 2 of 2");
  CHECK(failure("module {} distribution {}") == "P0434 distribution: there is no stream of computes");
}

TEST_CASE("rule D6: expert groups partition the groups that run their chunks") {
  const std::string groups = "expert_groups 0 [[0..1], [3, 2]]";
  CHECK(broken(groups, "expert_groups 0 [[0], [3, 2]]") ==
        "P0435 distribution: the groups of a shard have several sizes");
  CHECK(broken(groups, "expert_groups 0 []") == "P0435 distribution: a shard has no ranks");
  CHECK(broken(groups, "expert_groups 0 [[0..1], [3, 1]]") == "P0435 distribution: a shard has rank 1 twice");
  CHECK(broken(groups, "expert_groups 0 [[0..1]]") ==
        "P0435 distribution: chunk PP0: the groups of its shard do not partition group 2");
  CHECK(broken("groups [0 x3]\n    replicate bucket -1", "groups [1 x2, 2]\n    replicate bucket -1").empty());
  CHECK(broken("group 2 [2..3]", "group 2 [1..2]") ==
        "P0435 distribution: chunk PP0: the groups of its shard do not partition group 2");
  CHECK(broken("group 0 [0..3]\n  group 1 [1, 0]\n  group 2 [2..3]\n",
               "group 0 [1, 0, 2..3] places 2\n  group 1 [1, 0] places 2\n  group 2 [2..3] places 2\n") == "");
  CHECK(broken("group 1 [1, 0]\n  group 2 [2..3]\n", "group 1 [0, 2, 3, 1] places 2\n  group 2 [3, 1] places 2\n") ==
        "P0435 distribution: chunk PP0: a group of its shard has some of the places of replicas of group 1");
  CHECK(broken("    shard 0\n", "    shard 7\n") == "P0435 distribution: chunk PP0: is of shard 7 of 2");
  CHECK(broken("whole_below 512\n    shard 0\n", "whole_below 512\n    shard 1\n") ==
        "P0435 distribution: chunk PP1: is cut by shard 0, not by that of its row");
}

TEST_CASE("rule D7: sizes are not negative, and bounds of rows positive") {
  CHECK(broken("bucket 1000", "bucket -2") == "P0436 distribution: chunk PP0: a negative size");
  CHECK(broken("whole_below 512", "whole_below -1") == "P0436 distribution: chunk PP1: a negative size");
  CHECK(broken("segment 4096", "segment -5") == "P0436 distribution: chunk PP0: a negative size");
  CHECK(broken("bound 1.25", "bound 0") == "P0436 distribution: a bound of rows is not positive");
}

TEST_CASE("rule S1: members of orders exist and ascend") {
  CHECK(broken("chunks [2]", "chunks [3]") ==
        "P0440 schedule: the filter {PASS: C}: its chunks are not those of the model, ascending");
  CHECK(broken("chunks [2]", "chunks [2, 0]") ==
        "P0440 schedule: the filter {PASS: C}: its chunks are not those of the model, ascending");
  CHECK(broken("microbatches [0, 2]", "microbatches [0, 3]") ==
        "P0440 schedule: the filter {PP: 0}: its microbatches are not those of the step, ascending");
  CHECK(broken("microbatches [0, 2]", "microbatches [2, 2]") ==
        "P0440 schedule: the filter {PP: 0}: its microbatches are not those of the step, ascending");
}

TEST_CASE("rule S2: phases of members ascend") {
  CHECK(broken("phases [F, B]", "phases []") == "P0441 schedule: the filter {PP: 0}: its phases do not ascend");
  CHECK(broken("phases [F, B]", "phases [B, F]") == "P0441 schedule: the filter {PP: 0}: its phases do not ascend");
}

TEST_CASE("rule S3: orders have slots and slots members") {
  CHECK(failure("module {} schedule { order {} }") == "P0442 schedule: an order has no slot");
  CHECK(failure("module {} schedule { order { slot {} } }") == "P0442 schedule: a slot of an order has no member");
}

// PIPER_TEST_SEED and PIPER_TEST_ROUNDS choose other damage, or more.
TEST_CASE("a damaged text is refused or read, and what is read prints and verifies without a crash") {
  const char* given = std::getenv("PIPER_TEST_SEED");
  const unsigned long seed = given ? std::strtoul(given, nullptr, 10) : 1;
  const char* asked = std::getenv("PIPER_TEST_ROUNDS");
  const long rounds = asked ? std::strtol(asked, nullptr, 10) : 3000;
  INFO("PIPER_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  size_t read = 0;
  for (long round = 0; round < rounds; ++round) {
    const std::string text = damaged(kModule, random);
    Result<Module> module = parse_module(text, "m.pir");
    if (!module.ok()) {
      CHECK(module.error().code == "P0402");
      continue;
    }
    ++read;
    (void)verify(*module);  // a damaged module may break rules
    const std::string printed = print(*module);
    Result<Module> again = parse_module(printed, "m.pir");
    INFO(printed);
    INFO((again.ok() ? "" : again.error().message));
    REQUIRE(again.ok());
    CHECK(print(*again) == printed);
  }
  CHECK(read > 0);
}

}  // namespace piper::ir
