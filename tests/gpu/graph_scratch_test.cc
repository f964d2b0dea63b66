// Scratch that LibTorch's operators took while a graph was captured is the graph's as long as the rank is there
// (runtime/kernels/cuda/scratch_pool.h): what other requests free does not reach it.
#include <c10/core/CachingDeviceAllocator.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "runtime/hal/cuda/cuda_graph.h"
#include "runtime/hal/cuda/cuda_stream.h"
#include "tests/shim/cuda_subject.h"
#include "tests/shim/device_side.h"

namespace piper::kernels::testing {
namespace {

constexpr int64_t kExtent = 256, kPooled = kExtent / 2;

plan::Operand operand(std::vector<int64_t> shape, std::vector<int64_t> strides) {
  plan::Operand o;
  o.slot = 0;
  o.dtype = DType::kF32;
  o.shape = std::move(shape);
  o.strides = std::move(strides);
  return o;
}

TEST_CASE("memory that a graph was captured with stays when LibTorch gives back what it caches") {
  // Its input is transposed: a dense copy, and the indices that nobody asks for, are scratch.
  plan::KernelCall call;
  call.kernel = "max_pool2d";
  call.attrs = {{"kernel", std::vector<int64_t>{2, 2}},
                {"stride", std::vector<int64_t>{2, 2}},
                {"padding", std::vector<int64_t>{0, 0}},
                {"dilation", std::vector<int64_t>{1, 1}},
                {"ceil_mode", false}};
  call.inputs = {operand({1, 1, kExtent, kExtent}, {kExtent * kExtent, kExtent * kExtent, 1, kExtent})};
  call.outputs = {operand({1, 1, kPooled, kPooled}, {kPooled * kPooled, kPooled * kPooled, kPooled, 1}), {}};
  std::vector<float> x(kExtent * kExtent), expected(kPooled * kPooled), seen(kPooled * kPooled);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 1009);
  DeviceSide& side = device_side();
  const auto in = side.allocate(x.size() * sizeof(float)), out = side.allocate(seen.size() * sizeof(float));
  side.write(in.get(), x.data(), x.size() * sizeof(float));
  const auto kernel = CudaSubject::instance()
                          .device_library()
                          .bind(call, {{hal::Address(out.get()), &call.outputs[0]}, {{}, &call.outputs[1]}},
                                {{hal::Address(in.get()), &call.inputs[0]}})
                          .value();
  hal::Queue& queue = side.queue();
  kernel->run(queue);
  REQUIRE(side.finish() == "");
  side.read(expected.data(), out.get(), expected.size() * sizeof(float));

  hal::CudaCapture capture(hal::stream_of(queue));
  REQUIRE(capture.begin().ok());
  kernel->run(queue);
  const auto graph = capture.end().value();
  c10::getDeviceAllocator(at::kCUDA)->emptyCache();
  // Whoever gets what was given back writes to it.
  std::vector<void*> others;
  for (int i = 0; i < 64; ++i) {
    void* place = nullptr;
    REQUIRE(cudaMalloc(&place, size_t{2} << 20) == cudaSuccess);
    REQUIRE(cudaMemset(place, 0xff, size_t{2} << 20) == cudaSuccess);
    others.push_back(place);
  }
  side.write(out.get(), seen.data(), seen.size() * sizeof(float));
  REQUIRE(graph->launch(hal::stream_of(queue)).ok());
  REQUIRE(side.finish() == "");
  side.read(seen.data(), out.get(), seen.size() * sizeof(float));
  CHECK(seen == expected);
  for (void* place : others) {
    std::vector<unsigned char> bytes(size_t{2} << 20);
    REQUIRE(cudaMemcpy(bytes.data(), place, bytes.size(), cudaMemcpyDefault) == cudaSuccess);
    CHECK(std::count(bytes.begin(), bytes.end(), 0xff) == static_cast<int64_t>(bytes.size()));
    REQUIRE(cudaFree(place) == cudaSuccess);
  }
}

}  // namespace
}  // namespace piper::kernels::testing
