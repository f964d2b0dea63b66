#include "tests/standin/memory.h"

#include <cuda_runtime_api.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/standin/capture.h"
#include "tests/standin/standin.h"
#include "tests/standin/streams.h"

namespace piper::standin {

namespace {
constexpr size_t kBytes = size_t{8} << 30, kAlignment = 256;
}

DeviceMemory& DeviceMemory::instance() {
  static DeviceMemory* memory = new DeviceMemory;  // streams may outlive main
  return *memory;
}

DeviceMemory::DeviceMemory() {
  const int file = memfd_create("device memory", 0);
  if (file < 0 || ftruncate(file, kBytes) != 0) std::abort();
  const auto map = [&](int protection) {
    void* place = mmap(nullptr, kBytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (place == MAP_FAILED) std::abort();
    return static_cast<std::byte*>(place);
  };
  guarded_ = map(PROT_NONE);
  alias_ = map(PROT_READ | PROT_WRITE);
  close(file);
  free_[0] = kBytes;
}

void* DeviceMemory::allocate(size_t size) {
  const size_t bytes = (size + kAlignment - 1) / kAlignment * kAlignment;
  std::lock_guard lock(mutex_);
  for (auto free = free_.begin(); free != free_.end(); ++free) {
    if (free->second < bytes) continue;
    const size_t offset = free->first, rest = free->second - bytes;
    free_.erase(free);
    if (rest > 0) free_[offset + bytes] = rest;
    taken_[offset] = bytes;
    std::memset(alias_ + offset, 0xcd, bytes);  // what CUDA hands out is not zero
    return guarded_ + offset;
  }
  return nullptr;
}

size_t DeviceMemory::size_at(void* place) {
  std::lock_guard lock(mutex_);
  const auto found = taken_.find(static_cast<size_t>(static_cast<std::byte*>(place) - guarded_));
  return !contains(place) || found == taken_.end() ? 0 : found->second;
}

void DeviceMemory::release(void* place) {
  std::lock_guard lock(mutex_);
  const auto found = taken_.find(static_cast<size_t>(static_cast<std::byte*>(place) - guarded_));
  if (!contains(place) || found == taken_.end()) return;
  auto [offset, bytes] = *found;
  taken_.erase(found);
  const auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    free_.erase(next);
  }
  if (auto before = free_.lower_bound(offset); before != free_.begin()) {
    --before;
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

bool DeviceMemory::contains(const void* place) const {
  const auto* at = static_cast<const std::byte*>(place);
  return at >= guarded_ && at < guarded_ + kBytes;
}

bool DeviceMemory::holds(const void* place, size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(place) - guarded_);
  auto found = taken_.upper_bound(offset);
  if (found == taken_.begin()) return false;
  --found;
  return offset + bytes <= found->first + found->second;
}

PageLocked& PageLocked::instance() {
  static PageLocked* memory = new PageLocked;
  return *memory;
}

void PageLocked::add(void* place, size_t bytes) {
  std::lock_guard lock(mutex_);
  blocks_[static_cast<std::byte*>(place)] = bytes;
}

size_t PageLocked::remove(void* place) {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<std::byte*>(place));
  if (found == blocks_.end()) return 0;
  const size_t bytes = found->second;
  blocks_.erase(found);
  return bytes;
}

bool PageLocked::holds(const void* place, size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto* at = static_cast<const std::byte*>(place);
  auto found = blocks_.upper_bound(const_cast<std::byte*>(at));
  if (found == blocks_.begin()) return false;
  --found;
  return at + bytes <= found->first + found->second;
}

std::byte* touched(const void* place, size_t bytes, bool asynchronous) {
  if (DeviceMemory::instance().contains(place))
    return DeviceMemory::instance().holds(place, bytes) ? DeviceMemory::instance().alias(place) : nullptr;
  if (asynchronous && !PageLocked::instance().holds(place, bytes)) return nullptr;
  return const_cast<std::byte*>(static_cast<const std::byte*>(place));
}

bool all_allocated(const std::vector<Range>& ranges) {
  return std::all_of(ranges.begin(), ranges.end(),
                     [](const Range& range) { return range.bytes == 0 || touched(range.place, range.bytes, true); });
}

std::byte* alias(const void* place, size_t bytes) { return touched(place, bytes, true); }

namespace {

// On the default stream, which orders no other.
void operate_now(const char* name, std::vector<Range> reads, std::vector<Range> writes) {
  RaceDetector& races = RaceDetector::instance();
  races.enqueue(races.default_stream());
  races.operate(races.default_stream(), name, reads, writes);
}

// Memory that streams touch.
std::vector<Range> seen(const void* place, size_t bytes) {
  if (touched(place, bytes, true) == nullptr) return {};
  return {{place, bytes}};
}

}  // namespace

}  // namespace piper::standin

extern "C" {

using namespace piper::standin;

cudaError_t cudaMalloc(void** place, size_t size) {
  if (const cudaError_t error = unsafe_call(); error != cudaSuccess) return error;
  *place = DeviceMemory::instance().allocate(size);
  return *place == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
// Waits for the device, as CUDA's does.
cudaError_t cudaFree(void* place) {
  if (const cudaError_t error = unsafe_call(); error != cudaSuccess) return error;
  Streams::instance().wait_for_all(device_of_thread());
  const size_t bytes = DeviceMemory::instance().size_at(place);
  if (bytes == 0) return cudaErrorInvalidValue;
  RaceDetector::instance().forget({place, bytes});  // before another thread can be given these bytes
  DeviceMemory::instance().release(place);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** place, size_t size, unsigned int) {
  if (const cudaError_t error = unsafe_call(); error != cudaSuccess) return error;
  *place = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  if (*place == nullptr) return cudaErrorMemoryAllocation;
  PageLocked::instance().add(*place, size);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* place) {
  if (const cudaError_t error = unsafe_call(); error != cudaSuccess) return error;
  Streams::instance().wait_for_all(device_of_thread());
  const size_t bytes = PageLocked::instance().remove(place);
  if (bytes == 0) return cudaErrorInvalidValue;
  RaceDetector::instance().forget({place, bytes});
  std::free(place);
  return cudaSuccess;
}
// For pageable memory; in no order with the streams. To the host it is there when this returns; to the device, when the
// default stream has come there.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind) {
  if (const cudaError_t error = unsafe_call(); error != cudaSuccess) return error;
  std::byte* const target = touched(to, bytes, false);
  const std::byte* const source = touched(from, bytes, false);
  if (target == nullptr || source == nullptr) return cudaErrorInvalidValue;
  operate_now("cudaMemcpy", seen(from, bytes), seen(to, bytes));
  std::memcpy(target, source, bytes);
  RaceDetector& races = RaceDetector::instance();
  if (!DeviceMemory::instance().contains(to)) races.host_learns(races.clock(races.default_stream()));
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind, cudaStream_t stream) {
  std::byte* const target = touched(to, bytes, true);
  const std::byte* const source = touched(from, bytes, true);
  if (target == nullptr || source == nullptr) return cudaErrorInvalidValue;
  return enqueue(
      stream, {"copy of " + std::to_string(bytes) + " bytes", {{from, bytes}}, {{to, bytes}}, [target, source, bytes] {
                 std::memcpy(target, source, bytes);
               }});
}
cudaError_t cudaMemset(void* place, int value, size_t bytes) {
  if (const cudaError_t error = unsafe_call(); error != cudaSuccess) return error;
  std::byte* const target = touched(place, bytes, true);
  if (target == nullptr) return cudaErrorInvalidValue;
  operate_now("cudaMemset", {}, {{place, bytes}});
  std::memset(target, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* place, int value, size_t bytes, cudaStream_t stream) {
  std::byte* const target = touched(place, bytes, true);
  if (target == nullptr) return cudaErrorInvalidValue;
  return enqueue(stream, {"fill of " + std::to_string(bytes) + " bytes", {}, {{place, bytes}}, [target, value, bytes] {
                            std::memset(target, value, bytes);
                          }});
}

}  // extern "C"
