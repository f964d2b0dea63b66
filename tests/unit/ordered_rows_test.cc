// The rule on rows in the order of their experts: however many segments they are in, and whichever rank has them,
// they have the numbers of one device. Programs are written by hand, for a piece of three samples of four rows each.
#include <catch2/catch.hpp>

#include <memory>
#include <string>

#include "schemas/verify/numbers/exchange.h"
#include "schemas/verify/numbers/program.h"
#include "schemas/verify/numbers/sums.h"
#include "tests/unit/kernel_calls.h"

using namespace piper;
using namespace piper::plan;
using namespace piper::plan::testing;
using namespace piper::verify;

namespace {

constexpr int64_t kSamples = 3, kRows = 12, kWidth = 4, kExperts = 4, kDevices = 2;

// Slots of every program, by what they hold.
enum Slots : int {
  kX,          // f32[12, 4], of each sample four rows
  kIds,        // i64[12]
  kOtherIds,   // i64[12]
  kWeight,     // f32[4, 4, 4], or a rank's part of it
  kGradient,   // of the weight
  kOrder,      // i64[places]
  kPositions,  // i64[12]
  kCounts,     // i64[segments, experts of a segment]
  kOtherOrder,
  kOtherPositions,
  kOtherCounts,
  kInOrder,  // f32[places, 4]
  kMade,     // f32[places, 4]
  kOut,      // f32[12, 4]
  kTotals,   // i64[segments]
  kNumSlots
};

// One device's calls have one segment and all experts, those of a rank two segments and half of them.
struct Layout {
  int64_t segments = 1, capacity = kRows;
  int64_t parts = 1;  // places of a cut, each of which has as many rows of each sample
  int64_t here() const { return kRows / parts; }
  int64_t experts() const { return kExperts / segments; }
  int64_t places() const {
    return capacity >= here() ? segments * here() : segments * std::min(here(), capacity * experts());
  }
  Operand rows(int slot) const { return operand(slot, {places(), kWidth}); }
  Operand order(int slot = kOrder) const { return integers(slot, {places()}); }
  Operand positions(int slot = kPositions) const { return integers(slot, {here()}); }
  Operand counts(int slot = kCounts) const { return integers(slot, {segments, experts()}); }
  KernelCall ordered(int ids = kIds, int first = kOrder) const {
    return call("expert_order", {order(first), positions(first + 1), counts(first + 2), {}}, {integers(ids, {here()})},
                {{"experts", kExperts}, {"segments", segments}, {"capacity", capacity}, {"strict", false}});
  }
  KernelCall enter() const {
    return call("take_rows", {rows(kInOrder)}, {operand(kX, {here(), kWidth}), order(), positions()},
                {{"repeat", int64_t{1}}});
  }
  KernelCall leave(int from, int first = kOrder) const {
    return call("take_rows", {operand(kOut, {here(), kWidth})}, {rows(from), positions(first + 1), order(first)},
                {{"repeat", int64_t{1}}});
  }
  KernelCall product(int counts_slot = kCounts) const {
    return call("grouped_matmul", {rows(kMade)},
                {rows(kInOrder), operand(kWeight, {experts(), kWidth, kWidth}), counts(counts_slot)},
                {{"transposed", false}});
  }
  KernelCall gradient(int counts_slot = kCounts) const {
    return call("grouped_matmul_weight", {operand(kGradient, {experts(), kWidth, kWidth})},
                {rows(kInOrder), rows(kInOrder), counts(counts_slot)}, {}, true);
  }
};
constexpr int64_t kWeightBytes = kExperts * kWidth * kWidth * 4;

class Piece {
 public:
  // Runs calls on the piece. `before`: what slots hold beside the leaves.
  NumberedProgram run(std::vector<KernelCall> calls, const Layout& layout,
                      const std::vector<std::pair<int, HeldValues>>& before = {}) {
    programs_.push_back(std::make_unique<Program>());
    Program& program = *programs_.back();
    program.slots.resize(kNumSlots);
    program.slots[kGradient].role = SlotRole::kGradient;
    program.slots[kGradient].bytes = kWeightBytes / layout.segments;
    if (layout.parts > 1) program.slots[kGradient].spread = plan::Spread::kShare, program.slots[kGradient].cut = 0;
    program.calls = std::move(calls);
    NumberedProgram run;
    run.program = &program;
    run.samples = kSamples;
    run.by_pieces = true;
    run.slots.resize(kNumSlots);
    const auto put = [&](int slot, const char* name, int64_t elements, int64_t bytes) {  // of a row
      HeldValue held{layout.here() * elements * bytes, 0,
                     table.leaf(name, Over::kEach, kRows / kSamples * elements * bytes)};
      if (layout.parts > 1)
        held.spread = {.devices = layout.parts, .part = kRows / kSamples / layout.parts * elements, .cut = 0};
      run.slots[static_cast<size_t>(slot)].put(0, held);
    };
    put(kX, "x", kWidth, 4);
    put(kIds, "ids", 1, 8);
    put(kOtherIds, "other ids", 1, 8);
    HeldValue weight{kWeightBytes / layout.segments, 0, table.leaf("weight", Over::kNothing, kWeightBytes)};
    if (layout.segments > 1) weight.spread = {layout.segments, layout.experts() * kWidth * kWidth};
    run.slots[kWeight].put(0, weight);
    for (const auto& [slot, held] : before) run.slots[static_cast<size_t>(slot)] = held;
    number_program(run, table);
    return run;
  }
  int32_t left(const NumberedProgram& run, int slot) const {
    const auto& values = run.slots[static_cast<size_t>(slot)].all();
    return values.size() == 1 ? values.begin()->second.number : -1;
  }
  const Number& number(const NumberedProgram& run, int slot) const { return table[left(run, slot)]; }

  // What rank j has of what the ranks of its group left in `slot`
  HeldValues exchanged(const NumberedProgram& run, int slot, const std::vector<CountedRows>& counted = {},
                       int32_t across = -1) {
    Exchange exchange;
    exchange.across = across;
    exchange.sent = "sent";
    exchange.devices = kDevices;
    exchange.dtype = slot == kCounts || slot == kOtherCounts ? DType::kI64 : DType::kF32;
    exchange.counted = !counted.empty();
    exchange.row = exchange.counted ? kWidth : 0;
    const HeldValues& sent = run.slots[static_cast<size_t>(slot)];
    return verify::exchanged(sent, exchange, counted, sent.all().begin()->second.end, kSamples, 0, table);
  }
  Terms terms(const NumberedProgram& run) const {
    Terms terms;
    for (const Contribution& contribution : run.contributions) append_terms(contribution, 0, table, terms);
    return terms;
  }

  NumberTable table;

 private:
  std::vector<std::unique_ptr<Program>> programs_;
};

KernelCall silu(const Layout& layout, int to, int from) { return call("silu", {layout.rows(to)}, {layout.rows(from)}); }

// Whether a value is not covered, and if so, whether the call itself is at fault.
enum class Answer { kNumber, kOpen, kWrong };
Answer answer(const Number& number) {
  return number.over != Over::kUnknown ? Answer::kNumber : number.unfit ? Answer::kWrong : Answer::kOpen;
}

}  // namespace

TEST_CASE("rows in segments have the numbers of rows in one segment") {
  for (const int64_t capacity : {kRows, int64_t{1}, int64_t{2}}) {
    Piece piece;
    const auto through = [&](int64_t segments) {
      const Layout layout{segments, capacity};
      return piece.run({layout.ordered(), layout.enter(), silu(layout, kMade, kInOrder), layout.leave(kMade)}, layout);
    };
    const NumberedProgram one = through(1), two = through(2);
    CHECK(answer(piece.number(one, kOut)) == Answer::kNumber);
    for (const int slot : {kOrder, kPositions, kCounts, kInOrder, kMade, kOut})
      CHECK(piece.left(one, slot) == piece.left(two, slot));
  }
}

TEST_CASE("another capacity and other ids are other orders") {
  Piece piece;
  const auto out = [&](const Layout& layout, int ids) {
    return piece.left(piece.run({layout.ordered(ids), layout.enter(), layout.leave(kInOrder)}, layout), kOut);
  };
  const int32_t two = out({2, 2}, kIds);
  CHECK(two != out({2, 1}, kIds));
  CHECK(two != out({1, 1}, kIds));
  CHECK(two != out({2, kRows}, kIds));
  CHECK(two != out({2, 2}, kOtherIds));
}

TEST_CASE("rows that the positions of another order take back are refused") {
  Piece piece;
  const Layout layout{kDevices};
  const NumberedProgram run = piece.run(
      {layout.ordered(), layout.ordered(kOtherIds, kOtherOrder), layout.enter(), layout.leave(kInOrder, kOtherOrder)},
      layout);
  CHECK(answer(piece.number(run, kOut)) == Answer::kWrong);
}

TEST_CASE("products by groups are those of one device, for the rows that all ranks sent") {
  for (const int64_t capacity : {kRows, int64_t{1}}) {
    Piece piece;
    const Layout one{1, capacity}, two{kDevices, capacity};
    const NumberedProgram whole =
        piece.run({one.ordered(), one.enter(), one.product(), one.gradient(), one.leave(kMade)}, one);
    const NumberedProgram sender = piece.run({two.ordered(), two.enter()}, two);
    const NumberedProgram owner =
        piece.run({two.product(), two.gradient()}, two,
                  {{kInOrder, piece.exchanged(sender, kInOrder)}, {kCounts, piece.exchanged(sender, kCounts)}});
    CHECK(piece.left(owner, kMade) == piece.left(whole, kMade));
    CHECK(same_terms(piece.terms(owner), piece.terms(whole), piece.table));
    const NumberedProgram again = piece.run({two.leave(kMade)}, two,
                                            {{kMade, piece.exchanged(owner, kMade)},
                                             {kOrder, sender.slots[kOrder]},
                                             {kPositions, sender.slots[kPositions]}});
    CHECK(answer(piece.number(again, kOut)) == Answer::kNumber);
    CHECK(piece.left(again, kOut) == piece.left(whole, kOut));
  }
}

TEST_CASE("rows of a place's part in an order of their own are rows of one device") {
  Piece piece;
  const Layout one, two{kDevices, kRows / 2, 2};
  const NumberedProgram whole =
      piece.run({one.ordered(), one.enter(), one.product(), one.gradient(), one.leave(kMade)}, one);
  const NumberedProgram sender = piece.run({two.ordered(), two.enter()}, two);
  for (const int slot : {kOrder, kPositions, kCounts, kInOrder})
    CHECK(piece.left(sender, slot) == piece.left(whole, slot));
  const auto across = [&](const NumberedProgram& from, int slot) { return piece.exchanged(from, slot, {}, 0); };
  const NumberedProgram owner = piece.run({two.product(), two.gradient()}, two,
                                          {{kInOrder, across(sender, kInOrder)}, {kCounts, across(sender, kCounts)}});
  CHECK(piece.left(owner, kMade) == piece.left(whole, kMade));
  CHECK(same_terms(piece.terms(owner), piece.terms(whole), piece.table));
  const auto back = [&](const HeldValues& made) {
    return piece.run({two.leave(kMade)}, two,
                     {{kMade, made}, {kOrder, sender.slots[kOrder]}, {kPositions, sender.slots[kPositions]}});
  };
  const NumberedProgram again = back(across(owner, kMade));
  CHECK(piece.left(again, kOut) == piece.left(whole, kOut));
  const HeldValue& out = again.slots[kOut].all().begin()->second;
  CHECK(out.spread == verify::Spread{.devices = 2, .part = 2 * kWidth, .cut = 0});
  // Among ranks of one place, of rows that others sent, and of another part than that of the order.
  CHECK(answer(piece.table[piece.exchanged(sender, kInOrder).all().begin()->second.number]) == Answer::kOpen);
  CHECK(answer(piece.number(back(owner.slots[kMade]), kOut)) == Answer::kWrong);
  HeldValue halves{two.here() * kWidth * 4, 0, piece.table.leaf("x", Over::kEach, 4 * kWidth * 4)};
  halves.spread = {.devices = 2, .part = kWidth, .cut = 0};
  HeldValues x;
  x.put(0, halves);
  CHECK(answer(piece.number(piece.run({two.ordered(), two.enter()}, two, {{kX, x}}), kInOrder)) == Answer::kOpen);
  // What a place knows of its own rows is not what one device knows of all.
  const KernelCall read = call("neg", {two.counts(kTotals)}, {two.counts()});
  CHECK(answer(piece.number(piece.run({two.ordered(), read}, two), kTotals)) == Answer::kOpen);
}

TEST_CASE("products by the counts of another router, or of the rows that a rank sends, are refused") {
  Piece piece;
  const Layout layout{kDevices};
  const NumberedProgram sender =
      piece.run({layout.ordered(), layout.ordered(kOtherIds, kOtherOrder), layout.enter()}, layout);
  const auto made = [&](HeldValues counts) {
    return answer(piece.number(piece.run({layout.product()}, layout,
                                         {{kInOrder, piece.exchanged(sender, kInOrder)}, {kCounts, std::move(counts)}}),
                               kMade));
  };
  CHECK(made(piece.exchanged(sender, kCounts)) == Answer::kNumber);
  CHECK(made(piece.exchanged(sender, kOtherCounts)) == Answer::kWrong);
  CHECK(made(sender.slots[kCounts]) == Answer::kWrong);
}

TEST_CASE("an exchange by counts moves all rows where it counts those of their order") {
  Piece piece;
  const Layout layout{kDevices};
  const auto totals = [&](int counts) {
    return call("sum", {integers(kTotals, {kDevices})}, {layout.counts(counts)},
                {{"dims", std::vector<int64_t>{1}}, {"keepdim", false}});
  };
  const NumberedProgram sender =
      piece.run({layout.ordered(), layout.ordered(kOtherIds, kOtherOrder), layout.enter(), totals(kCounts)}, layout);
  const auto counted_by = [&](int counts) {
    const NumberedProgram sends =
        piece.run({layout.ordered(), layout.ordered(kOtherIds, kOtherOrder), totals(counts)}, layout);
    const NumberedProgram gets = piece.run({totals(kCounts)}, layout, {{kCounts, piece.exchanged(sender, counts)}});
    return std::pair(sends.slots[kTotals], gets.slots[kTotals]);
  };
  const auto moved = [&](HeldValues sent, HeldValues received) {
    const HeldValues held = piece.exchanged(sender, kInOrder, {{std::move(sent), std::move(received)}});
    return answer(piece.table[held.all().begin()->second.number]);
  };
  const auto [sent, received] = counted_by(kCounts);
  const auto [other_sent, other_received] = counted_by(kOtherCounts);
  CHECK(moved(sent, received) == Answer::kNumber);
  CHECK(moved(other_sent, received) == Answer::kWrong);
  CHECK(moved(sent, other_received) == Answer::kWrong);
  CHECK(moved(received, sent) == Answer::kWrong);
  CHECK(moved(sender.slots[kCounts], received) == Answer::kOpen);  // no totals
}

TEST_CASE("what looks at several rows in an order, or at their places, is open") {
  Piece piece;
  const Layout layout{kDevices};
  const auto made = [&](KernelCall read) {
    const NumberedProgram run = piece.run({layout.ordered(), layout.enter(), std::move(read)}, layout);
    return answer(piece.number(run, kMade));
  };
  const std::vector<int64_t> rows{0};
  CHECK(made(call("sum", {operand(kMade, {kWidth})}, {layout.rows(kInOrder)}, {{"dims", rows}, {"keepdim", false}})) ==
        Answer::kOpen);
  CHECK(made(call("softmax", {layout.rows(kMade)}, {layout.rows(kInOrder)}, {{"dim", int64_t{0}}})) == Answer::kOpen);
  CHECK(made(call("silu", {operand(kMade, {kRows, kWidth})}, {operand(kInOrder, {kRows, kWidth})})) == Answer::kOpen);
  CHECK(made(call("neg", {integers(kMade, {kRows})}, {layout.positions()})) == Answer::kOpen);
  CHECK(made(call("add", {layout.rows(kMade)}, {layout.rows(kInOrder), operand(kX, {kRows, kWidth})})) ==
        Answer::kOpen);
  // Along a row it may.
  CHECK(made(call("softmax", {layout.rows(kMade)}, {layout.rows(kInOrder)}, {{"dim", int64_t{1}}})) == Answer::kNumber);
}

TEST_CASE("orders of more experts than can be counted, and exchanges of no elements, are open") {
  Piece piece;
  const Layout layout{kDevices};
  constexpr int64_t kSegments = 4, kMany = int64_t{1} << 62, kPlaces = kSegments * kRows;
  const NumberedProgram run =
      piece.run({call("expert_order", {integers(kOrder, {kPlaces}), integers(kPositions, {kRows}), {}, {}},
                      {integers(kIds, {kRows})},
                      {{"experts", kMany}, {"segments", kSegments}, {"capacity", int64_t{4}}, {"strict", false}}),
                 call("take_rows", {operand(kInOrder, {kPlaces, kWidth})},
                      {operand(kX, {kRows, kWidth}), integers(kOrder, {kPlaces}), integers(kPositions, {kRows})},
                      {{"repeat", int64_t{1}}})},
                layout);
  CHECK(answer(piece.number(run, kInOrder)) == Answer::kOpen);
  HeldValues half;  // of an element of the type in which it travels
  half.put(0, {kSamples * 4, 0, piece.table.leaf("half", Over::kEach, 4)});
  const HeldValues held = piece.exchanged(piece.run({}, layout, {{kCounts, half}}), kCounts);
  CHECK(answer(piece.table[held.all().begin()->second.number]) == Answer::kOpen);
}
