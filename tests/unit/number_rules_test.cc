// Rules on numbers: which ways of computing a value count as the same, and which do not. Programs are written by hand,
// for pieces of any size.
#include <catch2/catch.hpp>

#include <memory>

#include "schemas/verify/numbers/program.h"
#include "schemas/verify/numbers/sums.h"
#include "tests/unit/kernel_calls.h"

using namespace piper;
using namespace piper::plan;
using namespace piper::plan::testing;
using namespace piper::verify;

namespace {

// Slots: 0 "x" and 1 "y" f32[n, 4] with samples, 2 "w" f32[4, 4], 3 "grad w" f32[4, 4], 4 to 7 values f32[n, 4].
constexpr int kX = 0, kY = 1, kW = 2, kGradient = 3, kValue = 4;

constexpr int64_t kBatch = 8;  // samples of the step

class Numbering {
 public:
  // Runs calls on a piece of n samples.
  NumberedProgram run(int64_t n, std::vector<KernelCall> calls, bool by_pieces = false) {
    programs_.push_back(std::make_unique<Program>());
    Program& program = *programs_.back();
    program.slots.resize(8);
    for (Slot& slot : program.slots) slot.bytes = 16 * n;
    program.slots[kW].bytes = program.slots[kGradient].bytes = 64;
    program.slots[kGradient].role = SlotRole::kGradient;
    program.calls = std::move(calls);
    NumberedProgram run;
    run.program = &program;
    run.samples = n;
    run.batch = kBatch;
    run.by_pieces = by_pieces;
    run.known = known;
    run.slots.resize(8);
    run.slots[kX].put(0, {16 * n, 0, table.leaf("x", Over::kEach, 16)});
    run.slots[kY].put(0, {16 * n, 0, table.leaf("y", Over::kEach, 16)});
    run.slots[kW].put(0, {64, 0, table.leaf("w", Over::kNothing, 64)});
    number_program(run, table);
    return run;
  }
  // The number of the last value that a call made in a slot.
  int32_t made(int64_t n, std::vector<KernelCall> calls) { return run(n, std::move(calls)).made.back(); }
  int32_t of_pieces(int64_t n, std::vector<KernelCall> calls) { return run(n, std::move(calls), true).made.back(); }
  Terms terms(int64_t n, std::vector<KernelCall> calls) {
    Terms terms;
    for (const Contribution& contribution : run(n, std::move(calls)).contributions)
      append_terms(contribution, 0, table, terms);
    return terms;
  }
  bool same(Terms a, Terms b) const { return same_terms(std::move(a), std::move(b), table); }
  Over over(int32_t number) const { return table[number].over; }

  NumberTable table;
  int32_t known = 0;  // numbers below are the model's

 private:
  std::vector<std::unique_ptr<Program>> programs_;
};

Operand value(int64_t n, int slot = kValue) { return operand(slot, {n, 4}); }
KernelCall gradient(int64_t n, int of, int by) {
  return call("linear_backward_weight", {operand(kGradient, {4, 4})}, {value(n, of), value(n, by)}, true);
}

}  // namespace

TEST_CASE("a value has one number for pieces of all sizes") {
  Numbering numbers;
  const auto product = [&](int64_t n) {
    return numbers.made(n, {call("linear", {value(n)}, {value(n, kX), operand(kW, {4, 4}), {}})});
  };
  CHECK(product(2) == product(7));
  CHECK(product(1) == product(4));  // four samples of four elements
  CHECK(product(4) == product(Reference::kSamples));
  CHECK(numbers.over(product(2)) == Over::kEach);
}

TEST_CASE("operands, their order, their strides and attributes tell values apart") {
  Numbering numbers;
  const int32_t plain = numbers.made(4, {call("linear", {value(4)}, {value(4, kX), operand(kW, {4, 4}), {}})});
  CHECK(numbers.made(4, {call("linear", {value(4)}, {value(4, kX), operand(kW, {4, 4}, {1, 4}), {}})}) != plain);
  CHECK(numbers.made(4, {call("linear", {value(4)}, {value(4, kY), operand(kW, {4, 4}), {}})}) != plain);
  const auto difference = [&](int a, int b) {
    return numbers.made(4, {call("sub", {value(4)}, {value(4, a), value(4, b)})});
  };
  CHECK(difference(kX, kY) != difference(kY, kX));
  const auto gelu = [&](const std::string& how) {
    KernelCall made = call("gelu", {value(4)}, {value(4, kX)});
    made.attrs = {{"approximate", how}};
    return numbers.made(4, {made});
  };
  CHECK(gelu("none") != gelu("tanh"));
  CHECK(gelu("none") == gelu("none"));
}

TEST_CASE("what reads across samples has no number") {
  Numbering numbers;
  const auto reads = [&](Operand of) {
    return numbers.run(4, {call("relu", {value(4)}, {std::move(of)})}).made.empty();
  };
  CHECK_FALSE(reads(value(4, kX)));
  const auto of = [&](Shape strides) {
    return numbers.made(4, {call("relu", {value(4)}, {operand(kX, {4, 4}, std::move(strides))})});
  };
  CHECK(of({1, 4}) != of({4, 1}));                // samples by the other axis
  CHECK(reads(operand(kX, {4, 4}, {0, 1})));      // the first sample for all
  CHECK(reads(operand(kX, {4, 4}, {4, 0}, 16)));  // from the second sample on
  KernelCall softmax = call("softmax", {value(4)}, {value(4, kX)});
  softmax.attrs = {{"dim", int64_t{0}}};
  CHECK(numbers.run(4, {softmax}).made.empty());
}

TEST_CASE("a copy is what was copied") {
  Numbering numbers;
  for (const int64_t n : {int64_t{3}, int64_t{4}, Reference::kSamples}) {
    const int32_t direct = numbers.made(n, {call("relu", {operand(kValue, {n, 2})}, {operand(kX, {n, 2}, {4, 1}, 8)})});
    const auto half = operand(kValue + 1, {n, 2});
    CHECK(numbers.made(n, {call("copy", {half}, {operand(kX, {n, 2}, {4, 1}, 8)}),
                           call("relu", {operand(kValue, {n, 2})}, {half})}) == direct);
    CHECK(numbers.made(n, {call("copy", {half}, {operand(kX, {n, 2}, {4, 1}, 0)}),
                           call("relu", {operand(kValue, {n, 2})}, {half})}) != direct);
  }
}

TEST_CASE("sums are multisets, however they are added up") {
  Numbering numbers;
  const int64_t n = 3;
  const auto apart = numbers.terms(n, {gradient(n, kX, kY), gradient(n, kY, kX)});
  REQUIRE(apart.size() == 2);
  CHECK(numbers.same(apart, numbers.terms(5, {gradient(5, kY, kX), gradient(5, kX, kY)})));
  const auto product = [&](int slot, int of, int by) {
    return call("linear_backward_weight", {operand(slot, {4, 4})}, {value(4, of), value(4, by)});
  };
  // Added first, then accumulated; values of 4 samples have the 16 elements of a gradient here.
  const auto matrix = [](int slot) { return operand(slot, {4, 4}); };
  CHECK(numbers.same(
      apart, numbers.terms(4, {product(4, kX, kY), product(5, kY, kX), call("add", {matrix(6)}, {matrix(4), matrix(5)}),
                               call("add_into", {matrix(kGradient)}, {matrix(6)}, true)})));
  CHECK_FALSE(numbers.same(apart, numbers.terms(n, {gradient(n, kX, kY)})));
  CHECK_FALSE(numbers.same(apart, numbers.terms(n, {gradient(n, kX, kY), gradient(n, kY, kX), gradient(n, kX, kY)})));
  // Through a transposing view.
  CHECK(numbers.same(
      numbers.terms(4, {product(4, kX, kY), call("add_into", {matrix(kGradient)}, {operand(4, {4, 4}, {1, 4})}, true)}),
      numbers.terms(4, {call("linear_backward_weight", {operand(kGradient, {4, 4}, {1, 4})},
                             {value(4, kX), value(4, kY)}, true)})));
}

TEST_CASE("additions of whole values have one number, however they are put together") {
  Numbering numbers;
  const auto sum = [&](int64_t n, int a, int b, int c, bool right) {
    const int first = right ? b : a, second = right ? c : b, other = right ? a : c;
    return numbers.made(
        n, {call("relu", {value(n, 7)}, {value(n, kX)}), call("add", {value(n)}, {value(n, first), value(n, second)}),
            call("add", {value(n, 5)}, {value(n, other), value(n)})});
  };
  const int32_t plain = sum(4, kX, kY, 7, false);
  CHECK(sum(4, kX, kY, 7, true) == plain);
  CHECK(sum(3, 7, kY, kX, true) == plain);
  CHECK(sum(4, kX, kX, 7, false) != plain);
  CHECK(sum(4, kX, kY, kY, false) != plain);
  CHECK(sum(4, kX, kX, kY, false) != sum(4, kX, kY, kY, false));
  const auto row = [&](bool broadcast) {  // one row of w for all samples, or x
    return numbers.made(
        4, {call("add", {value(4)}, {value(4, kX), broadcast ? operand(kW, {4, 4}, {0, 1}) : value(4, kY)})});
  };
  CHECK(row(true) != row(false));
}

TEST_CASE("gradients of slices that are joined are the sum of those that the model adds up") {
  Numbering numbers;
  const auto columns = [](int64_t n, int slot, int64_t from, int64_t to) {
    Operand of = operand(slot, {n, to - from}, {4, 1});
    of.offset = 4 * from;
    return of;
  };
  const auto spread = [&](int64_t n, int slot, Operand of, int64_t from, int64_t to) {
    KernelCall made = call("slice_backward", {value(n, slot)}, {std::move(of)});
    made.attrs = {{"shape", Shape{n, 4}}, {"dim", int64_t{1}}, {"start", from}, {"end", to}, {"step", int64_t{1}}};
    return made;
  };
  const auto added = [&](int64_t n) {
    return numbers.made(n, {spread(n, 4, columns(n, kX, 0, 1), 0, 1), spread(n, 5, columns(n, kX, 1, 4), 1, 4),
                            call("add", {value(n, 6)}, {value(n, 5), value(n, kY)}),
                            call("add", {value(n, 7)}, {value(n, 6), value(n, 4)})});
  };
  const auto joined = [&](int64_t n, std::vector<Operand> pieces) {
    KernelCall made = call("cat", {value(n)}, std::move(pieces));
    made.attrs = {{"dim", int64_t{1}}};
    return numbers.made(n, {made, call("add", {value(n, 5)}, {value(n, kY), value(n)})});
  };
  const auto right = [&](int64_t n) { return joined(n, {columns(n, kX, 0, 1), columns(n, kX, 1, 4)}); };
  CHECK(right(4) != added(4));  // of values that the model does not make nothing is followed
  Numbering fresh;
  std::swap(numbers.table, fresh.table);
  const int32_t sum = added(4);
  numbers.known = numbers.table.size();
  CHECK(right(4) == sum);
  CHECK(right(3) == sum);
  CHECK(joined(4, {columns(4, kX, 1, 4), columns(4, kX, 0, 1)}) != sum);
  CHECK(joined(4, {columns(4, kX, 3, 4), columns(4, kX, 1, 4)}) != sum);
  CHECK(joined(4, {columns(4, kX, 0, 1), columns(4, kY, 1, 4)}) != sum);
  CHECK(joined(4, {columns(4, kX, 0, 1), columns(4, kX, 1, 3), columns(4, kX, 3, 4)}) != sum);
}

TEST_CASE("what stands apart for each sample is no part of a sum over them") {
  Numbering numbers;
  const auto terms = numbers.terms(4, {call("add_into", {operand(kGradient, {4, 4})}, {value(4, kX)}, true)});
  REQUIRE(terms.size() == 1);
  CHECK(numbers.table[terms[0].view.number].unfit);
}

TEST_CASE("a linear function of a sum over samples is the sum of that function") {
  Numbering numbers;
  const auto matrix = [](int slot, Shape strides = {4, 1}) { return operand(slot, {4, 4}, std::move(strides)); };
  const auto product = [&](int slot, int of, int by) {
    return call("linear_backward_weight", {matrix(slot)}, {value(4, of), value(4, by)});
  };
  const auto derivative = [&](int slot, const Operand& of, const Operand& by, bool accumulate = false) {
    return call("tanh_backward", {matrix(slot)}, {of, by}, accumulate);
  };
  const KernelCall a = product(4, kX, kY), b = product(5, kY, kX);
  const KernelCall sum = call("add", {matrix(6)}, {matrix(4), matrix(5)});
  const auto terms = [&](std::vector<KernelCall> calls) { return numbers.terms(4, std::move(calls)); };
  const Terms apart = terms(
      {a, b, derivative(kGradient, matrix(4), matrix(kW), true), derivative(kGradient, matrix(5), matrix(kW), true)});
  REQUIRE(apart.size() == 2);
  CHECK(numbers.same(apart, terms({a, b, sum, derivative(kGradient, matrix(6), matrix(kW), true)})));
  CHECK_FALSE(numbers.same(apart, terms({a, b, sum, derivative(kGradient, matrix(6), matrix(kW, {1, 4}), true)})));
  CHECK_FALSE(numbers.same(apart, terms({a, b, derivative(kGradient, matrix(4), matrix(kW), true),
                                         derivative(kGradient, matrix(5), matrix(kW, {1, 4}), true)})));
  CHECK_FALSE(numbers.same(apart, terms({a, sum, derivative(kGradient, matrix(4), matrix(kW), true)})));
  // One function after the other, and views of sums and of what is added up.
  const auto again = [&](int from) { return derivative(kGradient, matrix(from, {1, 4}), matrix(kW), true); };
  CHECK(numbers.same(terms({a, b, sum, derivative(7, matrix(6, {1, 4}), matrix(kW)), again(7)}),
                     terms({a, b, derivative(6, matrix(4, {1, 4}), matrix(kW)), again(6),
                            derivative(7, matrix(5, {1, 4}), matrix(kW)), again(7)})));
  const KernelCall one_turned = call("add", {matrix(6)}, {matrix(4), matrix(5, {1, 4})});
  CHECK(numbers.same(terms({a, b, one_turned, derivative(kGradient, matrix(6), matrix(kW), true)}),
                     terms({a, b, derivative(kGradient, matrix(4), matrix(kW), true),
                            derivative(kGradient, matrix(5, {1, 4}), matrix(kW), true)})));
  // No linear function.
  const auto root = terms({a, b, sum, call("sqrt", {matrix(kGradient)}, {matrix(6)}, true)});
  REQUIRE(root.size() == 1);
  CHECK(numbers.over(root[0].view.number) == Over::kUnknown);
}

TEST_CASE("what is the same for all samples is one value, whether a program repeats it or not") {
  Numbering numbers;
  const auto sum = [&](int64_t n, bool repeated, int64_t second) {
    const Shape shape = {repeated ? n : 1, 4};
    return numbers.made(
        n, {call("mul", {operand(kValue, shape)}, {operand(kW, shape, {0, 1}), operand(kW, shape, {0, 1}, second)}),
            call("add", {value(n, 5)}, {value(n, kX), operand(kValue, {n, 4}, {repeated ? 4 : 0, 1})})});
  };
  const int32_t plain = sum(3, true, 16);
  CHECK(numbers.over(plain) == Over::kEach);
  CHECK(sum(5, true, 16) == plain);
  CHECK(sum(4, false, 16) == plain);
  CHECK(sum(Reference::kSamples, true, 16) == plain);
  CHECK(sum(3, true, 32) != plain);
}

TEST_CASE("samples may stand between the axes of a value") {
  Numbering numbers;
  const auto back = [&](int64_t n, Shape strides) {
    return numbers.made(n,
                        {call("relu", {operand(kValue, {2, n, 2})}, {operand(kX, {2, n, 2}, {2, 4, 1})}),
                         call("sigmoid", {operand(5, {n, 2, 2})}, {operand(kValue, {n, 2, 2}, std::move(strides))})});
  };
  const auto in_turn = [&](int64_t n) { return back(n, {2, 2 * n, 1}); };
  CHECK(numbers.over(in_turn(3)) == Over::kEach);
  CHECK(in_turn(5) == in_turn(3));
  CHECK(in_turn(Reference::kSamples) == in_turn(3));
  CHECK(back(3, {2, 1, 6}) != in_turn(3));
  CHECK(back(3, {2, 0, 1}) != in_turn(3));
  const auto made = [&](const Operand& of) {
    return numbers
        .run(3, {call("relu", {operand(kValue, {2, 3, 2})}, {operand(kX, {2, 3, 2}, {2, 4, 1})}),
                 call("sigmoid", {operand(5, of.shape)}, {of})})
        .made.size();
  };
  CHECK(made(operand(kValue, {3, 2, 2}, {2, 6, 1})) == 2);
  CHECK(made(operand(kValue, {3, 2, 2}, {4, 2, 1})) == 1);  // as if samples were outermost
  CHECK(made(operand(kValue, {3, 2}, {2, 1}, 8)) == 1);     // from the second sample on
  CHECK(made(operand(kValue, {3, 2}, {2, 1}, 24)) == 2);    // the second half of each
}

namespace {
KernelCall fill(int slot, double value) {
  KernelCall made = call("fill", {operand(slot, {})}, {});
  made.attrs = {{"value", value}};
  return made;
}
}  // namespace

TEST_CASE("constants of one element are their values") {
  Numbering numbers;
  const auto scaled = [&](std::vector<KernelCall> factor, const std::string& by) {
    factor.push_back(call(by, {value(4)}, {value(4, kX), operand(5, {4, 4}, {0, 0})}));
    return numbers.made(4, std::move(factor));
  };
  const int32_t quarter = scaled({fill(5, 0.25)}, "mul");
  CHECK(scaled({fill(6, 1), fill(7, 4), call("div", {operand(5, {})}, {operand(6, {}), operand(7, {})})}, "mul") ==
        quarter);
  CHECK(scaled({fill(6, 0.75), fill(7, 0.5), call("sub", {operand(5, {})}, {operand(6, {}), operand(7, {})})}, "mul") ==
        quarter);
  CHECK(scaled({fill(5, 4)}, "div") == quarter);  // up to rounding
  CHECK(scaled({fill(5, 4)}, "mul") != quarter);
  CHECK(scaled({fill(5, 0.25)}, "div") != quarter);
  CHECK(scaled({fill(5, 0.25000003)}, "mul") != quarter);
  CHECK(scaled({fill(5, 0)}, "div") != scaled({fill(5, 0)}, "mul"));
  // A constant of no known value is no other one.
  const auto other = [&](const std::string& by) {
    return numbers.made(4, {call(by, {value(4)}, {value(4, kX), operand(kW, {4, 4}, {0, 0})})});
  };
  CHECK(other("div") != other("mul"));
}

TEST_CASE("a mean over samples is their sum by how many there are") {
  Numbering numbers;
  const auto reduced = [&](const std::string& kernel, int64_t n) {
    KernelCall made = call(kernel, {operand(kValue, {})}, {value(n, kX)});
    made.attrs = {{"dims", std::vector<int64_t>{0, 1}}, {"keepdim", false}};
    return made;
  };
  const auto divided = [&](int64_t n, double by) {
    return numbers.made(
        n, {reduced("sum", n), fill(5, by), call("div", {operand(6, {})}, {operand(kValue, {}), operand(5, {})})});
  };
  CHECK(numbers.made(4, {reduced("mean", 4)}) == divided(4, 16));
  CHECK(numbers.made(4, {reduced("mean", 4)}) != divided(4, 12));
  CHECK(numbers.made(3, {reduced("mean", 3)}) != divided(4, 16));  // of another piece it is another mean
  // Of the whole step it is a sum, by the number of elements that the step has.
  const int64_t n = Reference::kSamples;
  const auto scaled = [&](double by) {
    return numbers.made(
        n, {reduced("sum", n), fill(5, by), call("mul", {operand(6, {})}, {operand(kValue, {}), operand(5, {})})});
  };
  CHECK(numbers.over(numbers.made(n, {reduced("mean", n)})) == Over::kSum);
  CHECK(numbers.made(n, {reduced("mean", n)}) == scaled(1.0 / (4 * kBatch)));
  CHECK(numbers.made(n, {reduced("mean", n)}) != scaled(0.25));
}

// Only pieces of the very size are alike, and only where a reference is for pieces.
TEST_CASE("what reads the samples of a piece together is a value of that piece") {
  Numbering numbers;
  const auto made = [&](int64_t n, const std::string& kernel, double eps) {
    KernelCall norm = call(kernel, {value(n)}, {value(n, kX)});
    norm.attrs = {{"eps", eps}};
    return numbers.of_pieces(n, {norm, call("relu", {value(n, 5)}, {value(n)})});
  };
  const int32_t plain = made(4, "batch_norm", 0.1);
  CHECK(numbers.over(plain) == Over::kPiece);
  CHECK(made(4, "batch_norm", 0.1) == plain);
  CHECK(made(2, "batch_norm", 0.1) != plain);
  CHECK(made(4, "batch_norm", 0.2) != plain);
  CHECK(made(4, "square_sum", 0.1) != plain);  // of another kernel without a row
  CHECK(numbers.over(numbers.of_pieces(4, {call("relu", {value(4)}, {value(4, kX)})})) == Over::kEach);
  CHECK(numbers.run(4, {call("batch_norm", {value(4)}, {value(4, kX)})}).made.empty());
}

TEST_CASE("a value without bytes stands in nobody's way") {
  HeldValues values;
  int64_t at = -1;
  values.put(64, {64, 0, 1});
  REQUIRE(values.find(64, 64, at) != nullptr);
  values.put(64, {128, 0, 2});
  REQUIRE(values.find(64, 128, at) != nullptr);
  CHECK(values.find(64, 128, at)->number == 2);
  values.put(64, {64, 0, 3});
  values.put(80, {80, 0, 4});
  REQUIRE(values.find(96, 128, at) != nullptr);
  CHECK(values.find(96, 128, at)->number == 2);
}
