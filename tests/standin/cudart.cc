// CUDA's runtime on the CPU, for tests of code that drives GPUs: streams are queues with a thread each, events are real
// (a wait for one that was never recorded returns at once, as CUDA's does), copies and fills happen on the stream.
//
// Device memory is mapped twice: device addresses lie in a mapping that nobody may touch, so that a host access is a
// fault; what happens on a stream goes through an alias (standin_alias). Asynchronous copies take page-locked host
// memory alone: CUDA would take any, and wait where one does not want to.
#include <cuda_runtime_api.h>

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/standin/standin.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Completion {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Clock::time_point when;

  void complete() {
    {
      std::lock_guard lock(mutex);
      done = true;
      when = Clock::now();
    }
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return done; });
  }
  bool is_done() {
    std::lock_guard lock(mutex);
    return done;
  }
};

class DeviceMemory {
 public:
  static DeviceMemory& instance() {
    static DeviceMemory* memory = new DeviceMemory;  // streams may outlive main
    return *memory;
  }
  void* allocate(size_t size) {
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
  bool release(void* place) {
    std::lock_guard lock(mutex_);
    const auto found = taken_.find(static_cast<size_t>(static_cast<std::byte*>(place) - guarded_));
    if (!contains(place) || found == taken_.end()) return false;
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
        return true;
      }
    }
    free_[offset] = bytes;
    return true;
  }
  bool contains(const void* place) const {
    const auto* at = static_cast<const std::byte*>(place);
    return at >= guarded_ && at < guarded_ + kBytes;
  }
  // Whether all of it is memory that was allocated and not freed, in one piece.
  bool holds(const void* place, size_t bytes) {
    std::lock_guard lock(mutex_);
    const auto offset = static_cast<size_t>(static_cast<const std::byte*>(place) - guarded_);
    auto found = taken_.upper_bound(offset);
    if (found == taken_.begin()) return false;
    --found;
    return offset + bytes <= found->first + found->second;
  }
  std::byte* alias(const void* place) const { return alias_ + (static_cast<const std::byte*>(place) - guarded_); }

 private:
  static constexpr size_t kBytes = size_t{8} << 30, kAlignment = 256;

  DeviceMemory() {
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

  std::byte *guarded_ = nullptr, *alias_ = nullptr;
  std::mutex mutex_;
  std::map<size_t, size_t> free_, taken_;  // offset -> bytes
};

class PageLocked {
 public:
  static PageLocked& instance() {
    static PageLocked* memory = new PageLocked;
    return *memory;
  }
  void add(void* place, size_t bytes) {
    std::lock_guard lock(mutex_);
    blocks_[static_cast<std::byte*>(place)] = bytes;
  }
  bool remove(void* place) {
    std::lock_guard lock(mutex_);
    return blocks_.erase(static_cast<std::byte*>(place)) == 1;
  }
  bool holds(const void* place, size_t bytes) {
    std::lock_guard lock(mutex_);
    const auto* at = static_cast<const std::byte*>(place);
    auto found = blocks_.upper_bound(const_cast<std::byte*>(at));
    if (found == blocks_.begin()) return false;
    --found;
    return at + bytes <= found->first + found->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::byte*, size_t> blocks_;
};

// Where bytes lie that a stream touches; nullptr where it must not touch them.
std::byte* touched(const void* place, size_t bytes, bool asynchronous) {
  if (DeviceMemory::instance().contains(place))
    return DeviceMemory::instance().holds(place, bytes) ? DeviceMemory::instance().alias(place) : nullptr;
  if (asynchronous && !PageLocked::instance().holds(place, bytes)) return nullptr;
  return const_cast<std::byte*>(static_cast<const std::byte*>(place));
}

}  // namespace

struct CUstream_st {
 public:
  CUstream_st() : thread_([this] { work(); }) {}
  ~CUstream_st() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void enqueue(std::function<void()> work) {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
    }
    changed_.notify_all();
  }
  bool idle() {
    std::lock_guard lock(mutex_);
    return queue_.empty() && !busy_;
  }
  // Completed when the stream has come there.
  std::shared_ptr<Completion> mark() {
    const auto reached = std::make_shared<Completion>();
    enqueue([reached] { reached->complete(); });
    return reached;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::function<void()> next = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      next();
      lock.lock();
      busy_ = false;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;
};

struct CUevent_st {
  std::mutex mutex;
  std::shared_ptr<Completion> recorded;  // the last record; nullptr: none yet
  std::shared_ptr<Completion> last() {
    std::lock_guard lock(mutex);
    return recorded;
  }
};

namespace {

class Streams {
 public:
  static Streams& instance() {
    static Streams* streams = new Streams;
    return *streams;
  }
  void add(cudaStream_t stream) {
    std::lock_guard lock(mutex_);
    all_.insert(stream);
  }
  bool remove(cudaStream_t stream) {
    std::lock_guard lock(mutex_);
    return all_.erase(stream) == 1;
  }
  void wait_for_all() {
    std::vector<std::shared_ptr<Completion>> reached;
    {
      std::lock_guard lock(mutex_);  // a stream that is destroyed behind this finishes its work first
      for (cudaStream_t stream : all_) reached.push_back(stream->mark());
    }
    for (const auto& mark : reached) mark->wait();
  }

 private:
  std::mutex mutex_;
  std::set<cudaStream_t> all_;
};

int devices = 1;

}  // namespace

namespace piper::standin {

void set_devices(int count) { devices = count; }

std::byte* alias(const void* place, size_t bytes) { return touched(place, bytes, true); }

}  // namespace piper::standin

extern "C" {

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotReady: return "device not ready";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices;
  return devices > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaSetDevice(int device) { return device >= 0 && device < devices ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
  Streams::instance().wait_for_all();
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int priority) {
  if (priority > 0 || priority < -5) return cudaErrorInvalidValue;
  *stream = new CUstream_st;
  Streams::instance().add(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!Streams::instance().remove(stream)) return cudaErrorInvalidResourceHandle;
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return stream->idle() ? cudaSuccess : cudaErrorNotReady; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream->mark()->wait();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  if (const auto record = event->last()) stream->enqueue([record] { record->wait(); });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  stream->enqueue([function, data] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto record = std::make_shared<Completion>();
  {
    std::lock_guard lock(event->mutex);
    event->recorded = record;
  }
  stream->enqueue([record] { record->complete(); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto record = event->last();
  return record == nullptr || record->is_done() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto record = event->last()) record->wait();
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  const auto from = start->last(), to = end->last();
  if (from == nullptr || to == nullptr) return cudaErrorInvalidResourceHandle;
  if (!from->is_done() || !to->is_done()) return cudaErrorNotReady;
  *ms = std::chrono::duration<float, std::milli>(to->when - from->when).count();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** place, size_t size) {
  *place = DeviceMemory::instance().allocate(size);
  return *place == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
// Waits for the device, as CUDA's does.
cudaError_t cudaFree(void* place) {
  Streams::instance().wait_for_all();
  return DeviceMemory::instance().release(place) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaHostAlloc(void** place, size_t size, unsigned int) {
  *place = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  if (*place == nullptr) return cudaErrorMemoryAllocation;
  PageLocked::instance().add(*place, size);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* place) {
  Streams::instance().wait_for_all();
  if (!PageLocked::instance().remove(place)) return cudaErrorInvalidValue;
  std::free(place);
  return cudaSuccess;
}
// Of pageable memory; in no order with the streams.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind) {
  std::byte* const target = touched(to, bytes, false);
  const std::byte* const source = touched(from, bytes, false);
  if (target == nullptr || source == nullptr) return cudaErrorInvalidValue;
  std::memcpy(target, source, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind, cudaStream_t stream) {
  std::byte* const target = touched(to, bytes, true);
  const std::byte* const source = touched(from, bytes, true);
  if (target == nullptr || source == nullptr) return cudaErrorInvalidValue;
  stream->enqueue([target, source, bytes] { std::memcpy(target, source, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* place, int value, size_t bytes) {
  std::byte* const target = touched(place, bytes, true);
  if (target == nullptr) return cudaErrorInvalidValue;
  std::memset(target, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* place, int value, size_t bytes, cudaStream_t stream) {
  std::byte* const target = touched(place, bytes, true);
  if (target == nullptr) return cudaErrorInvalidValue;
  stream->enqueue([target, value, bytes] { std::memset(target, value, bytes); });
  return cudaSuccess;
}

}  // extern "C"
