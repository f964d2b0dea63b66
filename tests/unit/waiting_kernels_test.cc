// Kernels that wait: whole numbers are real, choices are a balanced router's, floating values are not written.
#include <catch2/catch.hpp>
#include <chrono>
#include <vector>

#include "runtime/kernels/balanced_choice.h"
#include "runtime/kernels/waiting_library.h"
#include "schemas/plan/call_key.h"

namespace piper::kernels {
namespace {

using plan::KernelCall;
using plan::Operand;
using Ints = std::vector<int64_t>;

Operand dense(Ints shape, DType dtype) {
  Ints strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) strides[axis] = stride;
  return {0, 0, dtype, std::move(shape), std::move(strides)};
}
template <class T>
BoundOperand at(std::vector<T>& data, const Operand& operand) {
  return {hal::Address(reinterpret_cast<std::byte*>(data.data())), &operand};
}

// The indices of topk over `scores`, [rows, k] of `places`.
Ints chosen(int64_t rows, int64_t k, int64_t places) {
  const KernelCall call{"topk",
                        false,
                        {dense({rows, k}, DType::kF32), dense({rows, k}, DType::kI64)},
                        {dense({rows, places}, DType::kF32)},
                        {{"k", k}, {"dim", int64_t{-1}}},
                        ""};
  std::vector<float> scores(static_cast<size_t>(rows * places)), values(static_cast<size_t>(rows * k), 7);
  Ints indices(static_cast<size_t>(rows * k), -1);
  const std::vector<BoundOperand> outputs = {at(values, call.outputs[0]), at(indices, call.outputs[1])};
  const auto library = waiting_library({{plan::call_key(call), 1}}, cpu_library());
  const auto kernel = library->bind(call, outputs, {at(scores, call.inputs[0])});
  REQUIRE(kernel.ok());
  hal::Queue queue;
  (*kernel)->run(queue);
  CHECK(values == std::vector<float>(values.size(), 7));
  return indices;
}

}  // namespace

TEST_CASE("a waiting router chooses experts in turn") {
  CHECK(chosen(4, 2, 4) == Ints{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(chosen(2, 1, 8) == Ints{0, 4});  // fewer rows than experts: spread over all of them
}

TEST_CASE("a waiting call on whole numbers is computed, and takes its time") {
  initialise_process();
  enter_worker_thread(1);
  const KernelCall call{"add", false, {dense({3}, DType::kI64)}, {dense({3}, DType::kI64), dense({3}, DType::kI64)},
                        {},    ""};
  Ints a = {1, 2, 3}, b = {10, 20, 30}, sum(3);
  const auto library = waiting_library({{plan::call_key(call), 20000}}, cpu_library());
  const auto kernel = library->bind(call, {at(sum, call.outputs[0])}, {at(a, call.inputs[0]), at(b, call.inputs[1])});
  REQUIRE(kernel.ok());
  hal::Queue queue;
  const auto begin = std::chrono::steady_clock::now();
  (*kernel)->run(queue);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(20));
  CHECK(sum == Ints{11, 22, 33});
}

// What a cast makes of values that nobody computed could be any number, and be used as an index.
TEST_CASE("whole numbers made of floating ones are zeros") {
  const KernelCall call{"cast", false, {dense({3}, DType::kI64)}, {dense({3}, DType::kF32)}, {}, ""};
  std::vector<float> x = {1, 2, 3};
  Ints y(3, -1);
  const auto kernel = balanced_choice(call, {at(y, call.outputs[0])}, {at(x, call.inputs[0])});
  REQUIRE(kernel != nullptr);
  hal::Queue queue;
  kernel->run(queue);
  CHECK(y == Ints{0, 0, 0});
}

TEST_CASE("a call without a time is refused") {
  const KernelCall call{"neg", false, {dense({3}, DType::kF32)}, {dense({3}, DType::kF32)}, {}, ""};
  std::vector<float> x(3), y(3);
  const auto kernel = waiting_library({}, cpu_library())->bind(call, {at(y, call.outputs[0])}, {at(x, call.inputs[0])});
  REQUIRE(!kernel.ok());
  CHECK(kernel.error().code == "R0408");
}

}  // namespace piper::kernels
