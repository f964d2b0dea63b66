// The CPU as a device: queues are threads, and a command is done when it was issued. Memory of the host is the device's
// own, so that uploads and downloads copy nothing.
#include <algorithm>
#include <cstring>

#include "runtime/hal/counter.h"
#include "runtime/hal/cpu/cpu_memory.h"
#include "runtime/hal/cpu/cpu_recording.h"
#include "runtime/hal/cpu/queue_threads.h"
#include "runtime/hal/cpu/stream_copy.h"
#include "runtime/hal/device.h"

namespace piper::hal {

namespace {

class CpuEvent : public Event {
 public:
  explicit CpuEvent(const std::string& name) : name(name) {}
  const std::string name;
  Counter submission;  // in which it was recorded last
};

class RecordEvent : public Command {
 public:
  explicit RecordEvent(CpuEvent& event) : event_(event) {}
  Status issue(Queue&, const Submission& submission) override {
    event_.submission.signal(submission.number);
    return {};
  }

 private:
  CpuEvent& event_;
};

class WaitEvent : public Command {
 public:
  explicit WaitEvent(CpuEvent& event) : event_(event) {}
  Status issue(Queue&, const Submission& submission) override {
    switch (event_.submission.wait(submission.number, patient(submission.wait))) {
      case WaitResult::kReady: return {};
      case WaitResult::kStopped: return stopped();
      case WaitResult::kTimedOut: break;
    }
    return Status::failure("R0302", "waited " + std::to_string(submission.wait.timeout.count() / 1000) +
                                        " s for event '" + event_.name + "'");
  }

 private:
  CpuEvent& event_;
};

class Copy : public Command {
 public:
  Copy(Address to, Address from, int64_t bytes) : to_(to), from_(from), bytes_(static_cast<size_t>(bytes)) {}
  Status issue(Queue&, const Submission&) override {
    std::memcpy(to_.in_device(), from_.in_device(), bytes_);
    return {};
  }

 private:
  Address to_, from_;
  size_t bytes_;
};

class Fill : public Command {
 public:
  Fill(Address to, std::byte value, int64_t bytes) : to_(to), value_(value), bytes_(static_cast<size_t>(bytes)) {}
  Status issue(Queue&, const Submission&) override {
    std::memset(to_.in_device(), std::to_integer<int>(value_), bytes_);
    return {};
  }

 private:
  Address to_;
  std::byte value_;
  size_t bytes_;
};

class SameMemory : public HostMemory {
 public:
  explicit SameMemory(std::unique_ptr<MemoryRegion> region) : region_(std::move(region)) {}
  std::byte* data() const override { return region_->base().in_device(); }
  Address address() const override { return region_->base(); }

 private:
  std::unique_ptr<MemoryRegion> region_;
};

class InPlaceUpload : public Upload {
 public:
  explicit InPlaceUpload(Address to) : to_(to) {}
  std::byte* begin() override { return to_.in_device(); }
  Status commit() override { return {}; }

 private:
  Address to_;
};

class InPlaceDownload : public Download {
 public:
  explicit InPlaceDownload(Address from) : from_(from) {}
  Status begin() override { return {}; }
  Result<const std::byte*> wait() override { return static_cast<const std::byte*>(from_.in_device()); }

 private:
  Address from_;
};

class CpuDevice : public Device {
 public:
  CpuDevice(const DeviceOptions& options, size_t queues)
      : options_(options), threads_(static_cast<int>(std::max<size_t>(queues, 1)), options.enter_thread) {
    if (options.enter_thread) options.enter_thread();
  }
  Result<std::unique_ptr<MemoryRegion>> allocate(int64_t bytes) override { return map_memory(bytes, options_); }
  Result<std::unique_ptr<HostMemory>> allocate_host(int64_t bytes) override {
    PIPER_ASSIGN(auto region, map_memory(bytes, options_));
    return std::unique_ptr<HostMemory>(std::make_unique<SameMemory>(std::move(region)));
  }
  Status write(Address to, const void* from, int64_t bytes) override {
    std::memcpy(to.in_device(), from, static_cast<size_t>(bytes));
    return {};
  }
  Status read(void* to, Address from, int64_t bytes) override {
    stream_copy(to, from.in_device(), bytes);
    return {};
  }
  Result<std::unique_ptr<Upload>> make_upload(Address to, int64_t) override {
    return std::unique_ptr<Upload>(std::make_unique<InPlaceUpload>(to));
  }
  Result<std::unique_ptr<Download>> make_download(Address from, int64_t) override {
    return std::unique_ptr<Download>(std::make_unique<InPlaceDownload>(from));
  }
  Result<std::unique_ptr<Event>> make_event(const std::string& name) override {
    return std::unique_ptr<Event>(std::make_unique<CpuEvent>(name));
  }
  std::unique_ptr<Command> record_event(Event& event) override {
    return std::make_unique<RecordEvent>(static_cast<CpuEvent&>(event));
  }
  std::unique_ptr<Command> wait_event(Event& event) override {
    return std::make_unique<WaitEvent>(static_cast<CpuEvent&>(event));
  }
  std::unique_ptr<Command> copy(Address to, Address from, int64_t bytes) override {
    return std::make_unique<Copy>(to, from, bytes);
  }
  std::unique_ptr<Command> fill(Address to, std::byte value, int64_t bytes) override {
    return std::make_unique<Fill>(to, value, bytes);
  }
  Result<std::unique_ptr<Recording>> record(std::vector<Issue> commands) override {
    return make_cpu_recording(threads_, submissions_, commands);
  }
  Status finish() override { return {}; }
  void on_each_thread(const std::function<void()>& body) override {
    threads_.run([&body](int) { body(); });
  }

 private:
  DeviceOptions options_;
  uint32_t submissions_ = 0;
  QueueThreads threads_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options, const std::vector<QueueOptions>& queues) {
  return std::make_unique<CpuDevice>(options, queues.size());
}

}  // namespace piper::hal
