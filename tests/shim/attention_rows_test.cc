// Which kernel serves a call of attention on a GPU, for each type, head, mask and length that plans have; and that
// LibTorch's are given what they want: the cases of the CPU's attention (tests/unit/kernels_nn_test.cc) on stand-ins
// for them (library_attention_standin.cc).
#include <map>
#include <mutex>
#include <thread>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/cuda/cuda_library.h"
#include "runtime/kernels/cuda/library_attention.h"
#include "runtime/kernels/library/library_rows.h"
#include "runtime/kernels/library/operator_settings.h"
#include "tests/unit/kernels_testing.h"

namespace piper::kernels::testing {
namespace {

using cuda::AttentionRow;
using cuda::AttentionTraits;

constexpr AttentionTraits kH100{9, 0, AttentionRow::kFlash};

// As CUDA's, on the host's memory.
class HostOperators : public OperatorDevice {
 public:
  at::Device device() const override { return at::kCPU; }
  void run(NamedKernel& kernel, hal::Queue&) const override {
    issue_with_settings(kernel, [&] { kernel.execute_named(); });
  }
};
const HostOperators& host_operators() {
  static const HostOperators operators;
  return operators;
}

// Attention as a GPU of these traits has it, but that our own kernels are the CPU's.
class LibraryAttention : public Library {
 public:
  Result<std::unique_ptr<PreparedKernel>> bind(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                                               const std::vector<BoundOperand>& inputs,
                                               const TrainingNumbers& numbers) const override {
    const AttentionRow row = cuda::is_attention(call) ? attention_row(call, inputs, traits) : AttentionRow::kOwn;
    ++served[row];
    if (row == AttentionRow::kOwn) return cpu_library().bind(call, outputs, inputs, numbers);
    return bind_library_attention(row, call, outputs, inputs, host_operators());
  }
  AttentionTraits traits = kH100;
  mutable std::map<AttentionRow, int> served;
};

class AttentionSubject : public Subject {
 public:
  static AttentionSubject& instance() {
    static AttentionSubject subject;
    return subject;
  }
  const Library& library() override { return library_; }
  void run(PreparedKernel& kernel) override {
    hal::Queue none;
    kernel.run(none);
  }
  bool concerns(const std::string&) override { return true; }
  LibraryAttention& attention() { return library_; }

 private:
  AttentionSubject() { set_up_operators(); }
  LibraryAttention library_;
};
const bool chosen = (choose_subject(AttentionSubject::instance()), true);

// A call as plans have it, of operands that nobody reads.
struct Shape {
  DType type = DType::kBF16;
  int64_t head_dim = 64;
  bool mask = false, causal = false;
  int64_t heads = 4, key_heads = 4, queries = 128, keys = 128;
  const char* attends = "";
};
std::string row_of(const Shape& shape, bool backward, const AttentionTraits& traits = kH100) {
  plan::KernelCall call;
  call.kernel = backward ? "scaled_dot_product_attention_backward" : "scaled_dot_product_attention";
  call.attrs = {{"is_causal", shape.causal}, {"scale", 0.125}};
  if (*shape.attends != '\0') call.attrs.push_back({"attends", std::string(shape.attends)});
  const auto operand = [](DType type, Ints extents) {
    plan::Operand o;
    o.slot = 0;
    o.dtype = type;
    o.shape = std::move(extents);
    int64_t stride = 1;
    o.strides.resize(o.shape.size());
    for (size_t axis = o.shape.size(); axis-- > 0; stride *= o.shape[axis]) o.strides[axis] = stride;
    return o;
  };
  const plan::Operand q = operand(shape.type, {2, shape.heads, shape.queries, shape.head_dim}),
                      k = operand(shape.type, {2, shape.key_heads, shape.keys, shape.head_dim}),
                      lse = operand(DType::kF32, {2, shape.heads, shape.queries}),
                      mask = operand(DType::kBool, {2, 1, shape.queries, shape.keys});
  call.inputs = backward ? std::vector<plan::Operand>{q, q, k, k, q, lse} : std::vector<plan::Operand>{q, k, k};
  if (shape.mask) call.inputs.push_back(mask);
  std::vector<BoundOperand> inputs;
  for (const plan::Operand& o : call.inputs) inputs.push_back({hal::Address(), &o});
  return std::string(name_of(attention_row(call, inputs, traits)));
}
// For the forward and the backward, where they differ both.
std::string rows_of(const Shape& shape, const AttentionTraits& traits = kH100) {
  const std::string forward = row_of(shape, false, traits), backward = row_of(shape, true, traits);
  return forward == backward ? forward : forward + ", " + backward;
}

}  // namespace

TEST_CASE("each type, head and mask of attention has a kernel of a library where there is one") {
  struct Line {
    const char* what;
    Shape shape;
    const char *plain, *masked;  // without and with a mask: padding, documents, relative positions
  };
  const Line lines[] = {
      {"bf16, heads of 64", {DType::kBF16, 64}, "flash", "efficient"},
      {"bf16, heads of 128", {DType::kBF16, 128}, "flash", "efficient"},
      {"bf16, heads of 192", {DType::kBF16, 192}, "flash", "efficient"},
      {"bf16, heads of 256", {DType::kBF16, 256}, "flash", "efficient"},
      {"bf16, heads of 512", {DType::kBF16, 512}, "efficient", "efficient"},
      {"bf16, heads of 36", {DType::kBF16, 36}, "flash", "efficient"},
      {"f16, heads of 64", {DType::kF16, 64}, "flash", "efficient"},
      {"f16, heads of 33", {DType::kF16, 33}, "flash", "efficient"},
      {"f32, heads of 64", {DType::kF32, 64}, "efficient", "efficient"},
      {"f32, heads of 256", {DType::kF32, 256}, "efficient", "efficient"},
      {"f32, heads of 7", {DType::kF32, 7}, "efficient", "efficient"},
      {"f64, heads of 64", {DType::kF64, 64}, "own", "own"},
      {"bf16, two heads of queries share keys", {DType::kBF16, 64, false, false, 4, 2}, "flash", "efficient"},
      {"f32, two heads of queries share keys", {DType::kF32, 64, false, false, 4, 2}, "efficient", "efficient"},
      {"bf16, causal", {DType::kBF16, 64, false, true}, "flash", "efficient"},
      {"bf16, causal, more keys than queries",
       {DType::kBF16, 64, false, true, 4, 4, 64, 128},
       "efficient",
       "efficient"},
      {"bf16, more keys than queries", {DType::kBF16, 64, false, false, 4, 4, 64, 128}, "flash", "efficient"},
      {"f32, causal", {DType::kF32, 64, false, true}, "efficient", "efficient"},
      {"no query", {DType::kBF16, 64, false, false, 4, 4, 0, 128}, "own", "own"},
  };
  for (const Line& line : lines) {
    INFO(line.what);
    Shape shape = line.shape;
    CHECK(rows_of(shape) == line.plain);
    shape.mask = true;
    CHECK(rows_of(shape) == line.masked);
  }
}

TEST_CASE("each type of a predicate of attention has a kernel") {
  struct Line {
    const char *attends, *half, *f32;
  };
  const Line lines[] = {
      {"q - k >= 0 & -q + k + 7 >= 0", "flash", "efficient"},
      {"-q + k + 7 >= 0", "flash", "efficient"},
      {"q - k - 1 >= 0", "efficient", "efficient"},  // the first query attends to nothing
      {"floor(q / 8) - floor(k / 8) = 0", "efficient", "efficient"},
      {"q - k >= 0 & !(q - 3 = 0)", "efficient", "efficient"},
  };
  for (const Line& line : lines) {
    INFO(line.attends);
    CHECK(rows_of({DType::kBF16, 64, false, false, 4, 4, 128, 128, line.attends}) == line.half);
    CHECK(rows_of({DType::kF32, 64, false, false, 4, 4, 128, 128, line.attends}) == line.f32);
    CHECK(rows_of({DType::kF64, 64, false, false, 4, 4, 128, 128, line.attends}) == "own");
    CHECK(rows_of({DType::kBF16, 64, false, false, 4, 4, 128, 256, line.attends}) == "efficient");
  }
}

TEST_CASE("GPUs differ in what they have") {
  const Shape wide{DType::kBF16, 256};
  CHECK(rows_of({}, {8, 0}) == "flash");
  CHECK(rows_of(wide, {8, 0}) == "flash");
  CHECK(rows_of(wide, {8, 9}) == "flash, efficient");
  CHECK(rows_of(wide, {10, 0}) == "flash");
  CHECK(rows_of(wide, {12, 0}) == "flash, efficient");
  CHECK(rows_of({}, {7, 5}) == "own");
}

TEST_CASE("a row that is asked for is tried first") {
  const auto first = [](AttentionRow row) { return AttentionTraits{9, 0, row}; };
  CHECK(rows_of({}, first(AttentionRow::kCudnn)) == "cudnn, flash");
  CHECK(rows_of({DType::kBF16, 256}, first(AttentionRow::kCudnn)) == "flash");
  CHECK(rows_of({DType::kBF16, 64, true}, first(AttentionRow::kCudnn)) == "efficient");
  CHECK(rows_of({}, first(AttentionRow::kEfficient)) == "efficient");
  CHECK(rows_of({}, first(AttentionRow::kOwn)) == "own");
  unsetenv("PIPER_GPU_ATTENTION");
  CHECK(cuda::first_attention_row().value() == AttentionRow::kFlash);
  setenv("PIPER_GPU_ATTENTION", "cudnn", 1);
  CHECK(cuda::first_attention_row().value() == AttentionRow::kCudnn);
  setenv("PIPER_GPU_ATTENTION", "fast", 1);
  CHECK(cuda::first_attention_row().error().code == "R0106");
  unsetenv("PIPER_GPU_ATTENTION");
}

// After the cases of the CPU's attention, which kernels_nn_test.cc has.
TEST_CASE("the cases were served by the libraries' kernels") {
  LibraryAttention& attention = AttentionSubject::instance().attention();
  const at::Tensor q = at::randn({1, 2, 5, 8}), lse = at::empty({1, 2, 5}), y = at::empty(q.sizes());
  const std::vector<Attr> attrs{{"is_causal", true}, {"scale", 0.5}};
  for (const AttentionRow row : {AttentionRow::kCudnn, AttentionRow::kFlash, AttentionRow::kEfficient}) {
    INFO(name_of(row));
    attention.traits.first = row;
    attention.served.clear();
    const at::Tensor half = q.to(at::kBFloat16), out = at::empty_like(half);
    REQUIRE(run_kernel("scaled_dot_product_attention", {out, lse}, {half, half, half}, attrs).ok());
    CHECK(attention.served[row] == 1);
    REQUIRE(run_kernel("scaled_dot_product_attention", {y, lse}, {q, q, q}, attrs).ok());
    CHECK(close(out, y, 0x1p-6));
    CHECK(attention.served[AttentionRow::kOwn] == 0);
  }
  attention.traits = kH100;
}

TEST_CASE("a kernel that wants the same bits runs while no other thread issues one") {
  set_up_operators();
  plan::KernelCall call;
  call.kernel = "fill";
  call.outputs.emplace_back();
  call.outputs[0].slot = 0;
  call.outputs[0].shape = call.outputs[0].strides = {1};
  float element = 0;
  const std::vector<BoundOperand> outputs = {{hal::Address(reinterpret_cast<std::byte*>(&element)), &call.outputs[0]}};
  const Call bound(call, *plan::find_kernel("fill"), outputs, {}, {}, host_operators());
  std::atomic<int> wrong{0};
  const auto alone = make_same_bits_kernel(bound, [&] {
    const at::Context& context = at::globalContext();
    wrong += !context.deterministicAlgorithms() || context.deterministicAlgorithmsWarnOnly();
    std::this_thread::yield();
  });
  const auto beside = make_kernel(bound, [&] {
    wrong += at::globalContext().deterministicAlgorithms();
    std::this_thread::yield();
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      hal::Queue none;
      for (int time = 0; time < 200; ++time) (i % 2 == 0 ? *alone : *beside).run(none);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("memory that LibTorch has reserved is the kernels', beside their own") {
  class Reserving : public HostOperators {
    int64_t reserved_bytes() const override { return 12345; }
  };
  const Reserving operators;
  std::vector<std::vector<std::byte>> regions;
  cuda::DeviceMemory memory;
  memory.allocate = [&](int64_t bytes) -> Result<hal::Address> {
    return hal::Address(regions.emplace_back(static_cast<size_t>(bytes)).data());
  };
  const auto library = cuda::CudaLibrary::make(std::move(memory), std::make_unique<LibraryRows>(operators)).value();
  CHECK(regions.size() == 1);
  CHECK(library->memory_bytes() == 12345 + static_cast<int64_t>(regions[0].size()));
}

TEST_CASE("memory that operators ask for is not filled where the same bits are wanted") {
  set_up_operators();
  at::globalContext().setDeterministicAlgorithms(true, false);
  // For a size that the allocator gives again with what was in it.
  at::full({1 << 12}, 7.0f);
  const bool filled = at::empty({1 << 12}, at::kFloat).isnan().all().item<bool>();
  at::globalContext().setDeterministicAlgorithms(false, false);
  CHECK(!filled);
}

}  // namespace piper::kernels::testing
