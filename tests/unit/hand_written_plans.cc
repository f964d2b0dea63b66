#include "tests/unit/hand_written_plans.h"

#include "schemas/plan/safetensors.h"
#include "tests/unit/plan_updates.h"

namespace piper::hand_written {

namespace {

using plan::BufferClass;
using plan::Operand;
using plan::PlacementKind;
using plan::SlotRole;

Operand operand(int32_t slot, std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset = 0) {
  Operand o;
  o.slot = slot;
  o.offset = offset;
  o.shape = std::move(shape);
  o.strides = std::move(strides);
  return o;
}

plan::KernelCall mm(Operand out, Operand a, Operand b, bool accumulate = false) {
  plan::KernelCall call;
  call.kernel = "matmul";
  call.accumulate = accumulate;
  call.outputs = {std::move(out)};
  call.inputs = {std::move(a), std::move(b)};
  call.origin = "model";
  return call;
}

plan::Slot slot(const std::string& name, SlotRole role, int64_t bytes) {
  const bool writes = role == SlotRole::kOutput || role == SlotRole::kGradient;
  plan::Slot made{name, role, bytes, role != SlotRole::kOutput, writes};
  if (role == SlotRole::kParameter) made.of = name;
  if (role == SlotRole::kGradient) made.of = name.substr(5);  // "grad w"
  if (name == "loss") made.holds = plan::StepNumber::kLoss;
  return made;
}

int32_t add_buffer(plan::RankPlan& rank, const std::string& name, BufferClass cls, int64_t offset,
                   std::vector<int64_t> shape) {
  plan::Buffer buffer;
  buffer.name = name;
  buffer.cls = cls;
  buffer.offset = offset;
  buffer.bytes = 4;
  for (int64_t extent : shape) buffer.bytes *= extent;
  buffer.shape = std::move(shape);
  rank.buffers.push_back(buffer);
  return static_cast<int32_t>(rank.buffers.size()) - 1;
}

// A tensor whose weights, and gradient, are in these buffers.
std::vector<plan::Placement> placed(const std::string& name, int32_t buffer, int32_t gradient,
                                    const std::vector<int64_t>& shape, bool owner) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return {{name, PlacementKind::kValue, DType::kF32, shape, {{buffer, 0}, 0, count, owner}},
          {name, PlacementKind::kGradient, DType::kF32, shape, {{gradient, 0}, 0, count, owner}}};
}

void add_input(plan::Bundle& bundle, const std::string& name, int64_t width) {
  plan::InputDecl declared;
  declared.name = name;
  declared.dtype = DType::kF32;
  declared.sample_shape = {width};
  bundle.manifest.inputs.push_back(declared);
}

plan::BufferRange whole(int32_t buffer) { return {buffer, 0}; }

// The optimizer's step and an update by sgd, on stream 0.
void append_updates(plan::Bundle& bundle, plan::RankPlan& rank, const plan::example::UpdateRanges& ranges) {
  plan::example::append_advance(bundle, rank, 0, 0);
  plan::example::append_update(bundle, rank, 0, ranges, 0, 0);
}

plan::TensorInfo info(const std::string& name, std::vector<int64_t> shape) {
  plan::TensorInfo tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  return tensor;
}

}  // namespace

plan::Bundle pipeline() {
  plan::Bundle bundle;
  bundle.manifest.world_size = 2;
  bundle.manifest.ranks.resize(2);
  bundle.manifest.reporting_rank = 1;
  bundle.manifest.batch = 2;
  bundle.manifest.optimizer.lr = 0.5;
  bundle.manifest.optimizer.groups = {{"all", 0}};
  bundle.manifest.tensors = {info("w", {3, 2}), info("v", {2, 2})};
  add_input(bundle, "x", 3);
  add_input(bundle, "t", 2);
  bundle.provenance = {{"cut", "place at s.yaml:3:5"}, {"model", "net.layer"}};

  plan::Program forward{
      "c0.F",
      {slot("x", SlotRole::kInput, 24), slot("w", SlotRole::kParameter, 24), slot("y", SlotRole::kOutput, 16)},
      0,
      {}};
  forward.calls.push_back(mm(operand(2, {2, 2}, {2, 1}), operand(0, {2, 3}, {3, 1}), operand(1, {3, 2}, {2, 1})));
  plan::Program backward{
      "c0.B",
      {slot("x", SlotRole::kInput, 24), slot("gy", SlotRole::kInput, 16), slot("grad w", SlotRole::kGradient, 24)},
      0,
      {}};
  backward.calls.push_back(
      mm(operand(2, {3, 2}, {2, 1}), operand(0, {3, 2}, {1, 3}), operand(1, {2, 2}, {2, 1}), true));
  // z = y V; loss = z t (as rows of 4); gy = t Vt; gv += yt t.
  plan::Program last{
      "c1.FB",
      {slot("y", SlotRole::kInput, 16), slot("v", SlotRole::kParameter, 16), slot("t", SlotRole::kInput, 16),
       slot("loss", SlotRole::kOutput, 4), slot("gy", SlotRole::kOutput, 16), slot("grad v", SlotRole::kGradient, 16)},
      64,
      {}};
  last.calls.push_back(
      mm(operand(Operand::kWorkspace, {2, 2}, {2, 1}), operand(0, {2, 2}, {2, 1}), operand(1, {2, 2}, {2, 1})));
  last.calls.push_back(
      mm(operand(3, {1, 1}, {1, 1}), operand(Operand::kWorkspace, {1, 4}, {4, 1}), operand(2, {4, 1}, {1, 1})));
  last.calls.push_back(mm(operand(4, {2, 2}, {2, 1}), operand(2, {2, 2}, {2, 1}), operand(1, {2, 2}, {1, 2})));
  last.calls.push_back(mm(operand(5, {2, 2}, {2, 1}), operand(0, {2, 2}, {1, 2}), operand(2, {2, 2}, {2, 1}), true));
  bundle.programs = {forward, backward, last};

  plan::RankPlan a;
  a.rank = 0;
  a.streams = {{"compute"}, {"pp"}};
  a.channels = {{"fwd", 1, 3}, {"bwd", 1, 3}};
  a.events = {"y ready", "gy here"};
  const int32_t x = add_buffer(a, "x", BufferClass::kInput, 0, {2, 3}),
                w = add_buffer(a, "w", BufferClass::kParameter, 0, {3, 2}),
                gw = add_buffer(a, "grad w", BufferClass::kGradient, 0, {3, 2}),
                y = add_buffer(a, "y", BufferClass::kArena, 0, {2, 2}),
                gy = add_buffer(a, "gy", BufferClass::kArena, 64, {2, 2});
  a.arena_bytes = 128;
  a.placements = placed("w", w, gw, {3, 2}, true);
  a.inputs = {{"x", 0, 2, whole(x)}};
  a.arguments = {{"c0.F m0", {whole(x), whole(w), whole(y)}}, {"c0.B m0", {whole(x), whole(gy), whole(gw)}}};
  a.instructions = {instruction(0, plan::Run{0, 0, {}}),
                    instruction(0, plan::Record{0}),
                    instruction(1, plan::Wait{0}),
                    instruction(1, plan::Send{whole(y), 4, 0}),
                    instruction(1, plan::Recv{whole(gy), 4, 1}),
                    instruction(1, plan::Record{1}),
                    instruction(0, plan::Wait{1}),
                    instruction(0, plan::Run{1, 1, {}})};
  append_updates(bundle, a, {whole(w), whole(gw), 6});

  plan::RankPlan b;
  b.rank = 1;
  b.streams = {{"compute"}};
  b.channels = {{"fwd", 0, 3}, {"bwd", 0, 3}};
  const int32_t t = add_buffer(b, "t", BufferClass::kInput, 0, {2, 2}),
                v = add_buffer(b, "v", BufferClass::kParameter, 0, {2, 2}),
                gv = add_buffer(b, "grad v", BufferClass::kGradient, 0, {2, 2}),
                by = add_buffer(b, "y", BufferClass::kArena, 0, {2, 2}),
                bgy = add_buffer(b, "gy", BufferClass::kArena, 64, {2, 2}),
                loss = add_buffer(b, "loss", BufferClass::kArena, 128, {}),
                work = add_buffer(b, "workspace", BufferClass::kArena, 192, {16});
  b.arena_bytes = 256;
  b.placements = placed("v", v, gv, {2, 2}, true);
  b.inputs = {{"t", 0, 2, whole(t)}};
  b.arguments = {{"c1.FB m0", {whole(by), whole(v), whole(t), whole(loss), whole(bgy), whole(gv)}}};
  b.instructions = {instruction(0, plan::Recv{whole(by), 4, 0}), instruction(0, plan::Run{2, 0, whole(work)}),
                    instruction(0, plan::Send{whole(bgy), 4, 1})};
  append_updates(bundle, b, {whole(v), whole(gv), 4});
  b.loss = whole(loss);
  bundle.ranks = {a, b};
  return bundle;
}

plan::Bundle replicas() {
  plan::Bundle bundle;
  bundle.manifest.world_size = 2;
  bundle.manifest.ranks.resize(2);
  bundle.manifest.batch = 2;
  bundle.manifest.optimizer.lr = 0.5;
  bundle.manifest.optimizer.groups = {{"all", 0}};
  bundle.manifest.tensors = {info("w", {3, 2})};
  add_input(bundle, "x", 3);
  add_input(bundle, "t", 2);
  bundle.provenance = {{"copy", "replicate at s.yaml:4:5"}};
  plan::Program step{
      "c0.FB",
      {slot("x", SlotRole::kInput, 12), slot("t", SlotRole::kInput, 8), slot("w", SlotRole::kParameter, 24),
       slot("loss", SlotRole::kOutput, 4), slot("grad w", SlotRole::kGradient, 24)},
      64,
      {}};
  step.calls.push_back(
      mm(operand(Operand::kWorkspace, {1, 2}, {2, 1}), operand(0, {1, 3}, {3, 1}), operand(2, {3, 2}, {2, 1})));
  step.calls.push_back(
      mm(operand(3, {1, 1}, {1, 1}), operand(Operand::kWorkspace, {1, 2}, {2, 1}), operand(1, {2, 1}, {1, 1})));
  step.calls.push_back(mm(operand(4, {3, 2}, {2, 1}), operand(0, {3, 1}, {1, 3}), operand(1, {1, 2}, {2, 1}), true));
  bundle.programs = {step};
  for (int32_t r = 0; r < 2; ++r) {
    plan::RankPlan rank;
    rank.rank = r;
    rank.streams = {{"compute"}, {"dp_reduce"}};
    rank.communicators = {{"dp_reduce:0,1", {0, 1}}};
    rank.events = {"grads ready", "grads summed"};
    const int32_t x = add_buffer(rank, "x", BufferClass::kInput, 0, {1, 3}),
                  t = add_buffer(rank, "t", BufferClass::kInput, 64, {1, 2}),
                  w = add_buffer(rank, "w", BufferClass::kParameter, 0, {3, 2}),
                  gw = add_buffer(rank, "grad w", BufferClass::kGradient, 0, {3, 2}),
                  loss = add_buffer(rank, "loss", BufferClass::kArena, 0, {}),
                  work = add_buffer(rank, "workspace", BufferClass::kArena, 64, {16});
    rank.arena_bytes = 128;
    rank.placements = placed("w", w, gw, {3, 2}, r == 0);
    rank.inputs = {{"x", r, 1, whole(x)}, {"t", r, 1, whole(t)}};
    rank.arguments = {{"c0.FB m0", {whole(x), whole(t), whole(w), whole(loss), whole(gw)}}};
    rank.instructions = {instruction(0, plan::Run{0, 0, whole(work)}),
                         instruction(0, plan::Record{0}),
                         instruction(1, plan::Wait{0}),
                         instruction(1, plan::AllReduce{whole(gw), 6, DType::kF32, 0, plan::Reduction::kSum}),
                         instruction(1, plan::AllReduce{whole(loss), 1, DType::kF32, 0, plan::Reduction::kSum}),
                         instruction(1, plan::Record{1}),
                         instruction(0, plan::Wait{1})};
    append_updates(bundle, rank, {whole(w), whole(gw), 6});
    if (r == 0) rank.loss = whole(loss);
    bundle.ranks.push_back(rank);
  }
  return bundle;
}

plan::Bundle sharded() {
  plan::Bundle bundle = replicas();
  // The gradient is not added to: nobody clears the half that another rank updates.
  plan::Program& step = bundle.programs[0];
  step.slots[4] = slot("grad w", SlotRole::kGradient, 24);
  step.slots[4].reads = false;
  step.calls[2].accumulate = false;
  for (int32_t r = 0; r < 2; ++r) {
    plan::RankPlan& rank = bundle.ranks[static_cast<size_t>(r)];
    const int32_t w = 2, gw = 3, loss = 4;
    rank.buffers.edit()[3] = {"grad w", BufferClass::kArena, 24, 128, DType::kF32, {3, 2}};
    rank.arena_bytes = 192;
    const int32_t apart = add_buffer(rank, "grad w shard", BufferClass::kGradient, 0, {3});
    rank.events.push_back("w updated");
    rank.events.push_back("w gathered");
    const bool in_place = r == 0;
    const plan::BufferRange half{w, 12 * r}, sum = in_place ? whole(gw) : whole(apart);
    const plan::Part mine{half, 3 * r, 3, true}, theirs{{w, 12 * (1 - r)}, 3 * (1 - r), 3, false},
        gradient{sum, 3 * r, 3, true};
    rank.placements = {{"w", PlacementKind::kValue, DType::kF32, {3, 2}, theirs},
                       {"w", PlacementKind::kValue, DType::kF32, {3, 2}, mine},
                       {"w", PlacementKind::kGradient, DType::kF32, {3, 2}, gradient}};
    rank.instructions = {instruction(0, plan::Run{0, 0, whole(5)}),
                         instruction(0, plan::Record{0}),
                         instruction(1, plan::Wait{0}),
                         instruction(1, plan::ReduceScatter{whole(gw), in_place ? plan::BufferRange() : sum, 3,
                                                            DType::kF32, 0, plan::Reduction::kSum}),
                         instruction(1, plan::AllReduce{whole(loss), 1, DType::kF32, 0, plan::Reduction::kSum}),
                         instruction(1, plan::Record{1}),
                         instruction(0, plan::Wait{1})};
    append_updates(bundle, rank, {half, sum, 3});
    for (const plan::Instruction& last : {instruction(0, plan::Record{2}), instruction(1, plan::Wait{2}),
                                          instruction(1, plan::AllGather{{}, whole(w), 3, 0}),
                                          instruction(1, plan::Record{3}), instruction(0, plan::Wait{3})})
      rank.instructions.push_back(last);
  }
  return bundle;
}

plan::Bundle exchanged() {
  plan::Bundle bundle = replicas();
  bundle.manifest.batch = 4;
  plan::Program& step = bundle.programs[0];
  step.slots = {slot("x", SlotRole::kInput, 24), slot("t", SlotRole::kInput, 16), slot("w", SlotRole::kParameter, 24),
                slot("loss", SlotRole::kOutput, 4), slot("grad w", SlotRole::kGradient, 24)};
  step.calls = {
      mm(operand(Operand::kWorkspace, {2, 2}, {2, 1}), operand(0, {2, 3}, {3, 1}), operand(2, {3, 2}, {2, 1})),
      mm(operand(3, {1, 1}, {1, 1}), operand(Operand::kWorkspace, {1, 4}, {4, 1}), operand(1, {4, 1}, {1, 1})),
      mm(operand(4, {3, 2}, {2, 1}), operand(0, {3, 2}, {1, 3}), operand(1, {2, 2}, {2, 1}), true)};
  for (int32_t r = 0; r < 2; ++r) {
    plan::RankPlan& rank = bundle.ranks[static_cast<size_t>(r)];
    const int32_t x = 0, t = 1, w = 2, gw = 3, loss = 4, work = 5;
    rank.buffers.edit()[0] = {"x", BufferClass::kInput, 24, 0, DType::kF32, {2, 3}};
    rank.buffers.edit()[1] = {"t", BufferClass::kInput, 16, 64, DType::kF32, {2, 2}};
    const int32_t x_in = add_buffer(rank, "x in", BufferClass::kArena, 128, {2, 3}),
                  t_in = add_buffer(rank, "t in", BufferClass::kArena, 192, {2, 2});
    rank.arena_bytes = 256;
    rank.buffers.push_back({"rows", BufferClass::kScalar, 16, 64, DType::kI64, {2}});
    const auto rows = static_cast<int32_t>(rank.buffers.size()) - 1;
    rank.scalars = {{rows, {1, 1}}};
    rank.events.push_back("samples here");
    rank.inputs = {{"x", 2 * r, 2, whole(x)}, {"t", 2 * r, 2, whole(t)}};
    rank.arguments.edit()[0].arguments = {whole(x_in), whole(t_in), whole(w), whole(loss), whole(gw)};
    std::vector<plan::Instruction> rest = rank.instructions.get();
    rest[0] = instruction(0, plan::Run{0, 0, whole(work)});
    rank.instructions = {instruction(1, plan::AllToAll{whole(x), whole(x_in), 3, {}, {}, 0, 0}),
                         instruction(1, plan::AllToAll{whole(t), whole(t_in), 2, whole(rows), whole(rows), 2, 0}),
                         instruction(1, plan::Record{2}), instruction(0, plan::Wait{2})};
    for (const plan::Instruction& instruction : rest) rank.instructions.push_back(instruction);
  }
  return bundle;
}

plan::Bundle lanes() {
  plan::Bundle bundle = replicas();
  bundle.manifest.world_size = 3;
  bundle.manifest.ranks.resize(3);
  bundle.manifest.batch = 1;
  bundle.manifest.tensors.clear();
  bundle.programs.clear();
  bundle.ranks.clear();
  for (int32_t r = 0; r < 3; ++r) {
    plan::RankPlan rank;
    rank.rank = r;
    // One lane from 0 to 1, one from 1 to 2, one from 2 to 0.
    rank.channels = {{"late", r == 0 ? 1 : 0, 0}, {"passing", r == 1 ? 2 : 1, 1}, {"heard", r == 2 ? 0 : 2, 2}};
    rank.events = {"passed"};
    const auto out = whole(add_buffer(rank, "x", BufferClass::kInput, 0, {1, 3})),
               in = whole(add_buffer(rank, "in", BufferClass::kArena, 0, {1, 3}));
    rank.inputs = {{"x", 0, 1, out}};
    rank.arena_bytes = 64;
    if (r == 0) {
      rank.streams = {{"2>0"}, {"0>1"}};
      rank.instructions = {instruction(0, plan::Recv{in, 3, 2}), instruction(0, plan::Record{0}),
                           instruction(1, plan::Wait{0}), instruction(1, plan::Send{out, 3, 0})};
    } else if (r == 1) {
      rank.streams = {{"0>1"}, {"1>2"}};
      rank.events.clear();
      rank.instructions = {instruction(0, plan::Recv{in, 3, 0}), instruction(1, plan::Send{out, 3, 1})};
    } else {
      rank.streams = {{"1>2"}, {"2>0"}};
      rank.instructions = {instruction(0, plan::Recv{in, 3, 1}), instruction(0, plan::Record{0}),
                           instruction(1, plan::Wait{0}), instruction(1, plan::Send{out, 3, 2})};
    }
    bundle.ranks.push_back(rank);
  }
  return bundle;
}

namespace {

// In elements. A part is [outer, inner], a share of it what a replica updates.
struct CutSizes {
  explicit CutSizes(const CutTensor& of) : samples(2 / of.replicas) {
    for (size_t k = 0; k < of.shape.size(); ++k) (static_cast<int32_t>(k) < of.axis ? outer : inner) *= of.shape[k];
    inner /= of.parts * of.segments;
    outer *= of.segments;
    part = outer * inner;
    all = part * of.parts;
    share = part / of.replicas;
  }
  int64_t samples, outer = 1, inner = 1, part = 0, all = 0, share = 0;
};

plan::KernelCall copy(Operand out, Operand in, bool accumulate = false) {
  plan::KernelCall call;
  call.kernel = "copy";
  call.accumulate = accumulate;
  call.outputs = {std::move(out)};
  call.inputs = {std::move(in)};
  call.origin = "model";
  return call;
}

plan::Program program_of_part(const CutTensor& of, const CutSizes& size, int32_t p) {
  plan::Program step{
      "c0.FB." + std::to_string(p),
      {slot("x", SlotRole::kInput, size.samples * size.all * 4), slot("w", SlotRole::kParameter, size.part * 4),
       slot("loss", SlotRole::kOutput, 4), slot("grad w", SlotRole::kGradient, size.part * 4)},
      size.part * 4,
      {}};
  step.slots[3].reads = false;
  const auto sum = [&](std::vector<int64_t> shape, std::vector<int64_t> strides) {
    return operand(Operand::kWorkspace, std::move(shape), std::move(strides));
  };
  for (int64_t s = 0; s < size.samples; ++s)
    step.calls.push_back(copy(
        sum({size.outer, size.inner}, {size.inner, 1}),
        operand(0, {size.outer, size.inner}, {size.inner * of.parts, 1}, (s * size.all + p * size.inner) * 4), s > 0));
  step.calls.push_back(
      mm(operand(2, {1, 1}, {1, 1}), sum({1, size.part}, {size.part, 1}), operand(1, {size.part, 1}, {1, 1})));
  step.calls.push_back(copy(operand(3, {size.part}, {1}), sum({size.part}, {1})));
  return step;
}

int32_t add_communicator(plan::RankPlan& rank, const std::string& name, int32_t first, int32_t stride, int32_t ranks) {
  plan::Communicator& made = rank.communicators.emplace_back();
  made.name = name;
  for (int32_t k = 0; k < ranks; ++k) made.ranks.push_back(first + k * stride);
  return static_cast<int32_t>(rank.communicators.size()) - 1;
}

plan::RankPlan rank_of_part(plan::Bundle& bundle, const CutTensor& of, const CutSizes& size, int32_t r) {
  const int32_t p = r % of.parts, q = r / of.parts;
  plan::RankPlan rank;
  rank.rank = r;
  rank.streams = {{"compute"}};
  const int32_t x = add_buffer(rank, "x", BufferClass::kInput, 0, {size.samples, size.all}),
                w = add_buffer(rank, "w", BufferClass::kParameter, 0, {size.part}),
                gw = add_buffer(rank, "grad w", BufferClass::kArena, 64, {size.part}),
                loss = add_buffer(rank, "loss", BufferClass::kArena, 0, {}),
                work = add_buffer(rank, "workspace", BufferClass::kArena, 64 + 4 * size.part, {size.part}),
                sum = add_buffer(rank, "grad w share", BufferClass::kGradient, 0, {size.share}),
                m = add_buffer(rank, "m", BufferClass::kOptimizer, 0, {size.share}),
                v = add_buffer(rank, "v", BufferClass::kOptimizer, 4 * size.share, {size.share});
  rank.arena_bytes = 64 + 8 * size.part;
  const int64_t part = p * size.part, own = part + q * size.share;
  for (int64_t k = 0; k < of.replicas; ++k)
    rank.placements.push_back({"w",
                               PlacementKind::kValue,
                               DType::kF32,
                               of.shape,
                               {{w, 4 * k * size.share}, part + k * size.share, size.share, k == q}});
  const plan::BufferRange gradient = whole(of.replicas > 1 ? sum : gw);
  rank.placements.push_back({"w", PlacementKind::kGradient, DType::kF32, of.shape, {gradient, own, size.share, true}});
  rank.placements.push_back(
      {"w", PlacementKind::kFirstMoment, DType::kF32, of.shape, {whole(m), own, size.share, true}});
  rank.placements.push_back(
      {"w", PlacementKind::kSecondMoment, DType::kF32, of.shape, {whole(v), own, size.share, true}});
  rank.inputs = {{"x", q * size.samples, size.samples, whole(x)}};
  rank.arguments = {{"c0.FB m0", {whole(x), whole(w), whole(loss), whole(gw)}}};
  rank.instructions = {instruction(0, plan::Run{p, 0, whole(work)})};
  const int32_t world = of.parts * of.replicas;
  if (of.replicas > 1) {
    const int32_t column = add_communicator(rank, "dp:" + std::to_string(p), p, of.parts, of.replicas);
    rank.instructions.push_back(instruction(
        0, plan::ReduceScatter{whole(gw), whole(sum), size.share, DType::kF32, column, plan::Reduction::kSum}));
  }
  if (world > 1) {
    const int32_t everyone = add_communicator(rank, "world", 0, 1, world);
    rank.instructions.push_back(
        instruction(0, plan::AllReduce{whole(loss), 1, DType::kF32, everyone, plan::Reduction::kSum}));
  }
  plan::example::append_advance(bundle, rank, 0, 0);
  plan::example::append_update(bundle, rank, 0, {{w, 4 * q * size.share}, gradient, size.share, whole(m), whole(v)}, 0,
                               0);
  if (of.replicas > 1) rank.instructions.push_back(instruction(0, plan::AllGather{{}, whole(w), size.share, 0}));
  if (r == 0) rank.loss = whole(loss);
  return rank;
}

}  // namespace

plan::Bundle cut_tensor(const CutTensor& of) {
  const CutSizes size(of);
  plan::Bundle bundle;
  plan::Manifest& manifest = bundle.manifest;
  manifest.world_size = of.parts * of.replicas;
  manifest.ranks.resize(static_cast<size_t>(manifest.world_size));
  manifest.batch = 2;
  manifest.optimizer.kind = "adamw";
  manifest.optimizer.lr = 0.125;
  manifest.optimizer.groups = {{"all", 0.01}};
  manifest.tensors = {info("w", of.shape)};
  if (of.parts > 1) {
    manifest.tensors[0].cut = plan::TensorCut{0, of.axis, of.segments};
    manifest.cuts = {{"tp", {}}};
    for (int32_t q = 0; q < of.replicas; ++q) {
      auto& group = manifest.cuts[0].groups.emplace_back();
      for (int32_t p = 0; p < of.parts; ++p) group.push_back(q * of.parts + p);
    }
  }
  add_input(bundle, "x", size.all);
  bundle.provenance = {{"cut", "shard at s.yaml:4:5"}};
  for (int32_t p = 0; p < of.parts; ++p) bundle.programs.push_back(program_of_part(of, size, p));
  for (int32_t r = 0; r < manifest.world_size; ++r) bundle.ranks.push_back(rank_of_part(bundle, of, size, r));
  return bundle;
}

const std::vector<float> kX = {1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -2, -3};
const std::vector<float> kT = {1, -1, 2, 0.5f, 3, 1, -2, 4};
const std::vector<float> kW = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f}, kV = {1, 2, 3, 4};

namespace {

plan::TensorToWrite tensor(const std::string& name, std::vector<int64_t> shape, const std::vector<float>& values) {
  plan::TensorToWrite t{name, DType::kF32, std::move(shape), {}, static_cast<int64_t>(values.size() * 4)};
  t.produce = [&values](const auto& write) { return write(values.data(), static_cast<int64_t>(values.size() * 4)); };
  return t;
}

}  // namespace

Status write_files(const std::string& directory) {
  PIPER_RETURN_IF_ERROR(
      plan::write_safetensors(directory + "/data.safetensors", {tensor("x", {4, 3}, kX), tensor("t", {4, 2}, kT)}));
  return plan::write_safetensors(directory + "/weights.safetensors",
                                 {tensor("w", {3, 2}, kW), tensor("v", {2, 2}, kV)});
}

}  // namespace piper::hand_written
