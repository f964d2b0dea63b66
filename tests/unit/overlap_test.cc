// What lets communication run beside compute: the sequence of a slot, and bytes that a message still holds.
#include <catch2/catch.hpp>

#include "compiler/analysis/alternate.h"
#include "compiler/emit/place_buffers.h"

namespace piper {
namespace {

using ir::NodeId;
using ir::Phase;

// Computes by name, in any order; messages join two of them.
struct SlotDag {
  ir::Dag dag;
  std::vector<std::string> names;

  NodeId compute(const std::string& name, Phase phase, int32_t microbatch) {
    names.resize(dag.nodes.size() + 1);
    names.back() = name;
    return dag.add_node(ir::ComputeNode{ir::ChunkId(static_cast<uint32_t>(dag.nodes.size())), phase, microbatch},
                        ir::GroupId(0), 0, {});
  }
  void message(NodeId from, NodeId to) {
    names.resize(dag.nodes.size() + 1);
    const NodeId exchange = dag.add_node(
        ir::CollectiveNode{ir::CollectiveKind::kAllToAll, ir::ValueOperand{}, {}, DType::kF32, plan::Reduction::kSum},
        ir::GroupId(0), 1, {});
    dag.add_edge(from, exchange);
    dag.add_edge(exchange, to);
  }
  std::string text(const std::vector<NodeId>& sequence) const {
    std::string all;
    for (NodeId n : sequence) all += (all.empty() ? "" : " ") + names[n.index];
    return all;
  }
};

// A forward f1 ~ f2 ~ f3 and a backward b1 b2 ~ b3 ~ b4, ~ a message.
struct Slot : SlotDag {
  std::vector<NodeId> forward, backward;
  Slot() {
    for (const char* name : {"f1", "f2", "f3"}) forward.push_back(compute(name, Phase::kForward, 1));
    for (const char* name : {"b1", "b2", "b3", "b4"}) backward.push_back(compute(name, Phase::kBackward, 0));
    message(forward[0], forward[1]);
    message(forward[1], forward[2]);
    dag.add_edge(backward[0], backward[1]);
    message(backward[1], backward[2]);
    message(backward[2], backward[3]);
  }
};

}  // namespace

TEST_CASE("a member goes on until it waits, then the one whose message was sent first") {
  Slot slot;
  CHECK(slot.text(analysis::alternate(analysis::data_paths(slot.dag), slot.dag, {slot.backward, slot.forward})) ==
        "f1 b1 b2 f2 b3 f3 b4");
}

TEST_CASE("a weight pass runs where all members wait, and not before its own input pass") {
  Slot slot;
  const NodeId of_b1 = slot.compute("w1", Phase::kBackwardWeight, 0),
               of_b4 = slot.compute("w4", Phase::kBackwardWeight, 0);
  slot.dag.add_edge(slot.backward[0], of_b1);
  slot.dag.add_edge(slot.backward[3], of_b4);
  slot.backward.push_back(of_b4);
  slot.backward.push_back(of_b1);
  CHECK(slot.text(analysis::alternate(analysis::data_paths(slot.dag), slot.dag, {slot.forward, slot.backward})) ==
        "f1 b1 b2 w1 f2 b3 f3 b4 w4");
}

TEST_CASE("members that are fixed by hand do not alternate") {
  Slot slot;
  CHECK(slot.text(analysis::one_after_the_other(analysis::data_paths(slot.dag), slot.dag,
                                                {slot.backward, slot.forward})) == "b1 b2 b3 b4 f1 f2 f3");
}

namespace {

// Runs on stream 0 and sends on stream 1; each instruction touches one buffer of 64 bytes.
struct Traced {
  plan::RankPlan plan;
  emit::Trace trace;

  Traced() {
    plan.streams = {{"compute"}, {"pp:0>1"}};
    plan.arguments = {{"run", {}}};
    plan.channels = {{"pp:0>1", 1, 0}};
    for (int b = 0; b < 8; ++b) {
      plan::Buffer buffer;
      buffer.name = "b" + std::to_string(b);
      buffer.bytes = 64;
      plan.buffers.push_back(buffer);
    }
  }
  void add(int32_t stream, plan::Action action, emit::Access access) {
    trace.instructions.push_back({{stream, action, -1}, static_cast<uint32_t>(trace.accesses.size())});
    trace.accesses.push_back(access);
  }
  void run(int32_t buffer) {
    add(0, plan::Run{.arguments = 0}, {buffer, true, true});
    trace.instructions.back().pass = true;
  }
  void send(int32_t buffer) { add(1, plan::Send{.data = {buffer, 0}, .channel = 0}, {buffer, true, false}); }
  void place() { emit::place_buffers(plan, trace, 64); }
  int64_t waits_of_compute() const {
    int64_t count = 0;
    for (const plan::Instruction& i : plan.instructions)
      count += i.stream == 0 && std::holds_alternative<plan::Wait>(i.action);
    return count;
  }
};

}  // namespace

TEST_CASE("a run does not take the bytes of a message that is on its way") {
  Traced traced;
  traced.plan.buffers.edit()[7].bytes = 100 * 64;  // beside which a message costs little
  traced.run(7);
  traced.run(0);
  traced.send(0);
  traced.run(1);
  traced.run(7);
  traced.place();
  CHECK(traced.waits_of_compute() == 0);
  CHECK(traced.plan.buffers[0].offset != traced.plan.buffers[1].offset);
}

TEST_CASE("but where the arena would grow by much, it takes them and waits") {
  Traced traced;
  traced.run(0);
  traced.send(0);
  traced.run(1);
  traced.place();
  CHECK(traced.waits_of_compute() == 1);
  CHECK(traced.plan.buffers[0].offset == traced.plan.buffers[1].offset);
  CHECK(traced.plan.arena_bytes == 64);
}

TEST_CASE("several passes later the bytes of a message are taken, after an event") {
  Traced traced;
  traced.run(0);
  traced.send(0);
  for (int32_t b : {1, 1, 1, 1}) traced.run(b);
  traced.run(2);
  traced.run(1);
  traced.place();
  CHECK(traced.plan.buffers[2].offset == traced.plan.buffers[0].offset);
  CHECK(traced.waits_of_compute() == 1);
}

TEST_CASE("a placement serves again where the question is the same, and only there") {
  Traced one;
  one.run(0);
  one.send(0);
  one.run(1);
  one.place();
  Traced other = one;
  other.plan.events.clear();
  other.plan.instructions.clear();
  other.place();
  CHECK(other.plan.arena_bytes == one.plan.arena_bytes);
  CHECK(other.plan.instructions.size() == one.plan.instructions.size());
  other.plan.buffers.edit()[1].bytes = 4096;
  other.plan.events.clear();
  other.plan.instructions.clear();
  other.place();
  CHECK(other.plan.arena_bytes >= one.plan.arena_bytes + 4096 - 64);
}

}  // namespace piper
