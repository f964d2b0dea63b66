// The CPU as a device: one mapping per region, one worker thread per further stream.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/hal/cpu/available_memory.h"
#include "runtime/hal/device.h"

namespace piper::hal {

namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
// Memory is filled piece by piece, and before each the rest must be there: ranks that load side by side, in one process
// or in several, see each other only by what is left. The margin is for what they do within a piece, and for the
// kernels.
constexpr int64_t kPiece = int64_t{64} << 20, kMargin = int64_t{128} << 20;

Status check_available(const std::string& machine, int64_t bytes, int64_t missing) {
  const auto available = available_memory(machine);
  if (!available || *available - kMargin >= missing) return {};
  return Status::failure("R0405", "cannot allocate " + std::to_string(bytes) + " bytes: " + std::to_string(missing) +
                                      " of them are still to be filled, and the machine or the cgroup has " +
                                      std::to_string(*available) + " bytes available, of which " +
                                      std::to_string(kMargin) + " are left alone");
}

class MappedRegion : public MemoryRegion {
 public:
  static Result<std::unique_ptr<MemoryRegion>> map(int64_t bytes, const DeviceOptions& options) {
    auto region = std::make_unique<MappedRegion>();
    region->bytes_ = bytes;
    if (bytes == 0) return std::unique_ptr<MemoryRegion>(std::move(region));
    PIPER_RETURN_IF_ERROR(check_available(options.machine, bytes, bytes));
    // One huge page more, so that the region can start on the boundary of one.
    region->mapped_bytes_ = static_cast<size_t>(bytes + (options.huge_pages ? kHugePage : 0));
    void* base = mmap(nullptr, region->mapped_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
      return Status::failure("R0405", "cannot allocate " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
    region->base_ = base;
    region->data_ = static_cast<std::byte*>(base);
    if (options.huge_pages) {
      const auto behind = reinterpret_cast<uintptr_t>(base) % kHugePage;
      if (behind > 0) region->data_ += kHugePage - behind;
      // Refused on kernels without transparent huge pages: small pages then, only slower.
      (void)madvise(region->data_, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    }
    for (int64_t at = 0; at < bytes; at += kPiece) {  // faults every page in, before the timed steps
      if (at > 0) PIPER_RETURN_IF_ERROR(check_available(options.machine, bytes, bytes - at));
      std::memset(region->data_ + at, 0, static_cast<size_t>(std::min(kPiece, bytes - at)));
    }
    return std::unique_ptr<MemoryRegion>(std::move(region));
  }
  ~MappedRegion() override {
    if (base_ != nullptr) munmap(base_, mapped_bytes_);
  }

 private:
  void* base_ = nullptr;
  size_t mapped_bytes_ = 0;
};

class ThreadStreams : public StreamGroup {
 public:
  explicit ThreadStreams(int count) {
    for (int i = 1; i < count; ++i) workers_.emplace_back([this, i] { work(i); });
  }
  ~ThreadStreams() override {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    start_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }
  void run(const std::function<void(int)>& body) override {
    if (!workers_.empty()) {
      {
        std::lock_guard lock(mutex_);
        body_ = &body;
        running_ = workers_.size();
        ++round_;
      }
      start_.notify_all();
    }
    body(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return running_ == 0; });
  }

 private:
  void work(int stream) {
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      start_.wait(lock, [&] { return ending_ || round_ != seen; });
      if (ending_) return;
      seen = round_;
      const std::function<void(int)>* body = body_;
      lock.unlock();
      (*body)(stream);
      lock.lock();
      if (--running_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(int)>* body_ = nullptr;
  uint64_t round_ = 0;
  size_t running_ = 0;
  bool ending_ = false;
  std::vector<std::thread> workers_;
};

class CpuDevice : public Device {
 public:
  explicit CpuDevice(const DeviceOptions& options) : options_(options) {}
  Result<std::unique_ptr<MemoryRegion>> allocate(int64_t bytes) override { return MappedRegion::map(bytes, options_); }
  std::unique_ptr<StreamGroup> make_streams(int count) override {
    return std::make_unique<ThreadStreams>(std::max(count, 1));
  }

 private:
  DeviceOptions options_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options) { return std::make_unique<CpuDevice>(options); }

}  // namespace piper::hal
