// Where LibTorch's temporary tensors live while a kernel runs: one bump arena per thread underneath
// LibTorch's CPU allocator. Outside a ScratchScope the allocator is the ordinary heap. Gives the bounded,
// planned peak of library scratch and the counters the tests and the memory report read.
//
// An arena starts empty, takes what does not fit from the heap and grows when the scope ends, so the
// second step runs without the heap. Blocks may be freed on another thread; an arena that still has live
// blocks is never reused or released.
#pragma once

#include <cstdint>

namespace piper::kernels {

// Makes LibTorch's CPU allocator the arena-aware one. Once per process.
void install_scratch_allocator();

// Marks the running kernel on this thread. Does not nest.
class ScratchScope {
 public:
  ScratchScope();
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;
  // Most bytes in use at one time since the scope began.
  int64_t peak() const;
};

// Most bytes this thread's kernels had in use at one time.
int64_t arena_high_water();
// Allocations made inside scopes, by all threads.
int64_t arena_allocations();

}  // namespace piper::kernels
