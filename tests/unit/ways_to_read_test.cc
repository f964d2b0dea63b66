// The rule on ranks of one expert each: a part is read in the way that makes a call the model's, and only as what it
// is.
#include <catch2/catch.hpp>

#include <memory>
#include <vector>

#include "schemas/verify/numbers/program.h"
#include "tests/unit/kernel_calls.h"

using namespace piper;
using namespace piper::plan;
using namespace piper::plan::testing;
using namespace piper::verify;

namespace {

// Slots: "x" f32[n, 4], "y" f32[n, 8], "w" f32[2, 4, 8] of two experts or one rank's f32[4, 8], a copy, a product.
enum Slots : int { kX, kY, kW, kCopy, kProduct, kNumSlots };
constexpr int64_t kSamples = 3, kWeightBytes = 2 * 4 * 8 * 4;

class Ranks {
 public:
  NumberedProgram run(std::vector<KernelCall> calls, bool one_device) {
    programs_.push_back(std::make_unique<Program>());
    Program& program = *programs_.back();
    program.slots.resize(kNumSlots);
    program.calls = std::move(calls);
    NumberedProgram run;
    run.program = &program;
    run.samples = kSamples;
    run.slots.resize(kNumSlots);
    run.slots[kX].put(0, {kSamples * 16, 0, table_.leaf("x", Over::kEach, 16)});
    run.slots[kY].put(0, {kSamples * 32, 0, table_.leaf("y", Over::kEach, 32)});
    HeldValue weight{kWeightBytes, 0, table_.leaf("w", Over::kNothing, kWeightBytes)};
    if (!one_device) {
      weight.end /= 2;
      weight.spread.devices = 2;
      weight.spread.part = 32;
      run.known = known_;
    }
    run.slots[kW].put(0, weight);
    number_program(run, table_);
    if (one_device) known_ = table_.size();
    return run;
  }
  static const HeldValue& product(const NumberedProgram& run) { return run.slots[kProduct].all().begin()->second; }
  Over over(const NumberedProgram& run) const { return table_[product(run).number].over; }

 private:
  NumberTable table_;
  int32_t known_ = 0;
  std::vector<std::unique_ptr<Program>> programs_;
};

}  // namespace

TEST_CASE("a part of one expert is the part of a copy that moves the axis of experts") {
  Ranks ranks;
  const auto rank_alone = ranks.run(
      {call("matmul", {operand(kProduct, {kSamples, 8})}, {operand(kX, {kSamples, 4}), operand(kW, {4, 8})})}, false);
  CHECK(ranks.over(rank_alone) == Over::kUnknown);  // the model does nothing like it
  const auto model = ranks.run(
      {call("copy", {operand(kCopy, {4, 2, 8})}, {operand(kW, {4, 2, 8}, {8, 32, 1})}),
       call("matmul", {operand(kProduct, {kSamples, 16})}, {operand(kX, {kSamples, 4}), operand(kCopy, {4, 16})})},
      true);
  const auto rank = ranks.run(
      {call("matmul", {operand(kProduct, {kSamples, 8})}, {operand(kX, {kSamples, 4}), operand(kW, {4, 8})})}, false);
  CHECK(Ranks::product(rank).number == Ranks::product(model).number);
  CHECK(Ranks::product(rank).spread.part == 8);
}

TEST_CASE("a part of one expert is no part of a copy that moves more") {
  Ranks ranks;
  const auto model = ranks.run(
      {call("copy", {operand(kCopy, {8, 2, 4})}, {operand(kW, {8, 2, 4}, {1, 32, 8})}),
       call("matmul", {operand(kProduct, {kSamples, 8})}, {operand(kY, {kSamples, 8}), operand(kCopy, {8, 8})})},
      true);
  const auto rank = ranks.run(
      {call("matmul", {operand(kProduct, {kSamples, 4})}, {operand(kY, {kSamples, 8}), operand(kW, {8, 4})})}, false);
  CHECK(Ranks::product(rank).number != Ranks::product(model).number);
}

TEST_CASE("of several axes of one place the model's is the experts'") {
  const auto silu = [](Shape shape, Shape strides) {
    return call("silu", {operand(kProduct, shape)}, {operand(kW, shape, std::move(strides))});
  };
  // The same program of a rank, for two models.
  for (const bool first : {true, false}) {
    Ranks ranks;
    const auto model =
        ranks.run({first ? silu({2, 1, 4, 8}, {32, 32, 8, 1}) : silu({1, 2, 4, 8}, {64, 32, 8, 1})}, true);
    const auto rank = ranks.run({silu({1, 1, 4, 8}, {32, 32, 8, 1})}, false);
    CHECK(Ranks::product(rank).number == Ranks::product(model).number);
    CHECK(Ranks::product(rank).spread.part == 32);
  }
}
