// Runs launches of CUDA kernels on the CPU. Blocks run one after the other, a launch forwards and the next one
// backwards, and so do the threads of a block from block to block: what depends on an order that CUDA does not promise
// gives other results. A block's threads run on one another's stack until one of them waits; from then on each has its
// own.
//
// A kernel that CUDA would leave undefined ends the launch with an error: threads of a block at different barriers, or
// some at none; lanes of a warp that do not meet in a shuffle.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>

namespace piper::shim {

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_extent = 1, unsigned y_extent = 1, unsigned z_extent = 1) : x(x_extent), y(y_extent), z(z_extent) {}
  uint64_t count() const { return uint64_t{x} * y * z; }
};

struct Extents {
  const char* kernel;
  dim3 grid, block;
  size_t shared;  // bytes of dynamic shared memory
};
// Runs `thread` once for every thread of every block, at its place in the stream; at once where `stream` is nullptr. A
// failure is kept for take_failure(). Refuses (throws) what no GPU would launch.
void launch(const Extents& extents, cudaStream_t stream, std::function<void()> thread);
// The first failure since the last call, or nothing.
std::string take_failure();
// How many have run.
uint64_t launches();

// ---- for the thread that runs

struct Place {
  uint3 thread, block;
  dim3 block_extent, grid_extent;
};
extern const Place* running;
inline const Place& place() { return *running; }
int lane();
std::byte* dynamic_shared();

void wait_for_block(const std::source_location& where);
// What the lanes of a warp gave.
struct Exchanged {
  uint64_t bits[32];
};
// Valid until the calling thread's next exchange.
const Exchanged& exchange(unsigned mask, uint64_t bits, const std::source_location& where);

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
[[noreturn]] void fail_with(const std::string& text, const std::source_location& where);
template <class A, class B>
[[noreturn]] void fail(const char* text, const A& a, const B& b, const std::source_location& where) {
  std::ostringstream message;
  message << text << a << b;
  fail_with(message.str(), where);
}

}  // namespace piper::shim
