// Digests of values: what is measured of one, what it is called, in which order those of several ranks are.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "runtime/trace/digest_values.h"
#include "schemas/digest/digest_file.h"
#include "schemas/digest/step_values.h"
#include "schemas/plan/call_origin.h"
#include "tests/unit/cut_plans.h"

namespace piper {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

plan::Operand value(std::vector<int64_t> shape, std::vector<int64_t> strides, DType dtype = DType::kF32) {
  plan::Operand operand;
  operand.slot = 0;
  operand.dtype = dtype;
  operand.shape = std::move(shape);
  operand.strides = std::move(strides);
  return operand;
}

template <class T>
const std::byte* bytes_of(const std::vector<T>& elements) {
  return reinterpret_cast<const std::byte*>(elements.data());
}

TEST_CASE("a statistic is of a value's elements, wherever they lie") {
  const std::vector<float> dense = {1, -2, 3, 4, 5, -6}, strided = {1, 9, 4, 9, -2, 9, 5, 9, 3, 9, -6, 9};
  const digest::Statistic a = trace::digest_values(value({2, 3}, {3, 1}), bytes_of(dense));
  CHECK(a.sum == 5);
  CHECK(a.largest == 6);
  CHECK(a.not_finite == 0);
  CHECK(trace::digest_values(value({2, 3}, {2, 4}), bytes_of(strided)) == a);
  CHECK(trace::extent_bytes(value({2, 3}, {2, 4})) == 11 * 4);
  const std::vector<float> changed = {1, -2, 3, 4, 6, -6};
  CHECK(trace::digest_values(value({2, 3}, {3, 1}), bytes_of(changed)).digest != a.digest);
}

TEST_CASE("values without elements and scalars have a statistic") {
  CHECK(trace::extent_bytes(value({3, 0}, {0, 1})) == 0);
  CHECK(trace::digest_values(value({3, 0}, {0, 1}), nullptr).sum == 0);
  const std::vector<float> one = {2.5};
  CHECK(trace::digest_values(value({}, {}), bytes_of(one)).sum == 2.5);
}

TEST_CASE("elements that are no finite numbers are counted and not summed") {
  const std::vector<float> elements = {1, kNan, -kInfinity, 2};
  const digest::Statistic found = trace::digest_values(value({4}, {1}), bytes_of(elements));
  CHECK(found.not_finite == 2);
  CHECK(found.sum == 3);
  CHECK(found.largest == 2);
  const trace::NotFinite any = trace::find_not_finite(value({4}, {1}), bytes_of(elements));
  CHECK(any.nan);
  CHECK(any.infinite);
  CHECK_FALSE(trace::find_not_finite(value({1}, {1}), bytes_of(elements)).any());
  CHECK_FALSE(trace::find_not_finite(value({2}, {3}), bytes_of(elements)).any());
}

TEST_CASE("halves and whole numbers are measured as what they are") {
  const std::vector<uint16_t> bf16 = {0x3f80, 0xc000, 0x7f80};  // 1, -2, infinity
  const digest::Statistic halves = trace::digest_values(value({3}, {1}, DType::kBF16), bytes_of(bf16));
  CHECK(halves.sum == -1);
  CHECK(halves.largest == 2);
  CHECK(halves.not_finite == 1);
  CHECK(trace::find_not_finite(value({3}, {1}, DType::kBF16), bytes_of(bf16)).infinite);
  const std::vector<int64_t> whole = {7, -9};
  CHECK(trace::digest_values(value({2}, {1}, DType::kI64), bytes_of(whole)).largest == 9);
}

TEST_CASE("a call's origin is put together and taken apart") {
  CHECK(plan::call_origin("tanh_1", "h.0", "model.py:7") == "tanh_1 (h.0) at model.py:7");
  CHECK(plan::call_origin("tanh_1", "", "") == "tanh_1");
  CHECK(plan::call_origin("", "h.0", "") == "h.0");
  CHECK(plan::call_origin("", "", "") == "model");
  const plan::CallOrigin split = plan::split_call_origin("look at me (h) at model.py:7");
  CHECK(split.model_operator == "look at me (h)");
  CHECK(split.line == "model.py:7");
  CHECK(plan::split_call_origin("look at me").model_operator == "look at me");
  const std::string_view strict = "topk (moe, shard at s.yaml:7:5)";
  CHECK(plan::split_call_origin(strict).model_operator == strict);
  CHECK(plan::split_call_origin(std::string(strict) + " at m.py:3").line == "m.py:3");
}

digest::ValueRecord some_record() {
  digest::ValueRecord record;
  record.step = 3;
  record.name = {1,     4,   2, 0, "tanh \"1\"", "model.py:27", "tanh",       1,
                 "PP1", "F", 4, 4, "s.yaml:9:5", true,          DType::kBF16, {4, 10}};
  record.statistic = {0x00ab, 1.5, 0.25, 7};
  return record;
}

TEST_CASE("a file of digests is read as it was written") {
  const digest::ValueRecord record = some_record();
  const std::string text = digest::header_line({"9f", "41", 2, 7, 16}) + "\n" + digest::value_line(record) + "\n";
  const auto file = digest::parse_digests(text, "f");
  REQUIRE(file.ok());
  CHECK(file->header.plan == "9f");
  CHECK(file->header.seed == 7);
  REQUIRE(file->values.size() == 1);
  CHECK(digest::value_line(file->values[0]) == digest::value_line(record));
  CHECK(file->values[0].statistic == record.statistic);
}

TEST_CASE("a file of digests that is damaged is refused with its line") {
  const std::string header = digest::header_line({"9f", "41", 2, 7, 16}) + "\n",
                    line = digest::value_line(some_record());
  const auto refused = [](const std::string& text) {
    const auto file = digest::parse_digests(text, "f");
    REQUIRE_FALSE(file.ok());
    CHECK(file.error().code == "R0812");
    return file.error().message;
  };
  CHECK(refused("").find("empty") != std::string::npos);
  CHECK(refused("{}\n").find("f:1") != std::string::npos);
  for (size_t length = 0; length + 1 < line.size(); length += 7) {
    INFO(length);
    CHECK(refused(header + line.substr(0, length) + "\n").find("f:2") != std::string::npos);
  }
  std::string other = line;
  other.replace(other.find("bf16"), 4, "f128");
  CHECK(refused(header + other + "\n").find("f128") != std::string::npos);
  other = line;
  other.replace(other.find("[4,10]"), 6, "[4,-1]");
  (void)refused(header + other + "\n");
}

// Rank 0 runs chunk a and sends its value to rank 1, which runs chunk b on it, for each of two microbatches.
plan::Bundle two_stages() {
  plan::Bundle bundle;
  bundle.manifest.world_size = 2;
  bundle.manifest.batch = 8;
  bundle.provenance = {{"s.yaml:3:5", "order at s.yaml:3:5"}};
  for (const char* chunk : {"a", "b"}) {
    plan::Program program;
    program.name = std::string(chunk) + ".F.b4";
    program.of = plan::ChunkPass{static_cast<int32_t>(bundle.manifest.chunks.size()), plan::Pass::kForward, 4};
    bundle.manifest.chunks.push_back({chunk, chunk, {}});
    program.slots = {{"x", plan::SlotRole::kInput, 16, true, false}, {"y", plan::SlotRole::kOutput, 16, false, true}};
    plan::KernelCall call;
    call.kernel = "tanh";
    call.outputs = {value({4}, {1})};
    call.outputs[0].slot = 1;
    call.inputs = {value({4}, {1})};
    call.origin = std::string(chunk) + "_node (h) at m.py:1";
    program.calls = {call, call};
    bundle.programs.push_back(program);
  }
  for (int32_t rank = 0; rank < 2; ++rank) {
    plan::RankPlan plan;
    plan.rank = rank;
    std::vector<plan::Buffer> buffers;
    std::vector<plan::ArgumentList> arguments;
    std::vector<plan::Instruction> instructions;
    plan.channels = {{"pp:0>1", 1 - rank, 0}};
    plan.streams = std::vector<plan::Stream>{{"compute"}};
    for (int32_t m = 0; m < 2; ++m) {
      for (const char* what : {"x", "y"})
        buffers.push_back(
            {std::string(what) + std::to_string(m), plan::BufferClass::kArena, 16, 64 * (2 * m), DType::kF32, {4}});
      arguments.push_back(
          {std::string(rank == 0 ? "a" : "b") + ".F m" + std::to_string(m), {{2 * m, 0}, {2 * m + 1, 0}}, m});
      const plan::Instruction run{0, plan::Run{rank, m, {}}, 0};
      if (rank == 0) {
        instructions.push_back(run);
        instructions.push_back({0, plan::Send{{2 * m + 1, 0}, 4, 0, DType::kF32}, 0});
      } else {
        instructions.push_back({0, plan::Recv{{2 * m, 0}, 4, 0, DType::kF32}, 0});
        instructions.push_back(run);
      }
    }
    plan.buffers = std::move(buffers);
    plan.arguments = std::move(arguments);
    plan.instructions = std::move(instructions);
    bundle.ranks.push_back(std::move(plan));
  }
  return bundle;
}

TEST_CASE("values of ranks stand in the order in which data flow") {
  auto values = digest::StepValues::of(two_stages());
  REQUIRE(values.ok());
  for (int32_t m = 0; m < 2; ++m) {
    CHECK((*values)->order(0, 2 * m) < (*values)->order(0, 2 * m + 1));
    CHECK((*values)->order(0, 2 * m + 1) < (*values)->order(1, 2 * m));
    CHECK((*values)->order(1, 2 * m) < (*values)->order(1, 2 * m + 1));
  }
}

// For programs that read no input of the model.
TEST_CASE("ranks that share samples have values of the same samples") {
  auto values = digest::StepValues::of(hand_written::cut({.replicas = 2, .places = 2}));
  REQUIRE(values.ok());
  for (const int32_t rank : {0, 1, 2, 3}) {
    const auto& plan = (*values)->bundle().ranks[static_cast<size_t>(rank)];
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const auto* const run = std::get_if<plan::Run>(&plan.instructions[i].action);
      if (run == nullptr || (*values)->bundle().programs[static_cast<size_t>(run->program)].name != "pair.B") continue;
      const digest::ValueName name = (*values)->name(rank, {static_cast<int32_t>(i), 0, 0});
      CHECK(name.first_sample == rank / 2 * 2);
      CHECK(name.samples == 2);
    }
  }
}

TEST_CASE("values have the names of the model and the samples of their microbatch") {
  auto values = digest::StepValues::of(two_stages());
  REQUIRE(values.ok());
  const digest::ValueName name = (*values)->name(1, {3, 1, 0});
  CHECK(name.value == "b_node (h)");
  CHECK(name.line == "m.py:1");
  CHECK(name.kernel == "tanh");
  CHECK(name.nth == 1);
  CHECK(name.chunk == "b");
  CHECK(name.pass == "F");
  CHECK(name.first_sample == 4);
  CHECK(name.samples == 4);
  CHECK(name.at == "s.yaml:3:5");
  CHECK((*values)->name(1, {2, -1, 0}).kernel == "recv");
  CHECK((*values)->name(1, {2, -1, 0}).value == "x1");
  const std::string text = (*values)->describe(1, {3, 1, 0});
  for (const char* part :
       {"rank 1 instruction 3", "s.yaml:3:5", "call 1: kernel tanh of b_node (h) at m.py:1", "samples 4 to 7"}) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace piper
