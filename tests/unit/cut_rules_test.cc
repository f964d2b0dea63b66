// Rules on numbers of values that are cut over places: what a place computes of its parts is its part, or its share, of
// what one device computes, and of nothing else.
#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <vector>

#include "schemas/verify/numbers/exchange.h"
#include "schemas/verify/numbers/program.h"
#include "tests/unit/kernel_calls.h"

using namespace piper;
using namespace piper::plan;
using namespace piper::plan::testing;
using namespace piper::verify;

namespace {

constexpr int64_t kSamples = 3, kPlaces = 2;

// What a slot holds: so many elements, of a sample or of a matrix, of which a place has `part` in a row; 0: all.
struct Held {
  std::string name;
  Over over = Over::kEach;
  int64_t elements = 0, part = 0;
  bool share = false;
};
Held values(const std::string& name, int64_t elements, int64_t part = 0) { return {name, Over::kEach, elements, part}; }
Held matrix(const std::string& name, int64_t elements, int64_t part = 0) {
  return {name, Over::kNothing, elements, part};
}
Held share(const std::string& name, int64_t elements) { return {name, Over::kEach, elements, 0, true}; }

class Step {
 public:
  // Slots after those of `held` are what calls make.
  explicit Step(std::vector<Held> held) : held_(std::move(held)) {}

  const HeldValue& model(std::vector<KernelCall> calls) {
    const HeldValue& made = run(std::move(calls), false);
    known_ = table_.size();
    return made;
  }
  const HeldValue& place(std::vector<KernelCall> calls) { return run(std::move(calls), true); }
  const Number& number(const HeldValue& value) const { return table_[value.number]; }
  NumberTable& table() { return table_; }

 private:
  static constexpr size_t kMade = 4;

  // The last value that a call makes.
  const HeldValue& run(std::vector<KernelCall> calls, bool at_place) {
    programs_.push_back(std::make_unique<Program>());
    Program& program = *programs_.back();
    program.slots.resize(held_.size() + kMade);
    program.calls = std::move(calls);
    runs_.push_back(std::make_unique<NumberedProgram>());
    NumberedProgram& run = *runs_.back();
    run.program = &program;
    run.samples = run.batch = kSamples;
    if (at_place) run.known = known_;
    else run.index = kReferenceProgram;
    run.slots.resize(program.slots.size());
    for (size_t s = 0; s < held_.size(); ++s) {
      const Held& held = held_[s];
      const int64_t bytes = 4 * held.elements;
      HeldValue value{bytes * (held.over == Over::kEach ? kSamples : 1), 0, table_.leaf(held.name, held.over, bytes)};
      if (at_place && (held.part > 0 || held.share)) {
        if (held.part > 0) value.end /= kPlaces;
        value.spread = {.devices = kPlaces, .part = held.part, .share = held.share, .cut = 0};
      }
      run.slots[s].put(0, value);
    }
    number_program(run, table_);
    const Operand& out = program.calls.back().outputs[0];
    return run.slots[static_cast<size_t>(out.slot)].all().begin()->second;
  }

  std::vector<Held> held_;
  NumberTable table_;
  int32_t known_ = 0;
  std::vector<std::unique_ptr<Program>> programs_;
  std::vector<std::unique_ptr<NumberedProgram>> runs_;
};

KernelCall attention(Operand y, Operand lse, Operand q, Operand k, Operand v, Operand mask = {}) {
  return call("scaled_dot_product_attention", {std::move(y), std::move(lse)},
              {std::move(q), std::move(k), std::move(v), std::move(mask)});
}

}  // namespace

TEST_CASE("products by a part of a matrix make parts by its rows, shares by its columns") {
  enum Slots { kX, kRows, kColumns, kH, kY };
  Step step({values("x", 5), matrix("rows", 20, 10), matrix("columns", 12, 2)});
  const auto calls = [](int64_t part) {
    return std::vector<KernelCall>{
        call("linear", {operand(kH, {3, part})}, {operand(kX, {3, 5}), operand(kRows, {part, 5}), {}}),
        call("linear", {operand(kY, {3, 3})}, {operand(kH, {3, part}), operand(kColumns, {3, part}), {}})};
  };
  const HeldValue model = step.model(calls(4)), place = step.place(calls(2));
  CHECK(place.number == model.number);
  CHECK(place.spread == verify::Spread{.devices = 2, .share = true, .cut = 0});
  // Added up over the places it is the model's; what is no share is not.
  const auto added = [&](const HeldValue& value, int32_t cut) {
    HeldValues held;
    held.put(0, value);
    const HeldValues sum = added_up(held, cut, kPlaces, value.end, 0, step.table());
    return sum.all().begin()->second;
  };
  CHECK(added(place, 0).number == model.number);
  CHECK_FALSE(added(place, 0).spread.is_spread());
  CHECK(step.number(added(place, 1)).unfit);
  CHECK(step.number(added(model, 0)).unfit);
  const HeldValue part = step.place({calls(2)[0]});
  CHECK(part.spread == verify::Spread{.devices = 2, .part = 2, .cut = 0});
  CHECK(step.number(added(part, 0)).unfit);
}

TEST_CASE("a share enters linear functions alone") {
  enum Slots { kX, kS, kR, kMade };
  Step step({values("x", 4), share("s", 4), share("r", 4)});
  const auto of = [](int slot) { return operand(slot, {3, 4}); };
  const auto made = [&](const std::string& kernel, std::vector<Operand> inputs) {
    return step.place({call(kernel, {of(kMade)}, std::move(inputs))});
  };
  for (const HeldValue& value : {made("neg", {of(kS)}), made("add", {of(kS), of(kR)}), made("mul", {of(kS), of(kX)})})
    CHECK(value.spread == verify::Spread{.devices = 2, .share = true, .cut = 0});
  for (const HeldValue& value : {made("relu", {of(kS)}), made("add", {of(kS), of(kX)})})
    CHECK(step.number(value).unfit);
  CHECK(step.number(made("mul", {of(kS), of(kR)})).unfit);
}

TEST_CASE("a derivative is linear in what comes back, and a scatter in what it puts beside zeros") {
  enum Slots { kX, kS, kIndex, kBase, kMade };
  Step step({values("x", 4), share("s", 4), {"index", Over::kEach, 8}});
  const auto of = [](int slot) { return operand(slot, {3, 4}); };
  const Attr dim{"dim", int64_t{1}};
  const auto is_share = [&](const HeldValue& value) {
    return value.spread == verify::Spread{.devices = 2, .share = true, .cut = 0};
  };
  CHECK(is_share(step.place({call("softmax_backward", {of(kMade)}, {of(kS), of(kX)}, {dim})})));
  CHECK(step.number(step.place({call("softmax_backward", {of(kMade)}, {of(kX), of(kS)}, {dim})})).unfit);
  CHECK(step.number(step.place({call("softmax", {of(kMade)}, {of(kS)}, {dim})})).unfit);
  const auto scattered = [&](double beside) {
    return step.place({call("fill", {of(kBase)}, {}, {{"value", beside}}),
                       call("scatter", {of(kMade)}, {of(kBase), integers(kIndex, {3, 4}), of(kS)}, {dim})});
  };
  CHECK(is_share(scattered(0)));
  CHECK(step.number(scattered(1)).unfit);
}

TEST_CASE("a part of a weight in one segment beside a bias in several is no model's product") {
  enum Slots { kX, kW, kB, kY };
  Step step({values("x", 5), matrix("w", 60, 30), matrix("b", 12, 2)});
  const KernelCall product =
      call("linear", {operand(kY, {3, 6})}, {operand(kX, {3, 5}), operand(kW, {6, 5}), operand(kB, {6})});
  CHECK(step.number(step.place({product})).unfit);
}

TEST_CASE("attention of a place's heads is its part of all heads' attention") {
  enum Slots { kQ, kK, kV, kMask, kY, kLse };
  Step step({values("q", 4 * 2 * 5, 20), values("k", 2 * 2 * 5, 10), values("v", 2 * 2 * 5, 10), values("mask", 4)});
  const auto of_heads = [](int64_t h, int64_t j, Operand mask = {}) {
    return std::vector<KernelCall>{attention(operand(kY, {3, h, 2, 5}), operand(kLse, {3, h, 2}),
                                             operand(kQ, {3, h, 2, 5}), operand(kK, {3, j, 2, 5}),
                                             operand(kV, {3, j, 2, 5}), std::move(mask))};
  };
  const HeldValue model = step.model(of_heads(4, 2)), place = step.place(of_heads(2, 1));
  CHECK(place.number == model.number);
  CHECK(place.spread == verify::Spread{.devices = 2, .part = 20, .cut = 0});
  // The same for all heads, but not one of each head.
  const auto masked = [](int64_t h, int64_t stride) { return operand(kMask, {3, h, 2, 2}, {4, stride, 2, 1}); };
  const HeldValue masked_model = step.model(of_heads(4, 2, masked(4, 0)));
  CHECK(step.place(of_heads(2, 1, masked(2, 0))).number == masked_model.number);
  CHECK(step.number(step.place(of_heads(2, 1, masked(2, 1)))).over == Over::kUnknown);
}

TEST_CASE("one head of keys and values that all queries share is read by a place's queries as by all") {
  enum Slots { kQ, kK, kV, kY, kLse };
  Step step({values("q", 4 * 2 * 5, 20), values("k", 2 * 5), values("v", 2 * 5)});
  const auto of_heads = [](int64_t h) {
    const Shape repeated = {10, 0, 5, 1};
    return std::vector<KernelCall>{attention(operand(kY, {3, h, 2, 5}), operand(kLse, {3, h, 2}),
                                             operand(kQ, {3, h, 2, 5}), operand(kK, {3, h, 2, 5}, repeated),
                                             operand(kV, {3, h, 2, 5}, repeated))};
  };
  const HeldValue model = step.model(of_heads(4)), place = step.place(of_heads(2));
  CHECK(place.number == model.number);
  CHECK(place.spread == verify::Spread{.devices = 2, .part = 20, .cut = 0});
  // Heads of their own are not that one head.
  Step own({values("q", 4 * 2 * 5, 20), values("k", 4 * 2 * 5), values("v", 4 * 2 * 5)});
  auto of_own = of_heads(2);
  for (const size_t i : {1, 2}) of_own[0].inputs[i].strides = {40, 10, 5, 1};
  CHECK(own.number(own.place(of_own)).over == Over::kUnknown);
}

TEST_CASE("a place that has one head of several is read as the model lays them out") {
  enum Slots { kQ, kK, kV, kY, kLse };
  // Rows of the sequence, of each the heads: 2 rows, 2 heads, 5 elements.
  Step step({values("q", 20, 5), values("k", 20, 5), values("v", 20, 5)});
  const auto of_heads = [](int64_t h) {
    const Shape shape = {3, h, 2, 5}, strides = {10 * h, 5, 5 * h, 1};
    return std::vector<KernelCall>{attention(operand(kY, shape, strides), operand(kLse, {3, h, 2}),
                                             operand(kQ, shape, strides), operand(kK, shape, strides),
                                             operand(kV, shape, strides))};
  };
  const HeldValue model = step.model(of_heads(2)), place = step.place(of_heads(1));
  CHECK(place.number == model.number);
  CHECK(place.spread.part == 5);  // of a row
}

TEST_CASE("one head of keys that is read for several of queries is a part of a copy for all of them") {
  enum Slots { kQ, kK, kV, kCopyK, kCopyV, kY, kLse };
  // Keys head by head, values row by row, as products leave them.
  Step step({values("q", 4 * 2 * 5, 20), values("k", 2 * 2 * 5, 10), values("v", 2 * 2 * 5, 5)});
  const Shape repeated = {3, 2, 2, 2, 5};
  const auto of_all = [](int slot) { return operand(slot, {3, 4, 2, 5}); };
  const auto of_one = [](int slot, Shape strides) { return operand(slot, {3, 2, 2, 5}, std::move(strides)); };
  const auto at_place = [&](Shape strides) {
    return step.place({attention(of_one(kY, {20, 10, 5, 1}), operand(kLse, {3, 2, 2}), of_one(kQ, {20, 10, 5, 1}),
                                 of_one(kK, {10, 0, 5, 1}), of_one(kV, std::move(strides)))});
  };
  CHECK(step.number(at_place({10, 0, 5, 1})).over == Over::kUnknown);  // the model does nothing like it
  const HeldValue model =
      step.model({call("copy", {operand(kCopyK, repeated)}, {operand(kK, repeated, {20, 10, 0, 5, 1})}),
                  call("copy", {operand(kCopyV, repeated)}, {operand(kV, repeated, {20, 5, 0, 10, 1})}),
                  attention(of_all(kY), operand(kLse, {3, 4, 2}), of_all(kQ), of_all(kCopyK), of_all(kCopyV))});
  CHECK(at_place({10, 0, 5, 1}).number == model.number);
  CHECK(at_place({10, 5, 0, 1}).number != model.number);
}

TEST_CASE("rows of a place's heads are turned by the same tables as those of all heads") {
  enum Slots { kX, kCos, kSin, kMade };
  Step step({values("x", 2 * 3 * 4, 12), matrix("cos", 12), matrix("sin", 12)});
  const auto turned = [](int64_t heads) {
    return std::vector<KernelCall>{
        call("rotary", {operand(kMade, {3, heads, 3, 4})},
             {operand(kX, {3, heads, 3, 4}), operand(kCos, {1, 1, 3, 4}), operand(kSin, {1, 1, 3, 4})})};
  };
  const HeldValue model = step.model(turned(2)), place = step.place(turned(1));
  CHECK(place.number == model.number);
  CHECK(place.spread.part == 12);
}

TEST_CASE("what reads all places' parts of a row is not followed") {
  enum Slots { kX, kWeight, kMade };
  Step step({values("x", 8, 4), matrix("weight", 4)});
  KernelCall softmax = call("softmax", {operand(kMade, {3, 4})}, {operand(kX, {3, 4})}, {{"dim", int64_t{1}}});
  KernelCall norm = call("rms_norm", {operand(kMade, {3, 4}), {}}, {operand(kX, {3, 4}), operand(kWeight, {4})},
                         {{"axes", int64_t{1}}, {"eps", 1e-5}});
  for (const KernelCall& one : {softmax, norm}) CHECK(step.number(step.place({one})).over == Over::kUnknown);
}

TEST_CASE("a place has its part of each segment of a fused weight, and of what is made by it") {
  enum Slots { kX, kW, kY, kG, kGrad };
  // Three segments of 4 rows; the second of what they make, and its gradient beside those of the others.
  Step step({values("x", 5), matrix("w", 60, 10)});
  const auto calls = [](int64_t rows) {
    const int64_t each = rows / 3;
    const Operand second = operand(kY, {3, each}, {rows, 1}, 4 * each), one = operand(kG, {3, each});
    return std::vector<KernelCall>{
        call("linear", {operand(kY, {3, rows})}, {operand(kX, {3, 5}), operand(kW, {rows, 5}), {}}),
        call("relu", {one}, {second}),
        call("cat", {operand(kGrad, {3, rows})}, {one, one, one}, {{"dim", int64_t{1}}})};
  };
  const auto all = [&](size_t count, int64_t rows) {
    auto list = calls(rows);
    list.resize(count, list[0]);
    return list;
  };
  for (const size_t count : {1, 2, 3}) {
    const HeldValue model = step.model(all(count, 12)), place = step.place(all(count, 6));
    CHECK(place.number == model.number);
    CHECK(place.spread == verify::Spread{.devices = 2, .part = 2, .cut = 0});
  }
  // Segments of unlike extents, or beside what is not cut into any.
  auto unlike = calls(6);
  unlike[2].inputs[1] = operand(kY, {3, 2}, {6, 1});
  unlike[2].inputs[2] = operand(kY, {3, 4}, {6, 1});
  unlike[2].outputs[0] = operand(kGrad, {3, 8});
  CHECK(step.number(step.place(unlike)).over == Over::kUnknown);
}

TEST_CASE("a vector added to each row of a product is its bias, where the model's product has it") {
  enum Slots { kX, kW, kB, kY, kSum };
  const KernelCall product = call("linear", {operand(kY, {3, 2})}, {operand(kX, {3, 5}), operand(kW, {2, 5}), {}});
  const auto add = [](Shape strides) {
    return call("add", {operand(kSum, {3, 2})}, {operand(kY, {3, 2}), operand(kB, {3, 2}, std::move(strides))});
  };
  const std::vector<Held> held = {values("x", 5), matrix("w", 10), matrix("b", 6)};
  Step fused(held), apart(held);
  const HeldValue model = fused.model(
      {call("linear", {operand(kY, {3, 2})}, {operand(kX, {3, 5}), operand(kW, {2, 5}), operand(kB, {2})})});
  CHECK(fused.place({product, add({0, 1})}).number == model.number);
  CHECK(fused.place({product, add({0, 0})}).number != model.number);
  const HeldValue sum = apart.model({product, add({0, 1})});
  CHECK(apart.place({product, add({0, 1})}).number == sum.number);
  // A sum that keeps its axes has the elements of one that drops them.
  const auto total = [&](bool keeps) {
    const Shape shape = keeps ? Shape{1, 2} : Shape{2};
    return apart
        .place({product, call("sum", {operand(kSum, shape)}, {operand(kY, {3, 2})},
                              {{"dims", std::vector<int64_t>{0}}, {"keepdim", keeps}})})
        .number;
  };
  CHECK(total(true) == total(false));
}

TEST_CASE("what is added to a product and does not fit it is no bias of it") {
  enum Slots { kX, kW, kB, kY, kSum };
  Step step({values("x", 5), matrix("w", 10), matrix("b", 6)});
  const KernelCall product = call("linear", {operand(kY, {3, 2})}, {operand(kX, {3, 5}), operand(kW, {2, 5}), {}});
  const HeldValue made = step.model({product});
  // A program that has the product from another, and makes no more samples of it than it has.
  Program program;
  program.slots.resize(3);
  program.calls = {call("add", {operand(2, {4, 2})}, {operand(0, {3, 2}), operand(1, {3, 2}, {0, 1})})};
  NumberedProgram run;
  run.program = &program;
  run.index = 0;
  run.samples = run.batch = kSamples;
  run.slots.resize(3);
  run.slots[0].put(0, made);
  run.slots[1].put(0, {24, 0, step.table().find_leaf("b")});
  number_program(run, step.table());
  CHECK(run.made.empty());
  CHECK(step.table()[run.slots[2].all().begin()->second.number].unfit);
}
