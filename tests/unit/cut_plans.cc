#include "tests/unit/cut_plans.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "schemas/plan/names.h"
#include "tests/unit/hand_written_plans.h"
#include "tests/unit/kernel_calls.h"
#include "tests/unit/plan_updates.h"

namespace piper::hand_written {

namespace cut_plans {  // other plans written by hand have helpers of the same names
namespace {

using namespace plan;
using testing::call;
using testing::operand;
using testing::Shape;

constexpr int64_t kIn = 3, kInside = 4, kOut = 2, kEach = 2;  // widths; samples of a replica

int64_t product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Slots and calls of a program, by the names of slots.
class Writer {
 public:
  Writer(const std::string& name, int64_t samples) : n_(samples) { program_.name = name; }

  int add(const std::string& name, SlotRole role, const Shape& shape, bool reads, bool writes,
          Spread spread = Spread::kSame) {
    Slot slot{name, role, 4 * product(shape), reads, writes};
    slot.spread = spread;
    slot.cut = spread == Spread::kSame ? -1 : 0;
    if (role == SlotRole::kParameter) slot.of = name;
    if (role == SlotRole::kGradient && name != "loss") slot.of = name.substr(5);  // "grad w"
    if (name == "loss") slot.holds = StepNumber::kLoss;
    if (name == "x" || name == "t") slot.of = name;
    program_.slots.push_back(std::move(slot));
    shapes_.push_back(shape);
    return static_cast<int>(program_.slots.size()) - 1;
  }
  int reads(const std::string& name, const Shape& shape, Spread spread = Spread::kSame) {
    return add(name, SlotRole::kInput, shape, true, false, spread);
  }
  int writes(const std::string& name, const Shape& shape, Spread spread = Spread::kSame) {
    return add(name, SlotRole::kOutput, shape, false, true, spread);
  }
  int parameter(const std::string& name, const Shape& shape) {
    return add(name, SlotRole::kParameter, shape, true, false);
  }
  int gradient(const std::string& name, const Shape& shape) {
    return add(name == "loss" ? name : "grad " + name, SlotRole::kGradient, shape, true, true);
  }
  Operand all(int slot) const { return operand(slot, shapes_[static_cast<size_t>(slot)]); }
  void make(const std::string& kernel, int out, std::vector<Operand> inputs, std::vector<Attr> attrs = {},
            bool accumulate = false) {
    program_.calls.push_back(call(kernel, {all(out)}, std::move(inputs), std::move(attrs), accumulate));
    program_.calls.back().origin = "model";
  }
  void sum(int out, int of, const std::vector<int64_t>& dims) {
    make("sum", out, {all(of)}, {{"dims", dims}, {"keepdim", false}}, true);
  }
  Program take(int32_t chunk, Pass pass) {
    if (chunk >= 0) program_.of = ChunkPass{chunk, pass, n_, false};
    return std::move(program_);
  }
  Program take() { return std::move(program_); }
  int64_t n() const { return n_; }

 private:
  int64_t n_;
  Program program_;
  std::vector<Shape> shapes_;
};

// The parts of the step as calls: `inside` has the width of a rank's part.
void before(Writer& w, int a) {
  const int x = w.reads("x", {w.n(), kIn}), w0 = w.parameter("w0", {kIn, kIn});
  w.make("linear", a, {w.all(x), w.all(w0), {}});
}

void after(Writer& w, int y, int g, bool with_bias) {
  const int64_t n = w.n();
  const int t = w.reads("t", {n, kOut}), loss = w.gradient("loss", {}), gb = w.gradient("b2", {kOut});
  int u = y;
  if (with_bias) {
    const int b = w.parameter("b2", {kOut});
    u = w.writes("u", {n, kOut});
    w.make("add", u, {w.all(y), operand(b, {n, kOut}, {0, 1})});
  }
  const int v = w.writes("v", {n, kOut});
  w.make("mul", v, {w.all(u), w.all(t)});
  w.sum(loss, v, {0, 1});
  w.make("neg", g, {w.all(t)});
  w.sum(gb, g, {0});
}

void first_backward(Writer& w, int g) {
  const int x = w.reads("x", {w.n(), kIn}), gw = w.gradient("w0", {kIn, kIn});
  w.make("linear_backward_weight", gw, {w.all(g), w.all(x)}, {}, true);
}

// The whole step, for the proof to compare with.
Reference reference() {
  const int64_t n = Reference::kSamples;
  Writer w("reference", n);
  const int a = w.writes("a", {n, kIn});
  before(w, a);
  const int w1 = w.parameter("w1", {kInside, kIn}), b1 = w.parameter("b1", {kInside}),
            w2 = w.parameter("w2", {kOut, kInside}), b2 = w.parameter("b2", {kOut});
  const int z = w.writes("z", {n, kInside}), h = w.writes("h", {n, kInside}), y = w.writes("y", {n, kOut}),
            gy = w.writes("gy", {n, kOut});
  w.make("linear", z, {w.all(a), w.all(w1), w.all(b1)});
  w.make("relu", h, {w.all(z)});
  w.make("linear", y, {w.all(h), w.all(w2), w.all(b2)});
  after(w, y, gy, false);
  const int gw2 = w.gradient("w2", {kOut, kInside}), gh = w.writes("gh", {n, kInside}),
            gz = w.writes("gz", {n, kInside}), gw1 = w.gradient("w1", {kInside, kIn}),
            gb1 = w.gradient("b1", {kInside}), ga = w.writes("ga", {n, kIn});
  w.make("linear_backward_weight", gw2, {w.all(gy), w.all(h)}, {}, true);
  w.make("linear_backward_input", gh, {w.all(gy), w.all(w2)});
  w.make("relu_backward", gz, {w.all(gh), w.all(h)});
  w.make("linear_backward_weight", gw1, {w.all(gz), w.all(a)}, {}, true);
  w.sum(gb1, gz, {0});
  w.make("linear_backward_input", ga, {w.all(gz), w.all(w1)});
  first_backward(w, ga);
  Reference made;
  made.program = w.take();
  made.lines.resize(made.program.calls.size());
  return made;
}

enum ProgramAt : int32_t { kBefore, kColumn1, kSumForward, kAfter, kColumn1Backward, kSumBackward, kFirstBackward };

std::vector<Program> programs(const CutPlan& how) {
  const int64_t n = kEach, part = kInside / how.places;
  const bool by_chunk = how.sum == CutPlan::Sum::kByProgram;
  const auto hand_on = [&](const std::string& from, const std::string& to, int64_t width, int32_t chunk, Pass pass) {
    Writer w(by_chunk ? from + " to " + to : "copy " + from, n);
    const Spread share = by_chunk ? Spread::kShare : Spread::kSame;
    const int in = w.reads(from, {n, width}, share), out = w.writes(to, {n, width}, share);
    w.make("copy", out, {w.all(in)});
    return w.take(by_chunk ? chunk : -1, pass);
  };
  std::vector<Program> all;
  {
    Writer w("first.F", n);
    before(w, w.writes("a", {n, kIn}));
    all.push_back(w.take(0, Pass::kForward));
  }
  {
    Writer w("pair.F", n);
    const int a = w.reads("a", {n, kIn}), w1 = w.parameter("w1", {part, kIn}), b1 = w.parameter("b1", {part}),
              w2 = w.parameter("w2", {kOut, part}), h = w.add("h", SlotRole::kSaved, {n, part}, false, true),
              z = w.writes("z", {n, part}, Spread::kPart), y = w.writes("share of y", {n, kOut}, Spread::kShare);
    w.make("linear", z, {w.all(a), w.all(w1), w.all(b1)});
    w.make("relu", h, {w.all(z)});
    Operand bias;
    if (how.bias_inside) bias = w.all(w.parameter("b2", {kOut}));
    w.make("linear", y, {w.all(h), w.all(w2), bias});
    all.push_back(w.take(1, Pass::kForward));
  }
  all.push_back(hand_on("share of y", "y", kOut, 2, Pass::kForward));
  {
    Writer w("last.FB", n);
    const int y = w.reads("y", {n, kOut});
    after(w, y, w.writes("gy", {n, kOut}), !how.bias_inside);
    all.push_back(w.take(3, Pass::kForward));
  }
  {
    Writer w("pair.B", n);
    const int gy = w.reads("gy", {n, kOut}), a = w.reads("a", {n, kIn}),
              h = w.add("h", SlotRole::kSaved, {n, part}, true, false), w1 = w.parameter("w1", {part, kIn}),
              w2 = w.parameter("w2", {kOut, part}), gw2 = w.gradient("w2", {kOut, part}),
              gw1 = w.gradient("w1", {part, kIn}), gb1 = w.gradient("b1", {part}),
              gh = w.writes("gh", {n, part}, Spread::kPart), gz = w.writes("gz", {n, part}, Spread::kPart),
              ga = w.writes("share of ga", {n, kIn}, Spread::kShare);
    w.make("linear_backward_weight", gw2, {w.all(gy), w.all(h)}, {}, true);
    w.make("linear_backward_input", gh, {w.all(gy), w.all(w2)});
    w.make("relu_backward", gz, {w.all(gh), w.all(h)});
    w.make("linear_backward_weight", gw1, {w.all(gz), w.all(a)}, {}, true);
    w.sum(gb1, gz, {0});
    w.make("linear_backward_input", ga, {w.all(gz), w.all(w1)});
    all.push_back(w.take(1, Pass::kBackward));
  }
  all.push_back(hand_on("share of ga", "ga", kIn, 4, Pass::kBackward));
  {
    Writer w("first.B", n);
    first_backward(w, w.reads("ga", {n, kIn}));
    all.push_back(w.take(0, Pass::kBackward));
  }
  return all;
}

TensorInfo info(const std::string& name, const Shape& shape, int32_t axis = -1) {
  TensorInfo tensor;
  tensor.name = name;
  tensor.shape = shape;
  if (axis >= 0) tensor.cut = TensorCut{0, axis};
  return tensor;
}

// Buffers of a rank by the names of what they hold.
class RankWriter {
 public:
  RankWriter(Bundle& bundle, RankPlan& plan, int32_t place) : bundle_(bundle), plan_(plan), place_(place) {}

  BufferRange buffer(const std::string& name, BufferClass cls, const Shape& shape) {
    Buffer buffer;
    buffer.name = name;
    buffer.cls = cls;
    buffer.bytes = 4 * product(shape);
    for (const Buffer& other : plan_.buffers)
      if (other.cls == cls) buffer.offset = std::max(buffer.offset, (other.offset + other.bytes + 63) / 64 * 64);
    buffer.shape = shape;
    if (cls == BufferClass::kArena) plan_.arena_bytes = buffer.offset + (buffer.bytes + 63) / 64 * 64;
    plan_.buffers.push_back(buffer);
    return {static_cast<int32_t>(plan_.buffers.size()) - 1, 0};
  }
  BufferRange find(const std::string& name) const {
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      if (plan_.buffers[b].name == name) return {static_cast<int32_t>(b), 0};
    return {};
  }
  void add(const Action& action) { plan_.instructions.push_back(instruction(0, action)); }
  // With the buffers that are called like the slots.
  void run(int32_t program) {
    const Program& of = bundle_.programs[static_cast<size_t>(program)];
    ArgumentList list;
    list.name = of.name + " m0";
    for (const Slot& slot : of.slots) {
      if (find(slot.name).buffer < 0) buffer(slot.name, BufferClass::kArena, {slot.bytes / 4});
      list.arguments.push_back(find(slot.name));
    }
    plan_.arguments.push_back(list);
    add(Run{program, static_cast<int32_t>(plan_.arguments.size()) - 1, {}});
  }
  void add_up(const std::string& name, int32_t communicator) {
    const BufferRange where = find(name);
    add(AllReduce{where, plan_.buffers[static_cast<size_t>(where.buffer)].bytes / 4, DType::kF32, communicator,
                  Reduction::kSum});
  }
  void place(const TensorInfo& tensor, bool owner) {
    const int64_t parts = tensor.cut ? bundle_.manifest.cuts[0].places() : 1, count = product(tensor.shape) / parts;
    const BufferRange value = buffer(tensor.name, BufferClass::kParameter, {count}),
                      gradient = buffer("grad " + tensor.name, BufferClass::kGradient, {count});
    const int64_t first = tensor.cut ? count * place_ : 0;
    for (const auto& [kind, where] :
         {std::pair(PlacementKind::kValue, value), std::pair(PlacementKind::kGradient, gradient)})
      plan_.placements.push_back({tensor.name, kind, DType::kF32, tensor.shape, {where, first, count, owner}});
  }

 private:
  Bundle& bundle_;
  RankPlan& plan_;
  const int32_t place_;
};

// Programs of the step: clears the loss and the squares, adds up squares of gradients, makes the factor that clips.
int32_t clearing(Bundle& bundle) {
  Program program{"clear", {}, 0, {}};
  for (const char* name : {"loss", "squares"}) {
    program.slots.push_back({name, SlotRole::kOutput, 4, false, true});
    program.calls.push_back(
        call("fill", {operand(static_cast<int>(program.slots.size()) - 1, {})}, {}, {{"value", 0.0}}));
  }
  bundle.programs.push_back(program);
  return static_cast<int32_t>(bundle.programs.size()) - 1;
}
int32_t squaring(Bundle& bundle, const std::string& gradient, int64_t count) {
  Program program{"square " + gradient, {}, 0, {}};
  program.slots = {{gradient, SlotRole::kInput, 4 * count, true, false}, {"squares", SlotRole::kOutput, 4, true, true}};
  program.calls = {call("square_sum", {operand(1, {})}, {operand(0, {count})}, true)};
  for (size_t p = 0; p < bundle.programs.size(); ++p)
    if (bundle.programs[p].name == program.name) return static_cast<int32_t>(p);
  bundle.programs.push_back(program);
  return static_cast<int32_t>(bundle.programs.size()) - 1;
}
int32_t clipping(Bundle& bundle) {
  Program program{"clip", {}, 0, {}};
  program.slots = {{"squares", SlotRole::kInput, 4, true, false},
                   {"norm", SlotRole::kOutput, 4, false, true},
                   {"factor", SlotRole::kOutput, 4, false, true}};
  program.calls = {call("clip_scale", {operand(1, {}), operand(2, {})}, {operand(0, {1})}, {{"clip", 1.0}})};
  bundle.programs.push_back(program);
  return static_cast<int32_t>(bundle.programs.size()) - 1;
}

Bundle make(const CutPlan& how) {
  Bundle bundle;
  Manifest& manifest = bundle.manifest;
  manifest.world_size = how.replicas * how.places;
  manifest.ranks.resize(static_cast<size_t>(manifest.world_size));
  manifest.batch = kEach * how.replicas;
  manifest.clip_grad_norm = 1;
  manifest.optimizer.lr = 0.5;
  manifest.optimizer.groups = {{"all", 0}};
  manifest.tensors = {info("w0", {kIn, kIn}), info("w1", {kInside, kIn}, 0), info("b1", {kInside}, 0),
                      info("w2", {kOut, kInside}, 1), info("b2", {kOut})};
  for (const char* chunk : {"first", "pair", "sum", "last", "enter"}) manifest.chunks.push_back({chunk, chunk, {}});
  for (const auto& [name, width] : {std::pair("x", kIn), std::pair("t", kOut)}) {
    InputDecl input;
    input.name = name;
    input.dtype = DType::kF32;
    input.sample_shape = {width};
    manifest.inputs.push_back(input);
  }
  bundle.provenance = {{"cut", "shard at s.yaml:3:5"}};
  std::vector<int32_t> everyone(static_cast<size_t>(manifest.world_size));
  std::iota(everyone.begin(), everyone.end(), 0);
  Cut over{"tp", {}};
  for (int32_t r = 0; r < how.replicas; ++r)
    over.groups.emplace_back(everyone.begin() + r * how.places, everyone.begin() + (r + 1) * how.places);
  manifest.cuts = {over};
  bundle.programs = programs(how);
  const int32_t clear = clearing(bundle);
  std::vector<int32_t> square;
  for (const TensorInfo& tensor : manifest.tensors)
    square.push_back(squaring(bundle, "grad " + tensor.name, product(tensor.shape) / (tensor.cut ? how.places : 1)));
  const int32_t clip = clipping(bundle);

  for (const int32_t r : everyone) {
    const int32_t place = r % how.places, replica = r / how.places;
    RankPlan& plan = bundle.ranks.emplace_back();
    plan.rank = r;
    plan.streams = {{"compute"}};
    std::vector<int32_t> column;
    for (int32_t other = place; other < manifest.world_size; other += how.places) column.push_back(other);
    plan.communicators = {{"tp", over.groups[static_cast<size_t>(replica)]}, {"dp", column}, {"all", everyone}};
    RankWriter w(bundle, plan, place);
    for (const InputDecl& input : manifest.inputs)
      plan.inputs.push_back({input.name, kEach * replica, kEach,
                             w.buffer(input.name, BufferClass::kInput, {kEach, input.sample_shape[0]})});
    for (const TensorInfo& tensor : manifest.tensors) w.place(tensor, replica == 0 && (tensor.cut || place == 0));
    const auto sum = [&](int32_t program, const std::string& share, const std::string& whole) {
      if (how.sum == CutPlan::Sum::kInPlace) return w.add_up(share, kRow);
      w.run(program);
      w.add_up(whole, kRow);
    };
    // Where shares are added up in place, their readers find them there.
    const auto rename = [&](const std::string& share, const std::string& whole) {
      if (how.sum != CutPlan::Sum::kInPlace) return;
      plan.buffers.edit()[static_cast<size_t>(w.find(share).buffer)].name = whole;
    };
    w.run(clear);
    w.run(kBefore);
    w.run(kColumn1);
    sum(kSumForward, "share of y", "y");
    rename("share of y", "y");
    w.run(kAfter);
    w.run(kColumn1Backward);
    sum(kSumBackward, "share of ga", "ga");
    rename("share of ga", "ga");
    w.run(kFirstBackward);
    w.add_up("loss", kColumn);
    // For what all places have, one of them counts for the norm.
    for (size_t t = 0; t < manifest.tensors.size(); ++t) {
      const TensorInfo& tensor = manifest.tensors[t];
      w.add_up("grad " + tensor.name, kColumn);
      if (replica == 0 && (tensor.cut || place == 0)) w.run(square[t]);
    }
    w.add_up("squares", kEveryRank);
    w.run(clip);
    example::append_advance(bundle, plan, 0, 0);
    for (const TensorInfo& tensor : manifest.tensors) {
      example::UpdateRanges ranges{w.find(tensor.name), w.find("grad " + tensor.name),
                                   product(tensor.shape) / (tensor.cut ? how.places : 1)};
      ranges.scale = w.find("factor");
      example::append_update(bundle, plan, 0, ranges, 0, 0);
    }
    plan.loss = w.find("loss");
    plan.grad_norm = w.find("norm");
  }
  if (how.reference) bundle.reference = {reference()};
  return bundle;
}

}  // namespace
}  // namespace cut_plans

plan::Bundle cut(const CutPlan& how) { return cut_plans::make(how); }

}  // namespace piper::hand_written
