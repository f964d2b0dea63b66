// Signatures of kernels.def: what fits them and what does not.
#include <catch2/catch.hpp>

#include "schemas/plan/kernels.h"
#include "schemas/plan/signature.h"

using namespace piper;
using namespace piper::plan;

namespace {

Operand operand(std::vector<int64_t> shape, DType dtype = DType::kF32) {
  Operand made;
  made.slot = 0;
  made.dtype = dtype;
  made.strides.assign(shape.size(), 1);
  made.shape = std::move(shape);
  return made;
}
std::string wrong(const char* kernel, std::vector<Operand> outputs, std::vector<Operand> inputs,
                  bool accumulate = false) {
  KernelCall call;
  call.kernel = kernel;
  call.accumulate = accumulate;
  call.outputs = std::move(outputs);
  call.inputs = std::move(inputs);
  return misfit(*find_kernel(kernel), call);
}
const Operand kAbsent;

}  // namespace

TEST_CASE("a call's kernel is known by its name; another name is kept for who refuses it") {
  for (const KernelInfo& kernel : kKernels) {
    const CalledKernel called(kernel.name);
    REQUIRE(called.is_known());
    CHECK(called.name() == kernel.name);
    CHECK(called == called.id());
    CHECK(find_kernel(called) == &kernel);
  }
  const CalledKernel none("no_such_kernel");
  CHECK(!none.is_known());
  CHECK(none.name() == "no_such_kernel");
  CHECK(none != CalledKernel("another"));
  CHECK(find_kernel(none) == nullptr);
}

TEST_CASE("every signature says as many operands as the table counts") {
  for (const KernelInfo& kernel : kKernels) {
    const Signature& signature = signature_of(kernel);
    INFO(kernel.name);
    CHECK(static_cast<int>(signature.outputs.size()) == kernel.outputs);
    if (kernel.max_inputs != kMany) CHECK(static_cast<int>(signature.inputs.size()) == kernel.max_inputs);
    CHECK(signature.reads_outputs == kernel.reads_outputs);
    CHECK(kernel.min_inputs <= kernel.max_inputs);
    CHECK(kernel.in_place < static_cast<int>(signature.inputs.size()));
  }
}

TEST_CASE("operands fit by number, type and shape") {
  const Operand x = operand({2, 3}), w = operand({5, 3}), b = operand({5}), y = operand({2, 5});
  CHECK(wrong("linear", {y}, {x, w, b}).empty());
  CHECK(wrong("linear", {y}, {x, w}).empty());
  CHECK(wrong("linear", {y}, {x, w, kAbsent}).empty());
  CHECK(wrong("linear", {operand({7, 2, 5})}, {operand({7, 2, 3}), w}).empty());
  CHECK(wrong("linear", {y}, {x}) == "input weight is absent");
  CHECK(wrong("linear", {y}, {x, w, b, b}) == "4 inputs where 3 are expected");
  CHECK(wrong("linear", {kAbsent}, {x, w}) == "output y is absent");
  CHECK(wrong("linear", {y}, {x, operand({5, 4})}) ==
        "input weight has shape [5,4]: [4] where other operands have [3]");
  CHECK(wrong("linear", {operand({5})}, {x, w}) == "output y has shape [5]: [] where other operands have [2]");
  CHECK(wrong("linear", {y}, {x, operand({5})}) == "input weight has shape [5], with 1 axes, not 2");
  CHECK(wrong("linear", {y}, {x, operand({5, 3}, DType::kBF16)}) ==
        "input weight has element type bf16, other operands have f32");
  CHECK(wrong("linear", {y}, {operand({2, 3}, DType::kI32), w}) == "input x has element type i32, no floating one");
  CHECK(wrong("linear", {y}, {x, w}, true) == "it cannot accumulate");
}

TEST_CASE("operands broadcast, repeat, or may all be absent but one") {
  CHECK(wrong("add", {operand({4, 2, 3})}, {operand({2, 3}), operand({4, 1, 3})}).empty());
  CHECK(wrong("add", {operand({4, 2, 3})}, {operand({2, 3}), operand({2})}) == "b does not broadcast: [2] to [4,2,3]");
  CHECK(wrong("where", {operand({2})}, {operand({2}, DType::kI32), operand({2}), operand({2})}) ==
        "input condition has element type i32, not bool");
  CHECK(wrong("cat", {operand({6})}, {operand({2}), operand({2}), operand({2})}).empty());
  CHECK(wrong("cat", {operand({6})}, {}) == "input x is absent");
  const Operand rows = operand({2, 3}), row = operand({2});
  CHECK(wrong("layer_norm_backward_weight", {kAbsent, operand({3})}, {rows, rows, row, row}).empty());
  CHECK(wrong("layer_norm_backward_weight", {kAbsent, kAbsent}, {rows, rows, row, row}) == "it has no output");
}
