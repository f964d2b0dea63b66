#include "tests/standin/watched_device.h"

#include <utility>

namespace piper::standin {

namespace {

class WatchedDevice : public hal::Device {
 public:
  WatchedDevice(std::unique_ptr<hal::Device> device, Watch watch)
      : device_(std::move(device)), watch_(std::move(watch)) {}

  Result<std::unique_ptr<hal::MemoryRegion>> allocate(int64_t bytes) override { return device_->allocate(bytes); }
  Result<std::unique_ptr<hal::HostMemory>> allocate_host(int64_t bytes) override {
    return device_->allocate_host(bytes);
  }
  Status write(hal::Address to, const void* from, int64_t bytes) override { return device_->write(to, from, bytes); }
  Status read(void* to, hal::Address from, int64_t bytes) override { return device_->read(to, from, bytes); }
  Result<std::unique_ptr<hal::Upload>> make_upload(hal::Address to, int64_t bytes) override {
    return device_->make_upload(to, bytes);
  }
  Result<std::unique_ptr<hal::Download>> make_download(hal::Address from, int64_t bytes) override {
    return device_->make_download(from, bytes);
  }
  Result<std::unique_ptr<hal::Event>> make_event(const std::string& name) override { return device_->make_event(name); }
  std::unique_ptr<hal::Command> record_event(hal::Event& event) override { return device_->record_event(event); }
  std::unique_ptr<hal::Command> wait_event(hal::Event& event) override { return device_->wait_event(event); }
  std::unique_ptr<hal::Command> copy(hal::Address to, hal::Address from, int64_t bytes) override {
    return device_->copy(to, from, bytes);
  }
  std::unique_ptr<hal::Command> fill(hal::Address to, std::byte value, int64_t bytes) override {
    return device_->fill(to, value, bytes);
  }
  Result<std::unique_ptr<hal::Recording>> record(std::vector<hal::Issue> commands) override {
    if (watch_.commands) watch_.commands(*device_, commands);
    PIPER_ASSIGN(auto recording, device_->record(std::move(commands)));
    if (watch_.recorded) watch_.recorded(*recording);
    return recording;
  }
  Status finish() override { return device_->finish(); }
  void on_each_thread(const std::function<void()>& body) override { device_->on_each_thread(body); }

 private:
  std::unique_ptr<hal::Device> device_;
  Watch watch_;
};

}  // namespace

std::unique_ptr<hal::Device> watch_device(std::unique_ptr<hal::Device> device, Watch watch) {
  return std::make_unique<WatchedDevice>(std::move(device), std::move(watch));
}

}  // namespace piper::standin
