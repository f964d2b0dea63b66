// The bundle's verifier: what it proves, and each rule refuted with its story.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "schemas/verify/samples.h"
#include "schemas/verify/sum_order.h"
#include "schemas/verify/verify.h"
#include "schemas/verify/wait_cycle.h"
#include "tests/unit/hand_written_plans.h"
#include "tests/unit/plan_bundle_example.h"
#include "tests/unit/plan_updates.h"

using namespace piper;
using namespace piper::plan;
using example::add_buffer;
using example::add_event;
using example::append;

namespace {

std::string refutation(const Bundle& bundle) {
  const auto report = verify::verify(bundle);
  return report.ok() ? "ok" : report.error().code + " " + report.error().message;
}

bool begins(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }

// Ranks without instructions: one stream, one channel, an arena of buffers of 64 bytes.
Bundle empty_ranks(int32_t count, const std::vector<std::string>& buffers) {
  Bundle bundle;
  bundle.manifest.world_size = count;
  bundle.provenance = {{"s.yaml:2:3", "order"}};
  for (int32_t rank = 0; rank < count; ++rank) {
    RankPlan plan;
    plan.rank = rank;
    plan.streams = {{"compute"}, {"pp"}};
    plan.channels = {{"c", count > 1 ? 1 - rank : -1, 0}};
    for (const auto& name : buffers) {
      add_buffer(plan, {name, BufferClass::kArena, 64, plan.arena_bytes, DType::kF32, {}});
      plan.arena_bytes += 64;
    }
    bundle.ranks.push_back(plan);
  }
  return bundle;
}

void erase(SharedVector<Instruction>& instructions, int32_t index) {
  instructions.edit().erase(instructions.begin() + index);
}

// A program that writes (or reads) one slot of 64 bytes.
Program toucher(const std::string& name, bool reads, bool writes) {
  Program program{name, {{"x", SlotRole::kInput, 64, reads, writes}}, 0, {}};
  return program;
}

}  // namespace

// The example with what it leaves open: what its slots hold of the model, a loss, no scale.
Bundle complete_example() {
  auto bundle = example::two_ranks();
  auto &backward = bundle.programs[1], &forward = bundle.programs[2];
  backward.slots[0].name = "y";
  backward.slots[1].of = "layers.0.weight";
  forward.slots[0].of = "input";
  forward.slots[1].of = "layers.0.weight";
  forward.slots.push_back({"reported", SlotRole::kOutput, 4, false, true, "", StepNumber::kLoss});
  forward.calls.push_back({"fill", false, {{3, 0, DType::kF32, {}, {}}}, {}, {{"value", 1.0}}, ""});
  for (auto& plan : bundle.ranks) {
    plan.arguments.edit()[0].arguments.push_back({6, 0});
    auto& instructions = plan.instructions.edit();
    auto& update = std::get<Update>(instructions.back().action);
    auto ranges = example::ranges_of(bundle, plan, update);
    ranges.scale = {};
    example::set_ranges(bundle, plan, update, ranges);
    const auto reduce = std::find_if(instructions.begin(), instructions.end(),
                                     [](const Instruction& i) { return std::holds_alternative<AllReduce>(i.action); });
    instructions.insert(reduce + 1, {reduce->stream, AllReduce{{6, 0}, 1, DType::kF32, 0, Reduction::kSum}, -1});
  }
  return bundle;
}

TEST_CASE("a correct bundle is proved") {
  const auto bundle = example::two_ranks();
  const auto report = verify::verify(bundle);
  // The example's update reads a scale that nothing wrote.
  REQUIRE(!report.ok());
  CHECK(begins(report.error().message,
               "rule 6: rank 0 instruction 16 (update by sgd.clipped.16 with \"update weight from 0\", on stream "
               "\"compute\"; optimizer) reads "
               "bytes of \"loss+1\""));
  auto repaired = complete_example();
  const auto proved = verify::verify(repaired);
  REQUIRE(refutation(repaired) == "ok");
  CHECK(proved->ranks == 2);
  CHECK(proved->messages == 2);
  CHECK(proved->collectives == 2);
  CHECK(proved->instructions == 36);
  CHECK(proved->complete);
  repaired.ranks.erase(repaired.ranks.begin());
  const auto part = verify::verify(repaired);
  REQUIRE(part.ok());
  CHECK(!part->complete);
}

TEST_CASE("the plans that the runtime is tested with are proved") {
  for (const auto make :
       {hand_written::pipeline, hand_written::replicas, hand_written::sharded, hand_written::exchanged})
    CHECK(refutation(make()) == "ok");
}

// Each rank first receives what the other sends afterwards.
TEST_CASE("the textbook deadlock") {
  auto bundle = empty_ranks(2, {"a", "b"});
  bundle.programs = {toucher("fill", false, true)};
  for (int32_t rank = 0; rank < 2; ++rank) {
    auto& plan = bundle.ranks[static_cast<size_t>(rank)];
    plan.arguments = {{"fill", {{1, 0}}}};
    append(plan, 0, Run{0, 0, {}});
    append(plan, 0, Recv{{0, 0}, 16, 0}, 0);
    append(plan, 0, Send{{1, 0}, 16, 0}, 0);
  }
  CHECK(refutation(bundle) ==
        "P0632 rule 4: deadlock, even with every stream running on its own (level D0):\n"
        "  rank 0 instruction 1 (recv \"a\" from rank 1 on channel \"c\", 64 bytes, on stream \"compute\"; "
        "s.yaml:2:3), which waits for\n"
        "  rank 1 instruction 2 (send \"b\" to rank 0 on channel \"c\", 64 bytes, on stream \"compute\"; s.yaml:2:3), "
        "its other end, which waits for\n"
        "  rank 1 instruction 1 (recv \"a\" from rank 0 on channel \"c\", 64 bytes, on stream \"compute\"; "
        "s.yaml:2:3), before it on its stream, which waits for\n"
        "  rank 0 instruction 2 (send \"b\" to rank 1 on channel \"c\", 64 bytes, on stream \"compute\"; s.yaml:2:3), "
        "its other end, which waits for\n"
        "  rank 0 instruction 1 (recv \"a\" from rank 1 on channel \"c\", 64 bytes, on stream \"compute\"; "
        "s.yaml:2:3), before it on its stream");
  // With the sends on a stream of their own it runs, but not in issue order.
  for (auto& plan : bundle.ranks) {
    const auto filled = add_event(plan, "filled");
    auto& instructions = plan.instructions.edit();
    instructions[2].stream = 1;
    instructions.insert(instructions.begin() + 1, {{0, Record{filled}, -1}, {1, Wait{filled}, -1}});
  }
  CHECK(begins(refutation(bundle),
               "P0632 rule 4: deadlock when each rank communicates in issue order (level D1; the streams alone, D0, "
               "have none):\n"));
  // One rank sends first: proved.
  auto& plan = bundle.ranks[0];
  std::swap(plan.instructions.edit()[3], plan.instructions.edit()[4]);
  CHECK(refutation(bundle) == "ok");
}

TEST_CASE("three ranks in a ring") {
  auto bundle = empty_ranks(3, {"a", "b"});
  for (int32_t rank = 0; rank < 3; ++rank) {
    auto& plan = bundle.ranks[static_cast<size_t>(rank)];
    const int32_t before = (rank + 2) % 3, after = (rank + 1) % 3;
    plan.channels = {{"from " + std::to_string(before), before, 0}, {"from " + std::to_string(rank), after, 0}};
    append(plan, 0, Recv{{0, 0}, 16, 0});
    append(plan, 0, Send{{0, 0}, 16, 1});
  }
  const auto story = refutation(bundle);
  CHECK(begins(story, "P0632 rule 4: deadlock, even with"));
  CHECK(std::count(story.begin(), story.end(), '\n') == 7);
  std::swap(bundle.ranks[1].instructions.edit()[0], bundle.ranks[1].instructions.edit()[1]);
  CHECK(begins(refutation(bundle), "P0634 rule 6: rank 1 instruction 0 (send"));
}

// With streams that run on their own the textbook order of one forward and one backward in turn is fine. Where a rank
// communicates in issue order, its second activation is before the first gradient that it waits for.
TEST_CASE("the textbook order of a pipeline is refuted where communication runs in issue order") {
  const auto story = refutation(example::pipeline(2, 4, true));
  CHECK(story ==
        "P0632 rule 4: deadlock when each rank communicates in issue order (level D1; the streams alone, D0, have "
        "none):\n"
        "  rank 0 instruction 8 (recv \"in PP0.B m0\" from rank 1 on channel \"grad 1>0\", 64 bytes, on stream \"grad "
        "in\"; s.yaml:3:5), which waits for\n"
        "  rank 0 instruction 7 (send \"out PP0.F m1\" to rank 1 on channel \"act 0>1\", 64 bytes, on stream \"act "
        "out\"; s.yaml:3:5), communication issued before it, which waits for\n"
        "  rank 1 instruction 8 (recv \"in PP1.F m1\" from rank 0 on channel \"act 0>1\", 64 bytes, on stream \"act "
        "in\"; s.yaml:3:5), its other end, which waits for\n"
        "  rank 1 instruction 7 (send \"out PP1.B m0\" to rank 0 on channel \"grad 1>0\", 64 bytes, on stream \"grad "
        "out\"; s.yaml:3:5), communication issued before it, which waits for\n"
        "  rank 0 instruction 8 (recv \"in PP0.B m0\" from rank 1 on channel \"grad 1>0\", 64 bytes, on stream \"grad "
        "in\"; s.yaml:3:5), its other end");
  for (const int32_t ranks : {3, 4, 8}) {
    INFO(ranks);
    CHECK(begins(refutation(example::pipeline(ranks, 2 * ranks, true)),
                 "P0632 rule 4: deadlock when each rank communicates in issue order (level D1;"));
  }
  // One microbatch leaves nothing to alternate; all forwards first is fine at any level.
  CHECK(refutation(example::pipeline(4, 1, true)) == "ok");
  CHECK(refutation(example::pipeline(4, 8)) == "ok");
}

TEST_CASE("the shortest of several cycles of waits is told") {
  using verify::shortest_cycle;
  CHECK(shortest_cycle({}).empty());
  CHECK(shortest_cycle({{1}, {2}, {}}).empty());
  CHECK(shortest_cycle({{1}, {1}}) == std::vector<int32_t>{1});
  // A ring of four with a chord that makes a ring of three, after a tail.
  CHECK(shortest_cycle({{1}, {2}, {3}, {4}, {1, 2}}) == std::vector<int32_t>{2, 3, 4});
  // Two components: the shorter ring is in the second.
  CHECK(shortest_cycle({{1}, {2}, {0, 3}, {4}, {3}}) == std::vector<int32_t>{3, 4});
}

TEST_CASE("messages that do not match") {
  auto bundle = empty_ranks(2, {"a"});
  bundle.programs = {toucher("fill", false, true)};
  bundle.ranks[0].arguments = {{"fill", {{0, 0}}}};
  append(bundle.ranks[0], 0, Run{0, 0, {}});
  append(bundle.ranks[0], 0, Send{{0, 0}, 16, 0}, 0);
  const std::string send =
      "rank 0 instruction 1 (send \"a\" to rank 1 on channel \"c\", 64 bytes, on stream \"compute\"; s.yaml:2:3)";
  CHECK(refutation(bundle) == "P0631 rule 1: nothing on rank 1 receives what " + send + " sends");
  append(bundle.ranks[1], 0, Recv{{0, 0}, 8, 0});
  CHECK(refutation(bundle) == "P0631 rule 1: " + send +
                                  " meets rank 1 instruction 0 (recv \"a\" from rank 0 on channel \"c\", 32 bytes, on "
                                  "stream \"compute\"): the sizes or element types differ");
  std::get<Recv>(bundle.ranks[1].instructions.edit()[0].action).count = 16;
  CHECK(refutation(bundle) == "ok");
  bundle.ranks[1].channels[0].name = "d";
  CHECK(refutation(bundle).find("the channels have one id and two names") != std::string::npos);
  bundle.ranks[1].channels[0].name = "c";
  append(bundle.ranks[1], 0, Recv{{0, 0}, 16, 0});
  CHECK(begins(refutation(bundle), "P0631 rule 1: nothing on rank 0 sends what rank 1 instruction 1 (recv"));
  // Two messages of one channel on two streams that nothing orders.
  append(bundle.ranks[0], 1, Send{{0, 0}, 16, 0});
  CHECK(begins(refutation(bundle), "P0631 rule 1: nothing orders " + send + " and rank 0 instruction 2 (send"));
}

TEST_CASE("collectives that do not match") {
  auto bundle = empty_ranks(2, {});
  for (auto& plan : bundle.ranks) {
    add_buffer(plan, {"g", BufferClass::kGradient, 64, 0, DType::kF32, {}});
    plan.communicators = {{"dp", {0, 1}}};
    append(plan, 0, AllReduce{{0, 0}, 16, DType::kF32, 0, Reduction::kSum});
  }
  CHECK(refutation(bundle) == "ok");
  append(bundle.ranks[1], 0, AllReduce{{0, 0}, 16, DType::kF32, 0, Reduction::kSum});
  CHECK(begins(refutation(bundle),
               "P0631 rule 2: rank 0 takes no part in rank 1 instruction 1 (all_reduce \"g\" over \"dp\", 16 f32"));
  append(bundle.ranks[0], 0, AllReduce{{0, 0}, 8, DType::kF32, 0, Reduction::kSum});
  CHECK(refutation(bundle).find("count, dtype or reduction differ") != std::string::npos);
  bundle.ranks[1].communicators[0].ranks = {1, 0};
  CHECK(refutation(bundle).find("is a member of communicator \"dp\" with the same members, but takes no part in") !=
        std::string::npos);
}

// The kinds that move parts: one communicator holds one sequence of all kinds.
TEST_CASE("collectives of parts") {
  auto bundle = empty_ranks(2, {});
  bundle.programs = {toucher("fill", false, true), toucher("use", true, false)};
  for (auto& plan : bundle.ranks) {
    for (const char* name : {"all", "other"})
      add_buffer(plan,
                 {name, BufferClass::kGradient, 128, 128 * static_cast<int64_t>(plan.buffers.size()), DType::kF32, {}});
    add_buffer(plan, {"part", BufferClass::kArena, 64, 0, DType::kF32, {}});
    plan.arena_bytes = 64;
    plan.communicators = {{"dp", {0, 1}}};
    plan.arguments = {{"part", {{2, 0}}}, {"first of all", {{0, 0}}}};
    append(plan, 0, ReduceScatter{{0, 0}, {2, 0}, 16, DType::kF32, 0, Reduction::kSum});
    append(plan, 0, AllGather{{2, 0}, {1, 0}, 16, 0}, 0);
    append(plan, 0, AllToAll{{0, 0}, {1, 0}, 16, {}, {}, 4, 0});
    append(plan, 0, Run{1, 0, {}});
  }
  const auto report = verify::verify(bundle);
  REQUIRE(refutation(bundle) == "ok");
  CHECK(report->collectives == 3);

  auto changed = bundle;
  std::swap(changed.ranks[1].instructions.edit()[1], changed.ranks[1].instructions.edit()[2]);
  CHECK(refutation(changed) ==
        "P0631 rule 2: rank 0 instruction 1 (all_gather \"part\" to \"other\" over \"dp\", 64 bytes a member, on "
        "stream \"compute\"; s.yaml:2:3) meets "
        "rank 1 instruction 1 (all_to_all \"all\" to \"other\" over \"dp\", 64 bytes a pair, on stream "
        "\"compute\"): kind, count, dtype or reduction differ");
  changed = bundle;
  std::get<AllGather>(changed.ranks[1].instructions.edit()[1].action).count = 8;
  CHECK(begins(refutation(changed), "P0631 rule 2: rank 0 instruction 1 (all_gather"));
  changed = bundle;
  std::get<AllToAll>(changed.ranks[0].instructions.edit()[2].action).row = 2;
  CHECK(begins(refutation(changed), "P0631 rule 2: rank 0 instruction 2 (all_to_all"));
  changed = bundle;
  erase(changed.ranks[1].instructions, 2);
  CHECK(begins(refutation(changed), "P0631 rule 2: rank 1 takes no part in rank 0 instruction 2 (all_to_all"));

  // What goes out and what comes in while it does are apart.
  const auto over_what_it_reads = [&](auto change) {
    changed = bundle;
    for (auto& plan : changed.ranks) change(plan.instructions.edit());
    return begins(refutation(changed), "P0635 rule 7: rank 0 instruction ");
  };
  CHECK(over_what_it_reads([](auto& instructions) { std::get<AllToAll>(instructions[2].action).recv = {0, 64}; }));
  CHECK(over_what_it_reads([](auto& instructions) { std::get<ReduceScatter>(instructions[0].action).out = {0, 0}; }));
  CHECK(over_what_it_reads([](auto& instructions) { std::get<AllGather>(instructions[1].action).part = {1, 64}; }));

  // What a collective reads must be there, and what it writes races with other streams.
  changed = bundle;
  erase(changed.ranks[0].instructions, 0);
  erase(changed.ranks[1].instructions, 0);
  CHECK(begins(refutation(changed),
               "P0634 rule 6: rank 0 instruction 0 (all_gather \"part\" to \"other\" over \"dp\", 64 bytes a member, "
               "on stream \"compute\"; s.yaml:2:3) reads bytes of \"part\""));
  changed = bundle;
  changed.ranks[1].instructions.edit()[3] = {1, Run{1, 0, {}}, -1};
  CHECK(begins(refutation(changed),
               "P0633 rule 5: data race on \"part\": nothing orders what rank 1 instruction 0 (reduce_scatter \"all\" "
               "to \"part\" over \"dp\", 16 f32 a member"));
  // Reading the parts that are not written to is no conflict with a sum apart from them.
  changed = bundle;
  changed.ranks[1].instructions.edit()[3] = {1, Run{1, 1, {}}, -1};
  CHECK(refutation(changed) == "ok");
  // The own part inside of all parts is not written by a gather in place.
  for (auto& plan : changed.ranks) {
    plan.arguments.edit()[1].arguments = {{0, 64 * plan.rank}};
    plan.instructions = {{0, AllGather{{}, {0, 0}, 16, 0}, -1}, {1, Run{1, 1, {}}, -1}};
  }
  CHECK(refutation(changed) == "ok");
  changed.ranks[0].arguments.edit()[1].arguments = {{0, 64}};
  CHECK(begins(refutation(changed), "P0633 rule 5: data race on \"all\""));
}

// Collectives wait for all members: two communicators in opposite order do not end.
TEST_CASE("collectives in opposite order deadlock") {
  auto bundle = empty_ranks(2, {});
  for (auto& plan : bundle.ranks) {
    for (const char* name : {"a", "b"})
      add_buffer(plan,
                 {name, BufferClass::kGradient, 128, 128 * static_cast<int64_t>(plan.buffers.size()), DType::kF32, {}});
    plan.communicators = {{"dp", {0, 1}}, {"ep", {0, 1}}};
    const Instruction scatter{0, ReduceScatter{{0, 0}, {}, 16, DType::kF32, 0, Reduction::kSum}, -1};
    const Instruction exchange{0, AllGather{{}, {1, 0}, 16, 1}, -1};
    plan.instructions =
        plan.rank == 0 ? std::vector<Instruction>{scatter, exchange} : std::vector<Instruction>{exchange, scatter};
  }
  CHECK(begins(refutation(bundle), "P0632 rule 4: deadlock, even with every stream running on its own"));
  for (auto& plan : bundle.ranks) std::swap(plan.instructions.edit()[0], plan.instructions.edit()[1]);
  std::swap(bundle.ranks[0].instructions.edit()[0], bundle.ranks[0].instructions.edit()[1]);
  CHECK(refutation(bundle) == "ok");
}

TEST_CASE("events") {
  auto bundle = empty_ranks(1, {"a"});
  auto& plan = bundle.ranks[0];
  const auto event = add_event(plan, "e");
  append(plan, 0, Wait{event});
  CHECK(begins(refutation(bundle),
               "P0632 rule 3: rank 0 instruction 0 (wait \"e\", on stream \"compute\") waits for an event that nothing "
               "records"));
  append(plan, 1, Record{event});
  CHECK(
      begins(refutation(bundle), "P0632 rule 4: deadlock when each rank issues its instructions in order (level D2;"));
  append(plan, 1, Record{event});
  CHECK(begins(refutation(bundle),
               "P0632 rule 3: rank 0 instruction 2 (record \"e\", on stream \"pp\") records an event"));
}

TEST_CASE("data races") {
  auto bundle = empty_ranks(2, {"a"});
  bundle.programs = {toucher("fill", false, true), toucher("read", true, false)};
  auto& plan = bundle.ranks[0];
  plan.arguments = {{"a", {{0, 0}}}};
  append(plan, 0, Run{0, 0, {}});
  const auto filled = add_event(plan, "filled");
  append(plan, 0, Record{filled});
  append(plan, 1, Wait{filled});
  append(plan, 1, Send{{0, 0}, 16, 0});
  append(bundle.ranks[1], 0, Recv{{0, 0}, 16, 0});
  REQUIRE(refutation(bundle) == "ok");
  // A second reader is no conflict; a writer is, until an event orders it.
  append(plan, 0, Run{1, 0, {}});
  CHECK(refutation(bundle) == "ok");
  auto unordered = bundle;
  append(unordered.ranks[0], 0, Run{0, 0, {}});
  CHECK(refutation(unordered) ==
        "P0633 rule 5: data race on \"a\": nothing orders what rank 0 instruction 3 (send \"a\" to rank 1 on channel "
        "\"c\", 64 bytes, on stream \"pp\")"
        " reads and what rank 0 instruction 5 (run fill with \"a\", on stream \"compute\") writes");
  const auto sent = add_event(plan, "sent");
  append(plan, 1, Record{sent});
  append(plan, 0, Wait{sent});
  append(plan, 0, Run{0, 0, {}});
  CHECK(refutation(bundle) == "ok");
  // Without the wait the send races with the first writer.
  erase(plan.instructions, 2);
  CHECK(begins(refutation(bundle),
               "P0633 rule 5: data race on \"a\": nothing orders what rank 0 instruction 0 (run fill"));
}

TEST_CASE("contents of shared bytes") {
  auto bundle = empty_ranks(1, {"a", "b"});
  bundle.programs = {toucher("fill", false, true), toucher("read", true, false)};
  auto& plan = bundle.ranks[0];
  plan.arguments = {{"a", {{0, 0}}}, {"b", {{1, 0}}}};
  append(plan, 0, Run{0, 0, {}});
  append(plan, 0, Run{0, 1, {}});
  append(plan, 0, Run{1, 0, {}});
  CHECK(refutation(bundle) == "ok");
  plan.buffers.edit()[1].offset = 0;
  CHECK(refutation(bundle) ==
        "P0634 rule 6: rank 0 instruction 2 (run read with \"a\", on stream \"compute\") reads \"a\", whose bytes rank "
        "0 instruction 1 (run fill with \"b\","
        " on stream \"compute\") overwrote as \"b\"");
  plan.buffers.edit()[1].offset = 64;
  erase(plan.instructions, 0);
  CHECK(begins(refutation(bundle),
               "P0634 rule 6: rank 0 instruction 1 (run read with \"a\", on stream \"compute\") reads bytes of \"a\" "
               "that nothing wrote"));
  plan.buffers.edit()[1].cls = BufferClass::kParameter;
  CHECK(refutation(bundle).find("writes \"b\", which runs only read") != std::string::npos);
}

TEST_CASE("programs that do what they do not declare") {
  auto bundle = empty_ranks(1, {"a", "b"});
  Program program{"p", {{"x", SlotRole::kInput, 64, true, false}, {"y", SlotRole::kOutput, 64, false, true}}, 0, {}};
  const Operand x{0, 0, DType::kF32, {16}, {1}}, y{1, 0, DType::kF32, {16}, {1}};
  program.calls = {{"copy", false, {y}, {x}, {}, ""}, {"add", false, {y}, {y, x}, {}, ""}};
  bundle.programs = {program};
  CHECK(refutation(bundle) == "ok");
  bundle.programs[0].calls[0] = {"copy", false, {x}, {x}, {}, ""};
  CHECK(refutation(bundle) == "P0635 rule 7: program p call 0 (copy) writes slot \"x\", which does not declare it");
  bundle.programs[0].calls[0] = {"copy", false, {y}, {y}, {}, ""};
  CHECK(refutation(bundle) == "P0635 rule 7: program p call 0 (copy) reads slot \"y\", which does not declare it");
  bundle.programs = {program};
  bundle.ranks[0].arguments = {{"p", {{0, 0}, {0, 0}}}};
  append(bundle.ranks[0], 0, Run{0, 0, {}});
  CHECK(refutation(bundle) ==
        "P0635 rule 7: rank 0 instruction 0 (run p with \"p\", on stream \"compute\"): its slots in \"a\" and \"a\" "
        "overlap, and one is written");
}

TEST_CASE("operands in many runs of bytes share some or none") {
  auto bundle = empty_ranks(1, {"a"});
  const auto answer = [&](Operand out, Operand in) {
    const Operand all{Operand::kWorkspace, 0, DType::kF32, {40000}, {1}};
    bundle.programs = {Program{"p", {}, 160000, {}}};
    bundle.programs[0].calls = {{"fill", false, {all}, {}, {{"value", 1.0}}, ""},
                                {"neg", false, {std::move(out)}, {std::move(in)}, {}, ""}};
    return refutation(bundle);
  };
  const auto every_other = [](int64_t offset, int64_t count) {
    return Operand{Operand::kWorkspace, offset, DType::kF32, {count}, {2}};
  };
  const std::string shared =
      "P0635 rule 7: program p call 1 (neg) writes output 0 over bytes of input 0, in the workspace";
  CHECK(answer(every_other(4, 10000), every_other(0, 10000)) == "ok");
  CHECK(answer(every_other(40000, 10000), every_other(0, 10000)) == shared);
  CHECK(answer({Operand::kWorkspace, 36000, DType::kF32, {5000}, {1}}, every_other(0, 5000)) == shared);
  // Halves of heads, which lie between one another; those of the other half of the heads; and one head further on.
  const auto halves = [](int64_t offset) {
    return Operand{Operand::kWorkspace, offset, DType::kF32, {1000, 5, 2}, {40, 4, 1}};
  };
  CHECK(answer(halves(8), halves(0)) == "ok");
  CHECK(answer(halves(80), halves(0)) == "ok");
  CHECK(answer(halves(64), halves(0)) == shared);
  // Other steps, whose places have to be compared.
  CHECK(answer({Operand::kWorkspace, 4, DType::kF32, {5000}, {6}},
               {Operand::kWorkspace, 0, DType::kF32, {5000}, {4}}) == "ok");
  CHECK(answer({Operand::kWorkspace, 4, DType::kF32, {5000}, {3}},
               {Operand::kWorkspace, 0, DType::kF32, {5000}, {2}}) == shared);
}

TEST_CASE("lists of samples") {
  verify::SampleTable samples;
  const int32_t low = samples.range(0, 2), high = samples.range(2, 2);
  const int32_t all = samples.append(low, high);
  CHECK(all == samples.range(0, 4));
  CHECK(samples.append(high, low) != all);  // a list, not a set
  CHECK(samples.append(0, low) == low);
  CHECK(samples.slice(all, 0, 32, 64) == low);
  CHECK(samples.slice(samples.append(high, low), 32, 32, 64) == low);
  CHECK(samples.slice(all, 0, 24, 64) == -1);  // inside a sample
  CHECK(samples.range(5, 0) == 0);
  CHECK(verify::text(samples.ranges(samples.append(high, low))) == "samples 2 to 3 and 0 to 1");
  CHECK(verify::text(samples.ranges(samples.range(7, 1))) == "sample 7");
}

TEST_CASE("sums say what is missing and what is counted twice") {
  verify::SampleTable samples;
  verify::SumTable sums(samples);
  const int32_t a = sums.leaf(samples.range(0, 2)), b = sums.leaf(samples.range(2, 2)),
                c = sums.leaf(samples.range(6, 2));
  CHECK(sums.add(a, b) == sums.add(a, b));
  CHECK(sums.add(0, a) == a);
  CHECK(sums.complete(sums.add(a, b), 4));
  CHECK(!sums.complete(a, 4));
  const auto holds = sums.compare(sums.add(sums.add(a, a), c), {{0, 5}});
  CHECK(holds.repeated == std::vector<verify::SampleRange>{{0, 2}});
  CHECK(holds.missing == std::vector<verify::SampleRange>{{2, 3}});
  CHECK(holds.foreign == std::vector<verify::SampleRange>{{6, 2}});
  // A sum that was doubled sixty times is looked at in sixty steps.
  int32_t doubled = a;
  for (int i = 0; i < 60; ++i) doubled = sums.add(doubled, doubled);
  CHECK(sums.compare(doubled, {{0, 2}}).repeated == std::vector<verify::SampleRange>{{0, 2}});
}

// A copy of the runtime's plan of two replicas, changed; what the verifier says about it.
TEST_CASE("orders of sums") {
  using verify::SummedElements;
  verify::SampleTable samples;
  verify::SumTable sums(samples);
  const int32_t a = sums.leaf(samples.range(0, 2)), b = sums.leaf(samples.range(2, 2)),
                c = sums.leaf(samples.range(4, 2));
  const int32_t ab = sums.add(a, b), bc = sums.add(b, c);
  CHECK(sums.order(sums.add(ab, c)) == sums.order(sums.add(c, sums.add(b, a))));
  CHECK(sums.order(sums.add(ab, c)) != sums.order(sums.add(a, bc)));
  CHECK(sums.order(ab) != sums.order(sums.leaf(samples.range(0, 4))));
  CHECK(sums.order(ab) != sums.order(bc));

  SummedElements whole{{0, 8}, 1}, first{{0, 4}, 1}, second{{4, 4}, 1}, other{{4, 4}, 2};
  const plan::Bundle bundle;
  const auto digest = [&](std::vector<SummedElements> gradients) {
    return verify::sum_order(bundle, {.gradients = std::move(gradients), .norms = {}, .loss = 3});
  };
  CHECK(digest({whole}) == digest({second, first, first}));  // parts, and copies on several ranks
  CHECK(digest({whole}) != digest({first, other}));
  CHECK(digest({whole}) != digest({first}));
}

TEST_CASE("parts of a tensor are added up place by place, so their number is in the order of sums") {
  const auto digest = [](int32_t axis, int32_t places) {
    plan::Bundle bundle;
    bundle.manifest.tensors.resize(1);
    bundle.manifest.tensors[0].name = "w";
    bundle.manifest.cuts = {{"tp", {std::vector<int32_t>(static_cast<size_t>(places))}}};
    if (axis >= 0) bundle.manifest.tensors[0].cut = plan::TensorCut{0, axis};
    return verify::sum_order(bundle, {});
  };
  CHECK(digest(1, 2) == digest(1, 2));
  CHECK(digest(1, 2) != digest(1, 4));
  CHECK(digest(1, 2) != digest(0, 2));
  CHECK(digest(1, 2) != digest(-1, 2));
  CHECK(digest(-1, 2) == verify::sum_order({}, {}));
}

TEST_CASE("stories of sums, meaning and updates") {
  const auto story = [](const std::function<void(Bundle&)>& change) {
    auto bundle = hand_written::replicas();
    change(bundle);
    return refutation(bundle);
  };
  CHECK(story([](Bundle& b) {
          for (auto& plan : b.ranks) {
            auto& instructions = plan.instructions.edit();
            instructions.insert(instructions.begin() + 4, Instruction(instructions[3]));
          }
        }) ==
        "P0636 rule 8: rank 1 instruction 9 (update by sgd.6 with \"update w from 0\", on stream \"compute\"; copy): "
        "updates \"w\" by "
        "a gradient with samples 0 to 1 more than "
        "once in what c0.FB adds to \"grad w\"");
  CHECK(story([](Bundle& b) {
          for (auto& plan : b.ranks)
            for (auto& slice : plan.inputs) slice.first = 0;
        }) ==
        "P0636 rule 8: rank 0 instruction 8 (update by sgd.6 with \"update w from 0\", on stream \"compute\"; copy): "
        "updates \"w\" by "
        "a gradient with sample 0 more than once in what c0.FB adds to \"grad w\"");
  CHECK(story([](Bundle& b) { b.ranks[0].inputs[1].first = 1; }) ==
        "P0637 rule 9: rank 0 instruction 0 (run c0.FB with \"c0.FB m0\", on stream \"compute\"; copy): reads \"t\" "
        "for sample 1, other values for sample 0");
  CHECK(story([](Bundle& b) { b.programs[0].slots[2].of = "v"; }) ==
        "P0637 rule 9: rank 0 instruction 0 (run c0.FB with \"c0.FB m0\", on stream \"compute\"; copy): the model has "
        "no parameter \"v\"");
  CHECK(story([](Bundle& b) {
          auto& plan = b.ranks[1];
          auto& update = std::get<Update>(plan.instructions.edit()[8].action);
          auto ranges = example::ranges_of(b, plan, update);
          ranges.count = 5;
          example::set_ranges(b, plan, update, ranges);
        }) == "P0636 rule 8: rank 1 adds to \"grad w\" from zero on, but leaves it uncleared for the next step");
  CHECK(story([](Bundle& b) { b.ranks[0].placements[0].part.owner = false; }) ==
        "P0638 rule 10: no rank saves element 0 of \"w\"");
  CHECK(story([](Bundle& b) { b.ranks[1].placements[0].part.owner = true; }) ==
        "P0638 rule 10: more than one rank saves element 0 of \"w\"");
  CHECK(story([](Bundle& b) {
          for (auto& plan : b.ranks) erase(plan.instructions, 4);
        }) == "P0636 rule 8: the loss that rank 0 reports has sample 1 missing in what is in \"loss\"");
}
