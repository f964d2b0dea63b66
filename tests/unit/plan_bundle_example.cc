#include "tests/unit/plan_bundle_example.h"

#include <algorithm>

#include "schemas/base/check.h"
#include "schemas/plan/names.h"
#include "tests/unit/plan_updates.h"

namespace piper::plan::example {
namespace {

constexpr int32_t kCompute = 0, kToPeer = 1, kFromPeer = 2, kReduce = 3;

Operand slot(int32_t index, std::vector<int64_t> shape, std::vector<int64_t> strides) {
  return {index, 0, DType::kF32, std::move(shape), std::move(strides)};
}

Program forward() {
  Program program{"c0.F.b4", {}, 256, {}};
  program.slots = {{"x", SlotRole::kInput, 64, true, false},
                   {"weight", SlotRole::kParameter, 64, true, false},
                   {"y", SlotRole::kOutput, 64, false, true}};
  program.of = ChunkPass{0, Pass::kForward, 4};
  KernelCall product{"matmul",
                     false,
                     {{Operand::kWorkspace, 64, DType::kF32, {4, 4}, {4, 1}}},
                     {slot(0, {4, 4}, {4, 1}), slot(1, {4, 4}, {1, 4})},
                     {},
                     "layers.0"};
  KernelCall bound{"rms_norm",
                   false,
                   {slot(2, {4, 4}, {4, 1})},
                   {{Operand::kWorkspace, 64, DType::kF32, {4, 4}, {4, 1}}, {}},
                   {{"value", -1.0 / 0.0},
                    {"dim", int64_t{-1}},
                    {"scale", 2.0},
                    {"keep", true},
                    {"mode", std::string("a \"b\"")},
                    {"axes", std::vector<int64_t>{0, 1}}},
                   "layers.0.act"};
  program.calls = {product, bound};
  return program;
}

Program backward() {
  Program program{"c0.B.b4", {}, 0, {}};
  program.slots = {{"grad y", SlotRole::kInput, 64, true, false}, {"grad weight", SlotRole::kGradient, 64, true, true}};
  program.calls = {{"copy", true, {slot(1, {16}, {1})}, {slot(0, {16}, {1})}, {}, ""}};
  program.of = ChunkPass{0, Pass::kBackward, 4};
  return program;
}

RankPlan one_rank(int32_t rank) {
  RankPlan plan;
  plan.rank = rank;
  plan.arena_bytes = 640;
  plan.streams = {{"compute"}, {"to peer", Priority::kHigh}, {"from peer"}, {"reduce", Priority::kNormal, 8}};
  plan.communicators = {{"dp:0,1", {0, 1}, 8}};
  plan.channels = {{"there", 1 - rank, 0}, {"back", 1 - rank, 1}};
  plan.buffers = {{"x", BufferClass::kInput, 64, 0, DType::kF32, {4, 4}},
                  {"weight", BufferClass::kParameter, 64, 0, DType::kF32, {4, 4}},
                  {"grad weight", BufferClass::kGradient, 64, 0, DType::kF32, {4, 4}},
                  {"workspace", BufferClass::kArena, 256, 0, DType::kF32, {}},
                  {"act y m0", BufferClass::kArena, 128, 256, DType::kF32, {}},
                  {"act peer m0", BufferClass::kArena, 128, 384, DType::kF32, {}},
                  {"loss+1", BufferClass::kArena, 64, 512, DType::kF32, {}},
                  {"sample_offset", BufferClass::kScalar, 8, 0, DType::kI64, {1}},
                  {"seed_step", BufferClass::kScalar, 16, 64, DType::kI64, {2}}};
  plan.placements = {{"layers.0.weight", PlacementKind::kValue, DType::kF32, {4, 4}, {{1, 0}, 0, 16, rank == 0}},
                     {"layers.0.weight", PlacementKind::kGradient, DType::kF32, {4, 4}, {{2, 0}, 0, 16, rank == 0}}};
  plan.inputs = {{"input", 4 * rank, 4, {0, 0}}};
  plan.scalars = {{7, {4}}};
  plan.seed_step = {8, 0};
  plan.loss = rank == 1 ? BufferRange{6, 0} : BufferRange{};
  return plan;
}

}  // namespace

int32_t append(RankPlan& plan, int32_t stream, Action action, int32_t provenance) {
  plan.instructions.push_back({stream, std::move(action), provenance});
  return static_cast<int32_t>(plan.instructions.size() - 1);
}
int32_t add_buffer(RankPlan& plan, Buffer buffer) {
  plan.buffers.push_back(std::move(buffer));
  return static_cast<int32_t>(plan.buffers.size() - 1);
}
int32_t add_event(RankPlan& plan, const std::string& name) {
  plan.events.push_back(name);
  return static_cast<int32_t>(plan.events.size() - 1);
}

Bundle two_ranks() {
  Bundle bundle;
  bundle.provenance = {{"s.yaml:3:5", "place at s.yaml:3:5"},
                       {"s.yaml:9:5", "order at s.yaml:9:5"},
                       {"optimizer", "the optimizer", "because"}};
  bundle.programs = {advance_program(), backward(), forward()};
  for (int32_t rank = 0; rank < 2; ++rank) {
    RankPlan plan = one_rank(rank);
    const auto ran = add_event(plan, "c0.F m0"), arrived = add_event(plan, "act peer m0"),
               done = add_event(plan, "c0.B m0"), summed = add_event(plan, "grad weight summed"),
               left = add_event(plan, "act y m0 left");
    plan.arguments = {{"c0.F m0", {{0, 0}, {1, 0}, {4, 0}}, 0}, {"c0.B m0", {{5, 64}, {2, 0}}, 0}};
    append(plan, kCompute, Run{2, 0, {3, 0}}, 0);
    append(plan, kCompute, Record{ran});
    append(plan, kToPeer, Wait{ran});
    // Rank 0's message travels first on both ranks: one global order.
    const Send send{{4, 0}, 16, rank == 0 ? 0 : 1};
    const Recv recv{{5, 64}, 16, rank == 0 ? 1 : 0};
    if (rank == 0) append(plan, kToPeer, send, 1);
    append(plan, kFromPeer, recv, 1);
    if (rank == 1) append(plan, kToPeer, send, 1);
    append(plan, kToPeer, Record{left});
    append(plan, kFromPeer, Record{arrived});
    append(plan, kCompute, Wait{arrived});
    append(plan, kCompute, Run{1, 1, {}}, 0);
    append(plan, kCompute, Record{done});
    append(plan, kReduce, Wait{done});
    append(plan, kReduce, AllReduce{{2, 0}, 16, DType::kF32, 0, Reduction::kSum}, 1);
    append(plan, kReduce, Record{summed});
    append(plan, kCompute, Wait{summed});
    append(plan, kCompute, Wait{left});
    append_advance(bundle, plan, kCompute, 2);
    append_update(bundle, plan, kCompute, {{1, 0}, {2, 0}, 16, {}, {}, {6, 4}}, 0, 2);
    bundle.ranks.push_back(std::move(plan));
  }
  auto& manifest = bundle.manifest;
  manifest.model.name = "m.onnx";
  manifest.model.sha256 = std::string(64, 'a');
  manifest.strategy.name = "s.yaml";
  manifest.strategy.sha256 = std::string(64, 'b');
  manifest.world_size = 2;
  manifest.reporting_rank = 1;
  manifest.batch = 8;
  manifest.inputs = {{"input", DType::kF32, {4}, true, Feed::kNone}};
  manifest.tensors = {{"layers.0.weight", DType::kF32, {4, 4}, {"tied.weight"}, true}};
  manifest.chunks = {{"c0", "c0", {}}};
  manifest.optimizer.groups = {{"all", 0.1}};
  manifest.run = {{{"web.bin", 3, "s.yaml:9:13"}, {"books", 0.5, ""}}, 10, 18446744073709551615u, "sequential", 50256};
  manifest.ranks = {{640, 264, 0, 64, 904}, {640, 264, 0, 64, 904}};
  return bundle;
}

namespace {

// Values are called after their maker; `from` = -1: none arrives.
Program pass_program(int32_t rank, Pass of, int32_t from) {
  const std::string pass(pass_name(of));
  const auto value = [&](int32_t maker) { return pass + " PP" + std::to_string(maker); };
  Program program{"PP" + std::to_string(rank) + "." + pass + ".b1", {}, 0, {}, ChunkPass{rank, of, 1}};
  if (from >= 0) program.slots.push_back({value(from), SlotRole::kInput, 64, true, false});
  program.slots.push_back({value(rank), SlotRole::kOutput, 64, false, true});
  const Operand out = slot(from >= 0 ? 1 : 0, {16}, {1});
  if (from >= 0) program.calls = {{"copy", false, {out}, {slot(0, {16}, {1})}, {}, ""}};
  else program.calls = {{"fill", false, {out}, {}, {{"value", 1.0}}, ""}};
  return program;
}

// The channel on which a rank's messages of a kind go to or come from its neighbour.
int32_t channel(RankPlan& plan, const std::string& kind, int32_t from, int32_t to) {
  const std::string name = kind + " " + std::to_string(from) + ">" + std::to_string(to);
  const auto known =
      std::find_if(plan.channels.begin(), plan.channels.end(), [&](const Channel& c) { return c.name == name; });
  const auto index = static_cast<int32_t>(known - plan.channels.begin());
  if (known == plan.channels.end())
    plan.channels.push_back({name, from == plan.rank ? to : from, kind == "act" ? 0 : 1});
  return index;
}

// Adds one pass of one microbatch: arrival on a stream of its own, run, departure.
void add_pass(RankPlan& plan, int32_t rank, int32_t program, const std::string& pass, int32_t m, int32_t from,
              int32_t to) {
  const bool forward = pass == "F";
  const std::string name = "PP" + std::to_string(rank) + "." + pass + " m" + std::to_string(m);
  const int32_t incoming = forward ? 1 : 2, outgoing = forward ? 3 : 4;
  const char* const kind = forward ? "act" : "grad";
  const auto fresh = [&plan](const std::string& buffer) {
    plan.arena_bytes += 64;
    return add_buffer(plan, {buffer, BufferClass::kArena, 64, plan.arena_bytes - 64, DType::kF32, {16}});
  };
  const int32_t out = fresh("out " + name);
  ArgumentList list{name, {}, m};
  if (from >= 0) {
    const int32_t in = fresh("in " + name), event = add_event(plan, "in " + name);
    append(plan, incoming, Recv{{in, 0}, 16, channel(plan, kind, from, rank)}, 0);
    append(plan, incoming, Record{event});
    append(plan, 0, Wait{event});
    list.arguments.push_back({in, 0});
  }
  list.arguments.push_back({out, 0});
  plan.arguments.push_back(list);
  append(plan, 0, Run{program, static_cast<int32_t>(plan.arguments.size() - 1), {}}, 0);
  if (to < 0) return;
  const int32_t event = add_event(plan, name);
  append(plan, 0, Record{event});
  append(plan, outgoing, Wait{event});
  append(plan, outgoing, Send{{out, 0}, 16, channel(plan, kind, rank, to)}, 0);
}

}  // namespace

Bundle pipeline(int32_t ranks, int32_t microbatches, bool alternate) {
  Bundle bundle = two_ranks();
  bundle.ranks.clear();
  bundle.programs.clear();
  bundle.manifest.tensors[0].trained = false;
  bundle.manifest.world_size = ranks;
  bundle.manifest.reporting_rank = ranks - 1;
  bundle.manifest.ranks.clear();
  bundle.manifest.chunks.clear();
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const bool last = rank + 1 == ranks;
    const std::string chunk = "PP" + std::to_string(rank);
    bundle.manifest.chunks.push_back({chunk, chunk, {{"PP", rank}}});
    bundle.programs.push_back(pass_program(rank, Pass::kForward, rank - 1));
    bundle.programs.push_back(pass_program(rank, Pass::kBackward, last ? -1 : rank + 1));
    RankPlan plan;
    plan.rank = rank;
    plan.streams = {{"compute"}, {"act in"}, {"grad in"}, {"act out"}, {"grad out"}};
    const int32_t ahead = alternate ? std::min(ranks - 1 - rank, microbatches) : microbatches;
    for (int32_t k = 0; k < microbatches + ahead; ++k) {
      if (k < microbatches) add_pass(plan, rank, 2 * rank, "F", k, rank - 1, last ? -1 : rank + 1);
      if (k >= ahead) add_pass(plan, rank, 2 * rank + 1, "B", k - ahead, last ? -1 : rank + 1, rank - 1);
    }
    bundle.manifest.ranks.push_back({plan.arena_bytes, 0, 0, 64 * microbatches, plan.arena_bytes});
    bundle.ranks.push_back(std::move(plan));
  }
  return bundle;
}

}  // namespace piper::plan::example
