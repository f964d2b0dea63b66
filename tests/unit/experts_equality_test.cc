// Rule 12 on experts that ranks share: sound plans are proved, and programs that compute something else are refused.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"

using namespace piper;
using namespace piper::plan;

namespace {

std::string sharing(const std::string& more, const std::string& microbatches = "2") {
  return "piper: 1\nmodel: {batch: 8}\nannotate: [{tag: EP, modules: [mixtures.0, mixtures.1]}]\ndirectives:\n" + more +
         "  - {op: split, num_microbatches: " + microbatches + "}\noptimizer: {sgd: {lr: 0.1}}\n";
}
const std::string kTwoRanks = sharing(
    "  - {op: replicate, filter: {}, devices: [0, 1]}\n"
    "  - {op: shard, filter: {EP: \"*\"}, devices: [0, 1]}\n");
const std::string kGroups = sharing(
    "  - {op: replicate, filter: {}, devices: [0, 1, 2, 3], shard_grads: true}\n"
    "  - {op: shard, filter: {EP: \"*\"}, devices: [[0, 1], [3, 2]]}\n",
    "1");

const std::string kOneEach = sharing(
    "  - {op: replicate, filter: {}, devices: [0, 1, 2, 3]}\n"
    "  - {op: shard, filter: {EP: \"*\"}, devices: [0, 1, 2, 3]}\n",
    "1");

Bundle experts(const std::string& strategy) { return compiled::bundle("tiny_experts.onnx", strategy); }

Program& program(Bundle& bundle, const std::string& name) {
  const auto found = std::find_if(bundle.programs.begin(), bundle.programs.end(),
                                  [&](const Program& one) { return one.name == name; });
  REQUIRE(found != bundle.programs.end());
  return *found;
}
KernelCall& call(Program& program, const std::string& kernel, size_t skip = 0) {
  for (KernelCall& one : program.calls)
    if (one.kernel == kernel && skip-- == 0) return one;
  FAIL("no " << kernel << " in " << program.name);
  return program.calls[0];
}
// The code of the refutation of what `change` makes of a sound plan, or how far that is proved.
std::string refusal(const std::function<void(Bundle&)>& change) {
  Bundle bundle = experts(kTwoRanks);
  change(bundle);
  const auto report = verify::verify(bundle);
  return report.ok() ? "accepted: " + describe(report->equality) : report.error().code;
}

}  // namespace

TEST_CASE("plans whose ranks share experts compute the model's gradients and loss") {
  for (const std::string& strategy : {kTwoRanks, kGroups}) {
    const auto report = verify::verify(experts(strategy));
    REQUIRE(report.ok());
    INFO(describe(report->equality));
    CHECK(report->equality.whole());
    CHECK(report->equality.proved == 13);
  }
}

// An axis of one place looks like any other: the one is taken that makes a call the model's.
TEST_CASE("plans whose ranks have one expert each compute the model's gradients and loss") {
  const auto report = verify::verify(experts(kOneEach));
  REQUIRE(report.ok());
  INFO(describe(report->equality));
  CHECK(report->equality.whole());
  CHECK(report->equality.proved == 13);
}

TEST_CASE("programs of one expert each that compute something else are not called proved") {
  const auto proved = [](const std::function<void(Program&)>& change) {
    Bundle bundle = experts(kOneEach);
    change(program(bundle, "EP0.experts.F.b2"));
    const auto report = verify::verify(bundle);
    return report.ok() ? report->equality.proved : 0;
  };
  CHECK(proved([](Program&) {}) == 13);
  // The weights of the first mixture's experts enter all of these but the last layer's bias.
  CHECK(proved([](Program& p) { call(p, "tanh").kernel = "sigmoid"; }) <= 1);
  CHECK(proved([](Program& p) {
          std::swap(call(p, "matmul").inputs[1].strides[0], call(p, "matmul").inputs[1].strides[1]);
        }) <= 1);
}

TEST_CASE("programs of experts that compute something else are refused") {
  CHECK(refusal([](Bundle& b) {  // another function of the rows
          call(program(b, "EP0.experts.F.b2"), "tanh").kernel = "sigmoid";
        }) == "P0641");
  CHECK(refusal([](Bundle& b) {  // the derivative of another function
          call(program(b, "EP0.experts.B.b2"), "tanh_backward").kernel = "sigmoid_backward";
        }) == "P0641");
  CHECK(refusal([](Bundle& b) {  // combined by scores instead of routing weights
          Program& router = program(b, "rest.F.b2");
          const Operand scores = call(router, "softmax").inputs[0];
          Operand& gate = call(router, "copy", 1).inputs[0];
          gate.slot = scores.slot;
          gate.offset = scores.offset;
        }) == "P0641");
  CHECK(refusal([](Bundle& b) {  // gradients of routing weights that experts of the ranks exchanged
          auto& strides = call(program(b, "rest.B.b2"), "copy").inputs[0].strides;
          std::swap(strides[1], strides[2]);
        }) == "P0641");
  CHECK(refusal([](Bundle& b) {  // a gradient twice: rule 8
          Program& backward = program(b, "EP0.experts.B.b2");
          backward.calls.push_back(call(backward, "add_into"));
        }) == "P0636");
}

// For a call that treats the experts of one rank differently no rule says what one device's call is: such a plan is not
// called proved, and refused where its manifest says that it was.
TEST_CASE("programs that tell the experts of one rank apart are left open") {
  const auto of_first = [](Bundle& b) {  // both experts of a rank by the weights of its first
    call(program(b, "EP0.experts.F.b2"), "matmul", 1).inputs[1].strides[0] = 0;
  };
  const auto by_first = [](Bundle& b) {  // gradients of both experts' weights by the rows of the first
    call(program(b, "EP0.experts.B.b2"), "matmul", 3).inputs[0].strides[0] = 0;
  };
  const std::string open = "experts of one rank that are told apart from those of others";
  for (const std::function<void(Bundle&)>& change : {std::function(of_first), std::function(by_first)}) {
    CHECK(refusal(change) == "P0641");
    CHECK_THAT(refusal([&](Bundle& b) {
                 change(b);
                 b.manifest.proved = 0;
               }),
               Catch::Contains("proved in part") && Catch::Contains(open));
  }
}

namespace {

// Experts by rows: each token goes to two of four experts, two on each of two ranks.
Bundle routed(const std::string& more = "") {
  return compiled::bundle("tiny_routed.onnx", sharing("  - {op: replicate, filter: {}, devices: [0, 1]}\n"
                                                      "  - {op: shard, filter: {EP: \"*\"}, devices: [0, 1]" +
                                                      more + "}\n"));
}
const std::string kBounded = ", capacity: {factor: 1.25}";

std::string refusal_of_routed(const std::function<void(Bundle&)>& change, const std::string& more = "") {
  Bundle bundle = routed(more);
  change(bundle);
  const auto report = verify::verify(bundle);
  return report.ok() ? "accepted: " + describe(report->equality) : report.error().code + " " + report.error().message;
}

int32_t slot(const Program& program, const std::string& name) {
  for (size_t s = 0; s < program.slots.size(); ++s)
    if (program.slots[s].name == name) return static_cast<int32_t>(s);
  FAIL("no slot " << name << " in " << program.name);
  return -1;
}
// What the runs of a program have in a slot, in the order of the runs of `rank`.
std::vector<BufferRange*> arguments(Bundle& bundle, RankPlan& rank, const std::string& of, const std::string& name) {
  const auto index = static_cast<int32_t>(&program(bundle, of) - bundle.programs.data());
  const auto at = static_cast<size_t>(slot(program(bundle, of), name));
  std::vector<BufferRange*> found;
  for (const Instruction& instruction : rank.instructions)
    if (const auto* run = std::get_if<Run>(&instruction.action); run != nullptr && run->program == index)
      found.push_back(&rank.arguments.edit()[static_cast<size_t>(run->arguments)].arguments[at]);
  return found;
}
// A program reads in one slot what another reads in one of its own, under its name, for the same samples.
void read_instead(Bundle& bundle, const std::string& of, const std::string& name, const std::string& from,
                  const std::string& instead) {
  for (RankPlan& rank : bundle.ranks) {
    const auto to = arguments(bundle, rank, of, name), other = arguments(bundle, rank, from, instead);
    REQUIRE(to.size() == other.size());
    for (size_t i = 0; i < to.size(); ++i) *to[i] = *other[i];
  }
  Program& changed = program(bundle, of);
  changed.slots[static_cast<size_t>(slot(changed, name))].name = instead;
}
// Exchanges by counts, in the order of a rank: of each microbatch there and back for both mixtures, then the gradients.
std::vector<AllToAll*> counted(RankPlan& rank) {
  std::vector<AllToAll*> found;
  for (Instruction& instruction : rank.instructions.edit())
    if (auto* exchange = std::get_if<AllToAll>(&instruction.action);
        exchange != nullptr && exchange->send_counts.buffer >= 0)
      found.push_back(exchange);
  return found;
}
void count_like(Bundle& bundle, size_t exchange, size_t other) {
  for (RankPlan& rank : bundle.ranks) {
    const auto all = counted(rank);
    REQUIRE(all.size() == 16);
    all[exchange]->send_counts = all[other]->send_counts;
    all[exchange]->recv_counts = all[other]->recv_counts;
  }
}

}  // namespace

TEST_CASE("plans whose ranks share experts by rows compute the model's gradients and loss") {
  for (const std::string& more : {std::string(), kBounded}) {
    const auto report = verify::verify(routed(more));
    REQUIRE(report.ok());
    INFO(describe(report->equality));
    CHECK(report->equality.whole());
    CHECK(report->equality.proved == (more.empty() ? 13 : 14));  // with the number of dropped rows
    CHECK(report->equality.mixing.count("expert_order") == 1);
  }
}

// A plan that `change` makes of a sound one is refused, by a message that begins and goes on so.
void check_refused(const std::function<void(Bundle&)>& change, const std::string& code, const std::string& more = "",
                   const std::string& strategy = "") {
  CHECK_THAT(refusal_of_routed(change, strategy), Catch::StartsWith(code) && Catch::Contains(more));
}

TEST_CASE("programs of experts by rows that compute something else are refused") {
  check_refused(
      [](Bundle& b) {  // rows taken back by the positions of the other router
        Program& backward = program(b, "rest.2.B.b2");
        KernelCall &leaves = call(backward, "take_rows"), &enters = call(backward, "take_rows", 1);
        std::swap(leaves.inputs[1], enters.inputs[2]);
        std::swap(leaves.inputs[2], enters.inputs[1]);
      },
      "P0641", "in the order of one router that are taken by that of another");
  check_refused(
      [](Bundle& b) {  // both mixtures by the counts of the first
        read_instead(b, "EP1.experts.F.b2", "expert_order_2_2.2.received", "EP0.experts.F.b2",
                     "expert_order_3.2.received");
      },
      "P0641", "by the counts of another");
  check_refused(
      [](Bundle& b) {  // a gradient by rows of what the experts make instead of what they read
        Program& backward = program(b, "EP0.experts.B.b2");
        call(backward, "grouped_matmul_weight").inputs[0] = call(backward, "tanh_backward").inputs[0];
      },
      "P0641");
  check_refused([](Bundle& b) { call(program(b, "EP0.experts.B.b2"), "tanh_backward").kernel = "sigmoid_backward"; },
                "P0641");
  check_refused(
      [](Bundle& b) {  // an expert takes more rows than the model's capacity
        for (plan::Attr& attr : call(program(b, "rest.F.b2"), "expert_order").attrs)
          if (attr.name == "capacity") attr.value = std::get<int64_t>(attr.value) + 1;
      },
      "P0641", "expert_order", kBounded);
  check_refused(
      [](Bundle& b) {  // an order of another microbatch
        for (RankPlan& rank : b.ranks) {
          const auto orders = arguments(b, rank, "rest.B.b2", "expert_order_3");
          REQUIRE(orders.size() == 2);
          *orders[1] = *orders[0];
        }
      },
      "P063");
}

TEST_CASE("exchanges of rows by other counts are refused") {
  check_refused([](Bundle& b) { count_like(b, 2, 0); }, "P0641",
                "reads what came by rows in the order of one router by the counts of another");
  check_refused([](Bundle& b) { count_like(b, 8, 0); }, "P063");  // of another microbatch
  check_refused(
      [](Bundle& b) {  // there by what belongs to the way back
        for (RankPlan& rank : b.ranks) std::swap(counted(rank)[5]->send_counts, counted(rank)[5]->recv_counts);
      },
      "P0637", "by counts of");
}

// A backward that repeats everything has rows sent to the experts and back again.
TEST_CASE("plans that send experts their rows again compute the model's gradients and loss") {
  const std::string strategy = sharing(
      "  - {op: replicate, filter: {}, devices: [0, 1]}\n"
      "  - {op: shard, filter: {EP: \"*\"}, devices: [0, 1]}\n"
      "  - {op: recompute, filter: {}}\n");
  const auto repeating = [&](const std::function<void(Bundle&)>& change) {
    Bundle bundle = compiled::bundle("tiny_routed.onnx", strategy);
    change(bundle);
    const auto report = verify::verify(bundle);
    return report.ok() ? describe(report->equality) : report.error().code;
  };
  CHECK_THAT(repeating([](Bundle& b) {
               // There and back for both mixtures and microbatches: of the forward, again, and of gradients.
               REQUIRE(counted(b.ranks[0]).size() == 24);
             }),
             Catch::Contains("proved: 13 "));
  CHECK(repeating([](Bundle& b) {  // the rows of another router's order
          read_instead(b, "EP1.again.B.b2", "expert_order_2_2", "EP0.again.B.b2", "expert_order_3");
        }) == "P0641");
  CHECK(repeating([](Bundle& b) {  // other rows than the forward sent
          for (plan::Attr& attr : call(program(b, "EP0.again.B.b2"), "take_rows").attrs)
            if (attr.name == "repeat") attr.value = int64_t{1};
        })
            .starts_with("P06"));
  CHECK(repeating([](Bundle& b) {  // another function of them than in the forward
          call(program(b, "EP1.experts.again.B.b2"), "tanh").kernel = "sigmoid";
        }) == "P0641");
  CHECK(repeating([](Bundle& b) {  // by the counts of the way back
          for (RankPlan& rank : b.ranks)
            for (Instruction& instruction : rank.instructions.edit())
              if (auto* exchange = std::get_if<AllToAll>(&instruction.action);
                  exchange != nullptr &&
                  rank.buffers[static_cast<size_t>(exchange->recv.buffer)].name == "all_to_all_7 m0")
                std::swap(exchange->send_counts, exchange->recv_counts);
        }) == "P0637");
}

// As with dense experts; the model, too, may read the weights of every second expert alone.
TEST_CASE("programs that tell the experts of one rank apart by rows are left open") {
  CHECK_THAT(refusal_of_routed([](Bundle& b) {
               call(program(b, "EP0.experts.B.b2"), "grouped_matmul").inputs[1].strides[0] = 0;
               b.manifest.proved = 0;
             }),
             Catch::Contains("proved in part"));
}
