// Ranks that share samples: what a group says of them, who sends to whom, and whole steps that have each sample once at
// every place. No directive makes such groups: the tests write them, or set their places after resolve_directives.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compiler/driver/compilation.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/pipeline.h"
#include "compiler/driver/run_pipeline.h"
#include "compiler/emit/connections.h"
#include "compiler/emit/lower_programs.h"
#include "compiler/ir/module_text.h"
#include "compiler/passes/build_dag.h"
#include "schemas/verify/verify.h"
#include "tests/source_path.h"
#include "tests/unit/temp_folder.h"

namespace piper {
namespace {

using Ranks = std::vector<int32_t>;

ir::Module parsed(const std::string& text) {
  Result<ir::Module> module = ir::parse_module(text, "m.pir");
  INFO((module.ok() ? "" : module.error().message));
  REQUIRE(module.ok());
  const Status verified = ir::verify(*module);
  INFO((verified.ok() ? "" : verified.error().message));
  REQUIRE(verified.ok());
  return std::move(module).value();
}

// Two chunks; the first sends a value, a gradient of a parameter that both use, or a number of the step to the second.
ir::Module two_groups(const std::string& from, const std::string& to, int world) {
  const std::string text = R"(module {
  step batch 16 microbatches 1 split cut
  training clip 0.0
}
variant 8 {
  chunk 0 "PP0" region 0
  chunk 1 "PP1" region 1
  graph {
    %x = input "x" : f32[8, 3]
    %y = relu(%x) chunk 0
    %z = relu(%y) chunk 1
    output "z" = %z
  }
}
distribution {
  world )" + std::to_string(world) +
                           R"(
  stream 0 "compute"
  stream 1 "pp"
  group 0 )" + from + "\n  group 1 " +
                           to + R"(
  chunk 0 {
    groups [0]
    messages 1
  }
  chunk 1 {
    groups [1]
    messages 1
  }
}
dag {
  scalar 0 "loss" "loss of the step" "the loss" f32 [] read by log
  node 0 compute F 0 0 on 0 stream 0
  node 1 transfer value F 0 0 %y to 1 on 0 stream 1
  node 2 compute F 1 0 on 1 stream 0
  node 3 transfer scalar 0 to 1 on 0 stream 1
  edges 0 [1, 3]
  edges 1 [2]
  order [0..3]
}
)";
  return parsed(text);
}

// "0>4 1>5": what is sent for a node of the DAG, in the order of the receivers' replicas; "/1" names a part.
std::string sent(const ir::Module& module, uint32_t node) {
  const emit::Connections connections(module);
  const ir::Node& n = module.dag.nodes[node];
  const auto& transfer = std::get<ir::TransferNode>(n.payload);
  const auto text = [](const emit::Message& m) {
    return std::to_string(m.from) + ">" + std::to_string(m.to) + (m.part > 0 ? "/" + std::to_string(m.part) : "");
  };
  // Whatever ends two ranks see, they see in one order.
  std::string all;
  std::multiset<std::string> at_senders, at_receivers;
  for (int32_t rank = 0; rank < module.distribution.world_size; ++rank)
    for (const emit::Message& m : connections.messages(n, transfer, rank)) {
      CHECK((m.from == rank || m.to == rank));
      if (m.from == rank) at_senders.insert(text(m));
      if (m.to == rank) at_receivers.insert(text(m));
      if (m.to == rank) all += (all.empty() ? "" : " ") + text(m);
    }
  CHECK(at_senders == at_receivers);
  return all;
}

struct Compiled {
  driver::Compilation c;
  const plan::Bundle& bundle() const { return c.emitted.bundle; }
  const plan::RankPlan& plan(int32_t rank) const { return bundle().ranks[static_cast<size_t>(rank)]; }
};

// All passes, with so many places in each group that runs a chunk: the directives' groups in the order of their table.
std::unique_ptr<Compiled> compiled(const std::string& model, const std::string& strategy, const Ranks& places) {
  const TempFolder folder;
  driver::CompileOptions options;
  options.model = test::source_path("tests/models/" + model);
  options.strategy = folder.write("s.yaml", strategy);
  auto result = std::make_unique<Compiled>();
  diag::Diagnostics diags;
  Status status = driver::load(options, result->c, diags);
  driver::FrameOptions frame;
  frame.verify_each = true;
  for (const driver::Pass& pass : driver::pipeline()) {
    if (!status.ok()) break;
    INFO(pass.name << "\n" << diags.render_text(false));
    status = driver::run_pass(pass, result->c, frame, diags);
    if (pass.name != "resolve_directives") continue;
    std::vector<ir::DeviceGroup>& groups = result->c.module.distribution.groups;
    REQUIRE(groups.size() == places.size());
    for (size_t g = 0; g < groups.size(); ++g) groups[g].places = places[g];
  }
  INFO(diags.render_text(false) << (status.ok() ? "" : status.error().message));
  REQUIRE(status.ok());
  return result;
}

// What plans leave to their ranks is proved, and is the model's own step.
void check_proved(const Compiled& compiled) {
  const auto report = verify::verify(compiled.bundle());
  INFO((report.ok() ? "" : report.error().code + " " + report.error().message));
  REQUIRE(report.ok());
  const std::string rest = verify::not_proved(report->equality);
  CHECK(rest.empty());
}

// stream -> the teams of its communicators.
std::map<std::string, std::set<Ranks>> teams_of(const Compiled& compiled) {
  std::map<std::string, std::set<Ranks>> teams;
  for (const plan::RankPlan& plan : compiled.bundle().ranks)
    for (const plan::Communicator& c : plan.communicators) teams[c.name.substr(0, c.name.find(':'))].insert(c.ranks);
  return teams;
}

std::string replicas(const std::string& devices, const std::string& more = "", const std::string& dims = "") {
  return "piper: 1\nmodel: {batch: 16" + dims +
         "}\noptimizer: {adamw: {lr: 0.001}}\nclip_grad_norm: 1.0\ndirectives:\n"
         "  - {op: split, num_microbatches: 2}\n  - {op: replicate, filter: {}, devices: " +
         devices + more + "}\n";
}

std::string stages(const std::string& first, const std::string& second, const std::string& more = "") {
  return "piper: 1\nmodel: {batch: 16}\nannotate: [{tag: PP, starts: [wte, h.1]}]\noptimizer: {adamw: {lr: 0.001}}\n"
         "clip_grad_norm: 1.0\nschedule: {family: 1f1b, microbatches: 2}\ndirectives:\n"
         "  - {op: place, filter: {PP: 0}, devices: " +
         first + "}\n  - {op: replicate, filter: {PP: 0}, devices: " + first + more +
         "}\n  - {op: place, filter: {PP: 1}, devices: " + second +
         "}\n  - {op: replicate, filter: {PP: 1}, devices: " + second + more + "}\n";
}

}  // namespace

TEST_CASE("a position is a replica and a place, the place fastest") {
  ir::Distribution d;
  d.world_size = 8;
  const ir::GroupId plain = d.intern_group({4, 5, 6, 7});
  const ir::GroupId shared = d.intern_group(ir::DeviceGroup{{4, 5, 6, 7}, 2});
  CHECK(plain != shared);
  CHECK(d.intern_group(ir::DeviceGroup{{4, 5, 6, 7}, 2}) == shared);
  CHECK(d.replicas(plain) == 4);
  CHECK(d.columns(plain) == ir::Teams{{4, 5, 6, 7}});
  CHECK(d.replicas(shared) == 2);
  CHECK(d.columns(shared) == ir::Teams{{4, 6}, {5, 7}});
  std::vector<int64_t> pieces, places;
  for (int64_t position = 0; position < 4; ++position) {
    pieces.push_back(d.replica_of(shared, position));
    places.push_back(d.place_of(shared, position));
    CHECK(d.rank_at(shared, pieces.back(), places.back()) == 4 + position);
    CHECK(d.place_of_rank(shared, static_cast<int32_t>(4 + position)) == places.back());
    CHECK(d.place_of_rank(plain, static_cast<int32_t>(4 + position)) == 0);
  }
  CHECK(pieces == std::vector<int64_t>{0, 0, 1, 1});
  CHECK(places == std::vector<int64_t>{0, 1, 0, 1});
  const ir::GroupId more = d.intern_group(ir::DeviceGroup{{2, 3, 6, 7}, 2});
  CHECK(d.joined({shared, more, shared}) == ir::DeviceGroup{{4, 5, 6, 7, 2, 3}, 2});
  CHECK(d.groups[plain.index].size_text() == "4 devices");
  CHECK(d.groups[shared.index].size_text() == "2 replicas of 2 devices");
  CHECK_THROWS(d.joined({plain, shared}));
}

TEST_CASE("stages send place by place, replica by replica") {
  const auto value = [](const std::string& from, const std::string& to) { return sent(two_groups(from, to, 12), 1); };
  CHECK(value("[0..3] places 2", "[4..7] places 2") == "0>4 1>5 2>6 3>7");
  CHECK(value("[1, 0, 3, 2] places 2", "[4..7] places 2") == "1>4 0>5 3>6 2>7");
  // One replica has the samples of two.
  CHECK(value("[0..3] places 2", "[4..5] places 2") == "0>4 2>4/1 1>5 3>5/1");
  CHECK(value("[4..5] places 2", "[0..3] places 2") == "4>0 5>1 4>2/1 5>3/1");
  // A place that the sender has not is sent the copy of another; one that the receiver has not sends nothing.
  CHECK(value("[0..1]", "[4..7] places 2") == "0>4 0>5 1>6 1>7");
  CHECK(value("[0..3] places 2", "[4..5]") == "0>4 2>5");
  CHECK(value("[0..3] places 2", "[4..11] places 4") == "0>4 1>5 0>6 1>7 2>8 3>9 2>10 3>11");
  // What all ranks have equal copies of.
  CHECK(sent(two_groups("[0..3] places 2", "[4..7] places 2", 8), 3) == "0>4 1>5 2>6 3>7");
}

// The number of dropped rows reaches rank 0 as it joins their ranks, the loss by a message.
TEST_CASE("numbers of the step are summed over the ranks of a place, which a rank without samples may join") {
  ir::Module module = parsed(R"(module {
  step batch 8 microbatches 2 split cut
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0" region 0
  chunk 1 "PP1" region 1
  graph {
    %x = input "x" : f32[2, 3]
    %y = relu(%x) chunk 0
    %loss = sum(%y) {dims=[0, 1]} chunk 1
    %n = cast(%loss) {to=i64} chunk 1
    dropped %n
    loss %loss
  }
}
distribution {
  world 8
  stream 0 "compute"
  stream 1 "pp"
  group 0 [0..3] places 2
  group 1 [4..7] places 2
  chunk 0 {
    groups [0 x2]
    messages 1
  }
  chunk 1 {
    groups [1 x2]
    messages 1
  }
}
)");
  emit::lower_programs(module);
  passes::build_dag(module);
  const Status verified = ir::verify(module);
  INFO((verified.ok() ? "" : verified.error().message));
  CHECK(verified.ok());
  std::vector<std::pair<Ranks, ir::Teams>> sums;  // who takes part, and in which teams
  for (const ir::Node& node : module.dag.nodes)
    if (const auto* sum = std::get_if<ir::CollectiveNode>(&node.payload))
      sums.emplace_back(module.distribution.ranks(node.group), module.distribution.teams[sum->teams.index]);
  REQUIRE(sums.size() == 2);
  CHECK(sums[0] == std::pair<Ranks, ir::Teams>{{4, 5, 6, 7}, {{4, 6}, {5, 7}}});
  CHECK(sums[1] == std::pair<Ranks, ir::Teams>{{0, 4, 5, 6, 7}, {{0, 4, 6}, {5, 7}}});
}

TEST_CASE("ranks of one replica have the same samples, and sum with those of their place") {
  for (const char* level : {"", ", shard_optimizer: true", ", shard_optimizer: true, shard_grads: true",
                            ", shard_optimizer: true, shard_grads: true, shard_params: true"}) {
    INFO(level);
    const auto c = compiled("tiny_gpt_dropout.onnx", replicas("[0, 1, 2, 3]", level, ", dims: {S: 8}"), {2});
    CHECK(c->c.module.variants[0].local_batch == 4);
    for (int32_t rank = 0; rank < 4; ++rank) {
      const plan::RankPlan &plan = c->plan(rank), &first = c->plan(0);
      REQUIRE(plan.inputs.size() == first.inputs.size());
      REQUIRE(!first.inputs.empty());
      for (size_t i = 0; i < plan.inputs.size(); ++i)
        CHECK(plan.inputs[i].first == first.inputs[i].first + (rank / 2) * 4);
      REQUIRE(!plan.scalars.empty());  // where its dropouts begin to draw
      for (size_t i = 0; i < plan.scalars.size(); ++i)
        CHECK(plan.scalars[i].values[0] == first.scalars[i].values[0] + (rank / 2) * 4);
    }
    const auto teams = teams_of(*c);
    CHECK(teams.at("dp_reduce") == std::set<Ranks>{{0, 2}, {1, 3}});
    CHECK(teams.at("loss") == std::set<Ranks>{{0, 2}, {1, 3}});
    CHECK(teams.at("clip") == std::set<Ranks>{{0, 1, 2, 3}});  // of what each element's one owner counts
    for (const int32_t rank : {1, 3})
      for (const plan::Placement& placement : c->plan(rank).placements) CHECK(!placement.part.owner);
    check_proved(*c);
  }
}

TEST_CASE("parts over groups of replicas are divided within each place") {
  const auto c = compiled(
      "tiny_gpt.onnx",
      replicas("[0, 1, 2, 3, 4, 5, 6, 7]", ", shard_optimizer: true, parts_over: [[0, 1, 2, 3], [4, 5, 6, 7]]"), {2});
  const auto teams = teams_of(*c);
  CHECK(teams.at("dp_reduce") == std::set<Ranks>{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {2, 6}, {1, 5}, {3, 7}});
  check_proved(*c);
}

TEST_CASE("stages of shared samples: as many replicas, fewer, other places") {
  struct Case {
    std::string first, second;
    Ranks places;
  };
  const std::vector<Case> cases = {{"[0, 1, 2, 3]", "[4, 5, 6, 7]", {2, 2}},
                                   {"[0, 1, 2, 3]", "[4, 5]", {2, 2}},
                                   {"[0, 1]", "[2, 3, 4, 5]", {2, 2}},
                                   {"[0, 1]", "[2, 3]", {2, 2}},
                                   {"[0, 1, 2, 3]", "[4, 5]", {2, 1}},
                                   {"[0, 1, 2, 3]", "[4, 5, 6, 7]", {2, 1}},
                                   {"[0]", "[1, 2]", {1, 2}}};
  for (const Case& one : cases)
    for (const char* level : {"", ", shard_optimizer: true, shard_grads: true, shard_params: true"}) {
      INFO(one.first << " " << one.second << level);
      check_proved(*compiled("tiny_gpt.onnx", stages(one.first, one.second, level), one.places));
    }
}

TEST_CASE("microbatches on several groups that share samples") {
  const auto c = compiled("tiny_mlp.onnx", R"(piper: 1
model: {batch: 16}
optimizer: {sgd: {lr: 0.1}}
clip_grad_norm: 1.0
directives:
  - {op: split, num_microbatches: 2}
  - {op: place, filter: {MB: 0}, devices: [0, 1]}
  - {op: place, filter: {MB: 1}, devices: [2, 3]}
  - {op: replicate, filter: {}, devices: [0, 1]}
  - {op: replicate, filter: {}, devices: [2, 3]}
)",
                          {2, 2});
  CHECK(teams_of(*c).at("dp_reduce") == std::set<Ranks>{{0, 2}, {1, 3}});
  check_proved(*c);
}

}  // namespace piper
