// The CPU as a device: one mapping per region, one worker thread per further stream.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/hal/device.h"

namespace piper::hal {

namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

class MappedRegion : public MemoryRegion {
 public:
  static Result<std::unique_ptr<MemoryRegion>> map(int64_t bytes, bool huge_pages) {
    auto region = std::make_unique<MappedRegion>();
    region->bytes_ = bytes;
    if (bytes == 0) return std::unique_ptr<MemoryRegion>(std::move(region));
    // One huge page more, so that the region can start on the boundary of one.
    region->mapped_bytes_ = static_cast<size_t>(bytes + (huge_pages ? kHugePage : 0));
    void* base = mmap(nullptr, region->mapped_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
      return Status::failure("R0405", "cannot allocate " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
    region->base_ = base;
    region->data_ = static_cast<std::byte*>(base);
    if (huge_pages) {
      const auto behind = reinterpret_cast<uintptr_t>(base) % kHugePage;
      if (behind > 0) region->data_ += kHugePage - behind;
      // Refused on kernels without transparent huge pages: small pages then, only slower.
      (void)madvise(region->data_, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    }
    std::memset(region->data_, 0, static_cast<size_t>(bytes));  // faults every page in, before the timed steps
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
  Result<std::unique_ptr<MemoryRegion>> allocate(int64_t bytes) override {
    return MappedRegion::map(bytes, options_.huge_pages);
  }
  std::unique_ptr<StreamGroup> make_streams(int count) override {
    return std::make_unique<ThreadStreams>(std::max(count, 1));
  }

 private:
  DeviceOptions options_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options) { return std::make_unique<CpuDevice>(options); }

}  // namespace piper::hal
