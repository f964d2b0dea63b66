// Tensors that are cut over ranks which share samples: sound plans are proved to be the model's own step, and plans
// that mix up places, parts and shares are refuted.
#include "tests/unit/cut_plans.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <utility>

#include "schemas/verify/verify.h"

using namespace piper;
using namespace piper::plan;
using hand_written::CutPlan;
using hand_written::kColumn;
using hand_written::kEveryRank;
using hand_written::kRow;

namespace {

const CutPlan kOneReplica, kTwoReplicas{.replicas = 2};

std::string verdict(const Bundle& bundle) {
  const auto report = verify::verify(bundle);
  return report.ok() ? "accepted: " + describe(report->equality) : report.error().code + " " + report.error().message;
}
std::string refutation(const std::function<void(Bundle&)>& change, const CutPlan& how = kTwoReplicas) {
  Bundle bundle = hand_written::cut(how);
  change(bundle);
  return verdict(bundle);
}

Program& program(Bundle& bundle, const std::string& name) {
  const auto found = std::find_if(bundle.programs.begin(), bundle.programs.end(),
                                  [&](const Program& one) { return one.name == name; });
  REQUIRE(found != bundle.programs.end());
  return *found;
}
Slot& slot(Bundle& bundle, const std::string& of, const std::string& name) {
  auto& slots = program(bundle, of).slots;
  const auto found = std::find_if(slots.begin(), slots.end(), [&](const Slot& one) { return one.name == name; });
  REQUIRE(found != slots.end());
  return *found;
}
void say(Slot& slot, plan::Spread spread) {
  slot.spread = spread;
  slot.cut = spread == plan::Spread::kSame ? -1 : 0;
}

int32_t buffer(const RankPlan& plan, const std::string& name) {
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].name == name) return static_cast<int32_t>(b);
  FAIL("no buffer " << name);
  return -1;
}
// The sum of what lies in a buffer, on a rank.
std::vector<Instruction>::iterator sum_of(RankPlan& plan, const std::string& name) {
  auto& instructions = plan.instructions.edit();
  const int32_t where = buffer(plan, name);
  const auto found = std::find_if(instructions.begin(), instructions.end(), [&](const Instruction& one) {
    const auto* const sum = std::get_if<AllReduce>(&one.action);
    return sum != nullptr && sum->data.buffer == where;
  });
  REQUIRE(found != instructions.end());
  return found;
}
void drop_sum(Bundle& bundle, const std::string& name) {
  for (RankPlan& plan : bundle.ranks) plan.instructions.edit().erase(sum_of(plan, name));
}
void sum_over(Bundle& bundle, const std::string& name, int32_t communicator) {
  for (RankPlan& plan : bundle.ranks) std::get<AllReduce>(sum_of(plan, name)->action).communicator = communicator;
}
// Sends a value from one rank to another, right before `reader` runs there.
void send(Bundle& bundle, size_t from, size_t to, const std::string& name, const std::string& reader) {
  bundle.ranks[from].channels = {{"c", static_cast<int32_t>(to), 0}};
  bundle.ranks[to].channels = {{"c", static_cast<int32_t>(from), 0}};
  for (const size_t r : {from, to}) {
    RankPlan& plan = bundle.ranks[r];
    auto& instructions = plan.instructions.edit();
    const BufferRange where{buffer(plan, name), 0};
    const int64_t count = plan.buffers[static_cast<size_t>(where.buffer)].bytes / 4;
    const auto run = std::find_if(instructions.begin(), instructions.end(), [&](const Instruction& one) {
      const auto* const run = std::get_if<Run>(&one.action);
      return run != nullptr && bundle.programs[static_cast<size_t>(run->program)].name == reader;
    });
    REQUIRE(run != instructions.end());
    Instruction moved = *run;
    if (r == from) moved.action = Send{where, count, 0};
    else moved.action = Recv{where, count, 0};
    instructions.insert(run, moved);
  }
}

}  // namespace

TEST_CASE("plans that cut tensors are proved to be the model's step") {
  for (const auto sum : {CutPlan::Sum::kInPlace, CutPlan::Sum::kByProgram, CutPlan::Sum::kByCopy})
    for (const auto& [replicas, places] : {std::pair(1, 2), std::pair(2, 2), std::pair(1, 4), std::pair(3, 2)}) {
      CutPlan how;
      how.replicas = replicas;
      how.places = places;
      how.sum = sum;
      const auto report = verify::verify(hand_written::cut(how));
      INFO(replicas << " replicas of " << places << ", sum " << static_cast<int>(sum) << ": "
                    << (report.ok() ? describe(report->equality) : report.error().message));
      REQUIRE(report.ok());
      CHECK(report->equality.whole());
      CHECK(report->equality.proved == 6);
    }
}

TEST_CASE("shares of a value are added up over the places of one group, in their order") {
  using Catch::Contains;
  // The gradient of the column-cut product's input stays a share.
  CHECK_THAT(refutation([](Bundle& b) { drop_sum(b, "ga"); }),
             Contains("P0637") && Contains("reads the share of place 1 of cut \"tp\" of \"ga\" where the whole of it"));
  CHECK_THAT(refutation([](Bundle& b) { drop_sum(b, "y"); }),
             Contains("P0637") && Contains("of cut \"tp\" of \"y\" where the whole of it should be"));
  CHECK_THAT(refutation([](Bundle& b) { sum_over(b, "y", kColumn); }),
             Contains("P0636") && Contains("adds up shares of \"y\" over ranks that are not, in this order, a group"));
  CHECK_THAT(refutation([](Bundle& b) { sum_over(b, "y", kEveryRank); }), Contains("P0636"));
  CHECK_THAT(refutation([](Bundle& b) {
               for (RankPlan& plan : b.ranks)
                 std::swap(plan.communicators[kRow].ranks[0], plan.communicators[kRow].ranks[1]);
             }),
             Contains("P0636") && Contains("in this order"));
  // Shares, and what they add up to, once more.
  CHECK_THAT(refutation([](Bundle& b) {
               for (RankPlan& plan : b.ranks) {
                 const auto sum = sum_of(plan, "y");
                 const Instruction again = *sum;
                 plan.instructions.edit().insert(sum, again);
               }
             }),
             Contains("P06") && Contains("\"y\""));
}

TEST_CASE("what every rank has whole, or a part of, is no share") {
  using Catch::Contains;
  const auto as = [](plan::Spread spread) {
    return [spread](Bundle& b) { say(slot(b, "share of y to y", "y"), spread); };
  };
  CHECK_THAT(refutation(as(plan::Spread::kPart)),
             Contains("P0636") && Contains("the part of place 0 of cut \"tp\" of \"y\" up over places"));
  CHECK_THAT(refutation(as(plan::Spread::kSame)), Contains("P06") && Contains("\"y\""));
  // A slot that says of a value what it is not.
  CHECK_THAT(refutation([](Bundle& b) { say(slot(b, "share of y to y", "share of y"), plan::Spread::kSame); }),
             Contains("P0637") && Contains("the share of place 0"));
  CHECK_THAT(refutation([](Bundle& b) { say(slot(b, "last.FB", "y"), plan::Spread::kPart); }),
             Contains("P0637") && Contains("reads the whole of \"y\" where the part of place 1"));
  CHECK_THAT(refutation([](Bundle& b) { say(slot(b, "last.FB", "y"), plan::Spread::kShare); }), Contains("P0637"));
  CHECK_THAT(refutation([](Bundle& b) { b.manifest.cuts[0].groups.pop_back(); }),
             Contains("P0637") && Contains("is in no group of"));
}

TEST_CASE("shares are no terms of a sum over samples") {
  using Catch::Contains;
  // The loss, the gradient of a parameter: over the places, too.
  for (const char* name : {"loss", "grad w0", "grad b2"})
    CHECK_THAT(refutation([&](Bundle& b) { sum_over(b, name, kEveryRank); }),
               Contains("P0636") && Contains("more than once"));
  CHECK_THAT(refutation([](Bundle& b) { sum_over(b, "grad w2", kRow); }),
             Contains("P0636") && Contains("adds sums over different elements"));
  CHECK_THAT(refutation([](Bundle& b) { sum_over(b, "grad w2", kEveryRank); }), Contains("P0636"));
  CHECK_THAT(refutation([](Bundle& b) { drop_sum(b, "grad w2"); }), Contains("P0636") && Contains("missing"));
}

TEST_CASE("a rank reads the parts of its own place") {
  using Catch::Contains;
  for (const char* name : {"w1", "b1", "w2"})
    CHECK_THAT(refutation([&](Bundle& b) {
                 for (RankPlan& plan : b.ranks)
                   for (Placement& placement : plan.placements)
                     if (placement.name == name) placement.part.first = placement.part.count - placement.part.first;
               }),
               Contains("P0637") && Contains("where those of its place 0 of cut \"tp\" are"));
  // Parts of values, and what is kept of them, by messages to another place; to the same place of another replica they
  // are of other samples.
  CHECK_THAT(refutation([](Bundle& b) { send(b, 1, 0, "h", "pair.B"); }, kOneReplica),
             Contains("P0637") && Contains("reads what ranks at other places keep of \"h\""));
  CHECK_THAT(refutation([](Bundle& b) { send(b, 1, 0, "share of y", "share of y to y"); }, kOneReplica),
             Contains("P0637") && Contains("the share of place 1"));
  CHECK_THAT(refutation([](Bundle& b) { send(b, 1, 0, "y", "last.FB"); }, kOneReplica), Contains("accepted"));
  CHECK_THAT(refutation([](Bundle& b) { send(b, 2, 0, "h", "pair.B"); }), Contains("P0637") && Contains("samples"));
  // The whole of a tensor that is cut: its elements are part by part.
  CHECK_THAT(refutation([](Bundle& b) { b.manifest.tensors[3].cut.reset(); }), Contains("P0637"));
}

TEST_CASE("each element of a cut tensor counts once for the norm, is updated and saved") {
  using Catch::Contains;
  const auto square = [](Bundle& b, size_t rank, const std::string& name, bool twice) {
    RankPlan& plan = b.ranks[rank];
    auto& instructions = plan.instructions.edit();
    const auto run = std::find_if(instructions.begin(), instructions.end(), [&](const Instruction& one) {
      const auto* const run = std::get_if<Run>(&one.action);
      return run != nullptr && b.programs[static_cast<size_t>(run->program)].name == "square grad " + name;
    });
    REQUIRE(run != instructions.end());
    if (!twice) instructions.erase(run);
    else instructions.insert(run, Instruction(*run));
  };
  CHECK_THAT(refutation([&](Bundle& b) { square(b, 1, "w2", false); }),
             Contains("P0636") && Contains("lacks element 4 of \"w2\""));
  CHECK_THAT(refutation([&](Bundle& b) { square(b, 1, "w2", true); }),
             Contains("P0636") && Contains("counts more than once element 4 of \"w2\""));
  // What all places have, at both.
  CHECK_THAT(
      refutation([](Bundle& b) {
        RankPlan &first = b.ranks[0], &second = b.ranks[1];
        for (const Instruction& one : first.instructions.get()) {
          const auto* const run = std::get_if<Run>(&one.action);
          if (run == nullptr || b.programs[static_cast<size_t>(run->program)].name != "square grad b2") continue;
          const int32_t added = static_cast<int32_t>(second.arguments.size());
          second.arguments.push_back({"again", {{buffer(second, "grad b2"), 0}, {buffer(second, "squares"), 0}}});
          second.instructions.edit().insert(sum_of(second, "squares"), Instruction{0, Run{run->program, added, {}}, 0});
        }
      }),
      Contains("P0636") && Contains("counts more than once element 0 of \"b2\""));
  CHECK_THAT(refutation([](Bundle& b) {
               for (Placement& placement : b.ranks[1].placements) placement.part.owner = false;
             }),
             Contains("P0638") && Contains("no rank saves element"));
}

namespace {

// For plans whose slots say what is wrong of what is in them, so that contents alone show nothing.
std::string refutation_of_lie(const std::function<void(Bundle&)>& change) {
  return refutation([&](Bundle& b) {
    b.manifest.proved = 6;
    change(b);
  });
}
KernelCall& call(Bundle& bundle, const std::string& of, const std::string& kernel, size_t skip = 0) {
  for (KernelCall& one : program(bundle, of).calls)
    if (one.kernel == kernel && skip-- == 0) return one;
  FAIL("no " << kernel << " in " << of);
  return bundle.programs[0].calls[0];
}

}  // namespace

TEST_CASE("programs whose slots say something else of what a place has are refuted") {
  using Catch::Contains;
  // A share as the whole, its sum left out.
  for (const char* name : {"y", "ga"})
    CHECK_THAT(refutation_of_lie([&](Bundle& b) {
                 drop_sum(b, name);
                 for (Program& program : b.programs)
                   for (Slot& slot : program.slots)
                     if (slot.name == name || slot.name == std::string("share of ") + name)
                       say(slot, plan::Spread::kSame);
               }),
               Contains("P0641") && Contains("leaves a share of a value in slot") && Contains("that it is the whole"));
  CHECK_THAT(refutation_of_lie([](Bundle& b) { say(slot(b, "pair.F", "z"), plan::Spread::kSame); }),
             Contains("P0641") && Contains("leaves a part of a value in slot \"z\""));
  CHECK_THAT(refutation_of_lie([](Bundle& b) { say(slot(b, "pair.F", "z"), plan::Spread::kShare); }),
             Contains("P0641"));
  // What all places have, as a share: added up it is so many times too much.
  CHECK_THAT(refutation_of_lie([](Bundle& b) {
               say(slot(b, "last.FB", "gy"), plan::Spread::kShare);
               say(slot(b, "pair.B", "gy"), plan::Spread::kSame);
               for (RankPlan& plan : b.ranks) {
                 auto& instructions = plan.instructions.edit();
                 const auto after = sum_of(plan, "ga") - 2;  // before pair.B
                 const AllReduce sum{{buffer(plan, "gy"), 0}, 4, DType::kF32, kRow, Reduction::kSum};
                 instructions.insert(after, Instruction{0, sum, 0});
               }
             }),
             Contains("P0641") && Contains("what is no share of a sum"));
}

TEST_CASE("programs that compute something else with parts and shares are refuted") {
  using Catch::Contains;
  for (const int32_t replicas : {1, 2}) {
    CutPlan how;
    how.replicas = replicas;
    how.bias_inside = true;
    CHECK_THAT(verdict(hand_written::cut(how)),
               Contains("P0641") && Contains("a bias that each place adds to its share"));
  }
  CHECK_THAT(refutation_of_lie([](Bundle& b) {  // the same, by an addition
               Program& pair = program(b, "pair.F");
               pair.slots.push_back({"b2", SlotRole::kParameter, 8, true, false, "b2"});
               KernelCall add = call(b, "last.FB", "add");
               add.inputs[1].slot = static_cast<int32_t>(pair.slots.size()) - 1;
               KernelCall& product = call(b, "pair.F", "linear", 1);
               add.outputs = product.outputs;
               add.inputs[0] = product.outputs[0];
               pair.calls.push_back(add);
               for (RankPlan& plan : b.ranks)
                 for (ArgumentList& list : plan.arguments.edit())
                   if (list.name == "pair.F m0") list.arguments.push_back({buffer(plan, "b2"), 0});
             }),
             Contains("P0641") && Contains("no linear function of a place's share"));
  CHECK_THAT(refutation_of_lie([](Bundle& b) {  // of a share
               KernelCall& handed = call(b, "share of y to y", "copy");
               handed.kernel = "relu";
             }),
             Contains("P0641") && Contains("no linear function of a place's share"));
  // Parts by the other axis, of matrices that look alike.
  CHECK_THAT(refutation_of_lie([](Bundle& b) { b.manifest.tensors[3].cut->axis = 0; }), Contains("P0641"));
  CHECK_THAT(refutation_of_lie([](Bundle& b) { b.manifest.tensors[1].cut->axis = 1; }), Contains("P06"));
  CHECK_THAT(refutation_of_lie([](Bundle& b) { call(b, "pair.F", "relu").kernel = "neg"; }), Contains("P0641"));
  CHECK_THAT(refutation_of_lie([](Bundle& b) { call(b, "pair.B", "relu_backward").kernel = "mul"; }),
             Contains("P0641"));
  CHECK_THAT(refutation_of_lie([](Bundle& b) {  // the bias is left out of the sum
               call(b, "last.FB", "add").kernel = "sub";
             }),
             Contains("P0641"));
}
