// The shim itself: what CUDA promises of blocks, barriers and warps, and mistakes in kernels that it must find.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

namespace piper::shim {
namespace {

using Catch::Matchers::Contains;

template <class... Arguments>
std::string run(void (*kernel)(Arguments...), dim3 grid, dim3 block, Arguments... arguments) {
  PIPER_LAUNCH(kernel, grid, block, 0, nullptr, arguments...);
  return take_failure();
}

__global__ void number_threads(int* out, int* order, int* next) {
  const unsigned block = blockIdx.x + gridDim.x * blockIdx.y;
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned index = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[index] = static_cast<int>(1000 * block + thread);
  order[(*next)++] = static_cast<int>(index);
}

// Each thread takes what the other end of the block left.
template <bool kFirst, bool kSecond>
__global__ void reverse_twice(int* values) {
  __shared__ int cells[100];
  const unsigned i = threadIdx.x, count = blockDim.x;
  for (int round = 0; round < 3; ++round) {
    cells[i] = values[blockIdx.x * count + i];
    if (kFirst) __syncthreads();
    values[blockIdx.x * count + i] = cells[count - 1 - i] + round;
    if (kSecond) __syncthreads();
  }
}
std::vector<int> reversed_three_times(int blocks, int count) {
  std::vector<int> values(static_cast<size_t>(blocks * count));
  std::iota(values.begin(), values.end(), 0);
  for (int block = 0; block < blocks; ++block)
    std::reverse(values.begin() + block * count, values.begin() + (block + 1) * count);
  for (int& value : values) value += 3;
  return values;
}

// Sums over the block, one after the other in one place: warps must not run ahead of those that still read.
template <bool kSafe>
__global__ void sums_of_block(int* out) {
  __shared__ int of_warps[4];
  for (int round = 0; round < 3; ++round) {
    int sum = round;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (kSafe) __syncthreads();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    out[3 * threadIdx.x + static_cast<unsigned>(round)] = of_warps[0] + of_warps[1] + of_warps[2] + of_warps[3];
  }
}

__global__ void shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int sum = lane;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  int* mine = out + 4 * threadIdx.x;
  mine[0] = sum;
  mine[1] = __shfl_down_sync(0xffffffffu, lane, 3);
  mine[2] = __shfl_sync(0xffffffffu, lane * lane, 5);
  mine[3] = __popc(__ballot_sync(0xffffffffu, lane % 3 == 0));
  __syncwarp();
  if (lane < 16) mine[0] += 1000 * __shfl_xor_sync(0x0000ffffu, lane, 1);
}

__global__ void some_at_a_barrier() {
  if (threadIdx.x < 7) __syncthreads();
}
__global__ void two_barriers() {
  if (threadIdx.x < 7) __syncthreads();
  else __syncthreads();
}
__global__ void missing_lane() {
  if (threadIdx.x != 3) (void)__shfl_xor_sync(0xffffffffu, 1, 1);
}
__global__ void foreign_lane() {
  if (threadIdx.x < 16) (void)__shfl_sync(0x0000ffffu, 1, 20);
}
__global__ void fill_dynamic(int* out) {
  PIPER_DYNAMIC_SHARED(int, cells);
  const bool unset = cells[threadIdx.x] == -1;
  cells[threadIdx.x] = static_cast<int>(blockIdx.x);
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = unset ? cells[(threadIdx.x + 1) % blockDim.x] : -7;
}
__global__ void claim(unsigned* winner, unsigned* count) {
  if (atomicCAS(winner, 0u, threadIdx.x + 1) == 0u) atomicAdd(count, 1u);
}
__global__ void append(std::vector<int>* to, int value) { to->push_back(value); }

}  // namespace

TEST_CASE("every thread of every block runs once, in changing orders") {
  std::vector<int> orders[2];
  for (std::vector<int>& order : orders) {
    std::vector<int> out(2 * 3 * 24, -1);
    order.resize(out.size());
    int next = 0;
    REQUIRE(run(number_threads, dim3(2, 3), dim3(4, 3, 2), out.data(), order.data(), &next).empty());
    for (int block = 0; block < 6; ++block)
      for (int thread = 0; thread < 24; ++thread)
        CHECK(out[static_cast<size_t>(24 * block + thread)] == 1000 * block + thread);
  }
  CHECK(orders[0] != orders[1]);
  for (std::vector<int>& order : orders) std::sort(order.begin(), order.end());
  CHECK(orders[0] == orders[1]);
}

TEST_CASE("a barrier lets nobody through before all are there, and without it results are wrong") {
  const auto result = [](auto kernel) {
    std::vector<int> values(300);
    std::iota(values.begin(), values.end(), 0);
    CHECK(run(kernel, dim3(3), dim3(100), values.data()).empty());
    return values;
  };
  CHECK(result(reverse_twice<true, true>) == reversed_three_times(3, 100));
  CHECK(result(reverse_twice<false, true>) != reversed_three_times(3, 100));
  CHECK(result(reverse_twice<true, false>) != reversed_three_times(3, 100));
}

TEST_CASE("a warp that runs ahead of the others finds what is written too early") {
  const auto result = [](auto kernel) {
    std::vector<int> out(3 * 128);
    CHECK(run(kernel, dim3(1), dim3(128), out.data()).empty());
    return out;
  };
  std::vector<int> expected;
  for (int thread = 0; thread < 128; ++thread) expected.insert(expected.end(), {0, 128, 256});
  CHECK(result(sums_of_block<true>) == expected);
  CHECK(result(sums_of_block<false>) != expected);
}

TEST_CASE("shuffles and ballots exchange what the lanes of a warp gave") {
  std::vector<int> out(4 * 64);
  REQUIRE(run(shuffles, dim3(1), dim3(64), out.data()).empty());
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32;
    const int* mine = out.data() + 4 * thread;
    CHECK(mine[0] == 31 * 16 + (lane < 16 ? 1000 * (lane ^ 1) : 0));
    CHECK(mine[1] == (lane + 3 < 32 ? lane + 3 : lane));
    CHECK(mine[2] == 25);
    CHECK(mine[3] == 11);
  }
}

TEST_CASE("threads that do not meet are an error, and the next launch runs") {
  CHECK_THAT(run(some_at_a_barrier, dim3(1), dim3(32)), Contains("do not meet") && Contains("has ended"));
  CHECK_THAT(run(two_barriers, dim3(1), dim3(32)), Contains("do not meet") && Contains("shim_test.cc"));
  CHECK_THAT(run(missing_lane, dim3(1), dim3(32)), Contains("do not meet") && Contains("exchange"));
  CHECK_THAT(run(foreign_lane, dim3(1), dim3(32)), Contains("lane 20, which takes no part"));
  std::vector<int> out(4 * 32);
  CHECK(run(shuffles, dim3(1), dim3(32), out.data()).empty());
  CHECK_THROWS_WITH(run(some_at_a_barrier, dim3(0), dim3(32)), Contains("invalid configuration"));
  CHECK_THROWS_WITH(run(some_at_a_barrier, dim3(1), dim3(1025)), Contains("invalid configuration"));
}

TEST_CASE("dynamic shared memory is a block's, and holds nothing at first") {
  std::vector<int> out(64, -1);
  PIPER_LAUNCH(fill_dynamic, 2, 32, 32 * sizeof(int), nullptr, out.data());
  REQUIRE(take_failure().empty());
  for (int i = 0; i < 64; ++i) CHECK(out[static_cast<size_t>(i)] == i / 32);
}

TEST_CASE("one thread claims what all ask for") {
  unsigned winner = 0, count = 0;
  REQUIRE(run(claim, dim3(4), dim3(64), &winner, &count).empty());
  CHECK(winner != 0);
  CHECK(count == 1);
}

TEST_CASE("a launch has its place in its stream") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess);
  std::vector<int> order;
  std::vector<int>* to = &order;
  for (int i = 0; i < 5; ++i) PIPER_LAUNCH(append, 1, 1, 0, stream, to, i);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4});
  CHECK(take_failure().empty());
  (void)cudaStreamDestroy(stream);
}

}  // namespace piper::shim
