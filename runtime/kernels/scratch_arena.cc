#include "runtime/kernels/scratch_arena.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace piper::kernels {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Arena {
  std::byte* base = nullptr;
  size_t capacity = 0, used = 0;
  size_t wanted = 0;                    // the capacity that would have held the whole scope
  std::atomic<int64_t> live_blocks{0};  // inside [base, base + capacity)
  std::atomic<int64_t> live_bytes{0};   // counted blocks, arena and heap
  int64_t scope_peak = 0, high_water = 0, scope_start = 0;
  bool active = false;
  ~Arena() {
    if (live_blocks.load() == 0) std::free(base);
  }
};

// Lies before every block, so that one deleter can see where a block came from.
struct Header {
  Arena* arena;  // whose live bytes it counts in; nullptr: not counted
  size_t bytes;  // with the header
  bool in_arena;
};
static_assert(sizeof(Header) <= kAlignment);

// An Arena outlives its thread only through leaked blocks, so the thread owns a pointer that is
// released when no block can reach it any more.
struct ArenaOwner {
  Arena* arena = new Arena;
  ~ArenaOwner() {
    if (arena->live_bytes.load() == 0) delete arena;
  }
};
Arena& this_arena() {
  thread_local ArenaOwner owner;
  return *owner.arena;
}

std::atomic<int64_t>& allocations() {
  static std::atomic<int64_t> count{0};
  return count;
}

std::byte* heap_block(size_t bytes) {
  void* block = nullptr;
  if (posix_memalign(&block, kAlignment, bytes) != 0) throw std::bad_alloc();
  return static_cast<std::byte*>(block);
}

void release(void* data) {
  if (data == nullptr) return;
  std::byte* block = static_cast<std::byte*>(data) - kAlignment;
  const Header header = *reinterpret_cast<Header*>(block);
  if (header.in_arena) {
    Arena& arena = *header.arena;
    // The usual order is last in, first out; only the owner moves `used`.
    if (&arena == &this_arena() && block + header.bytes == arena.base + arena.used) arena.used -= header.bytes;
    arena.live_blocks.fetch_sub(1);
    arena.live_bytes.fetch_sub(static_cast<int64_t>(header.bytes));
    return;
  }
  if (header.arena != nullptr) header.arena->live_bytes.fetch_sub(static_cast<int64_t>(header.bytes));
  std::free(block);
}

class ScratchAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    const size_t bytes = round_up(n) + kAlignment;
    Arena& arena = this_arena();
    std::byte* block = nullptr;
    Header header{nullptr, bytes, false};
    if (arena.active) {
      allocations().fetch_add(1, std::memory_order_relaxed);
      header.arena = &arena;
      if (arena.used + bytes <= arena.capacity) {
        header.in_arena = true;
        block = arena.base + arena.used;
        arena.used += bytes;
        arena.live_blocks.fetch_add(1);
      }
      const int64_t live = arena.live_bytes.fetch_add(static_cast<int64_t>(bytes)) + static_cast<int64_t>(bytes);
      arena.scope_peak = std::max(arena.scope_peak, live - arena.scope_start);
      arena.wanted += bytes;
    }
    if (block == nullptr) block = heap_block(bytes);
    *reinterpret_cast<Header*>(block) = header;
    void* data = block + kAlignment;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* dest, const void* src, size_t count) const override { std::memcpy(dest, src, count); }
};

}  // namespace

void install_scratch_allocator() {
  // Never destroyed: tensors in static storage may be freed after main.
  static ScratchAllocator* allocator = new ScratchAllocator;
  c10::SetAllocator(c10::DeviceType::CPU, allocator, 1);
}

ScratchScope::ScratchScope() {
  Arena& arena = this_arena();
  arena.active = true;
  arena.scope_peak = 0;
  arena.wanted = arena.used;
  arena.scope_start = arena.live_bytes.load(std::memory_order_relaxed);
}

ScratchScope::~ScratchScope() {
  Arena& arena = this_arena();
  arena.active = false;
  arena.high_water = std::max(arena.high_water, arena.scope_peak);
  if (arena.live_blocks.load(std::memory_order_relaxed) != 0) return;
  arena.used = 0;
  if (arena.wanted <= arena.capacity) return;
  // A scope that frees as it goes needs less than the sum of its blocks: grow to its peak, and double
  // while blocks out of order still miss.
  const size_t target = std::min(
      arena.wanted, std::max<size_t>(static_cast<size_t>(arena.scope_peak), arena.capacity + arena.capacity / 2));
  if (target <= arena.capacity) return;
  std::free(arena.base);
  arena.base = nullptr;
  arena.capacity = 0;
  void* base = nullptr;
  if (posix_memalign(&base, kAlignment, round_up(target)) == 0) {
    arena.base = static_cast<std::byte*>(base);
    arena.capacity = round_up(target);
  }
}

int64_t ScratchScope::peak() const { return this_arena().scope_peak; }
int64_t arena_high_water() { return this_arena().high_water; }
int64_t arena_allocations() { return allocations().load(std::memory_order_relaxed); }

}  // namespace piper::kernels
