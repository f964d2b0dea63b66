// Commands of a small recording on the stand-in's GPU, and what they work on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/hal/cuda/cuda_device.h"

namespace piper::standin {

class Script : public hal::StepObserver {
 public:
  Script(const hal::CudaDeviceOptions& options, size_t queues)
      : device(std::move(hal::make_cuda_device(options, std::vector<hal::QueueOptions>(queues))).value()) {}
  hal::Address allocate(int64_t bytes) {
    regions_.push_back(std::move(device->allocate(bytes)).value());
    return regions_.back()->base();
  }
  void add(int32_t queue, std::unique_ptr<hal::Command> command) {
    commands.push_back({queue, static_cast<int32_t>(commands.size()), command.get()});
    owned_.push_back(std::move(command));
  }
  hal::Event& event() {
    events_.push_back(std::move(device->make_event("event")).value());
    return *events_.back();
  }
  std::unique_ptr<hal::Recording> recorded() const { return std::move(device->record(commands)).value(); }
  // What is wrong with the submission.
  std::string submit(hal::Recording& recording, bool timed = false) {
    const bool submitted = recording.submit(wait, *this, timed).ok(), finished = device->finish().ok();
    return submitted && finished ? "" : failures.empty() ? "untold" : failures.back();
  }
  // For all bytes; -1 where they differ.
  int value_at(hal::Address at, int64_t bytes) const {
    std::vector<uint8_t> read(static_cast<size_t>(bytes));
    if (!device->read(read.data(), at, bytes).ok()) return -1;
    for (const uint8_t byte : read)
      if (byte != read[0]) return -1;
    return read[0];
  }

  hal::WaitControl wait{nullptr, std::chrono::seconds(60)};
  std::unique_ptr<hal::Device> device;
  std::vector<hal::Issue> commands;
  std::vector<std::string> failures;  // "queue.instruction code message"
  std::vector<int32_t> positions;     // at the last failure
  int timed = 0;                      // commands

 private:
  void failed(int32_t queue, int32_t instruction, Status failure, const std::vector<int32_t>& at) override {
    failures.push_back(std::to_string(queue) + "." + std::to_string(instruction) + " " + failure.error().code + " " +
                       failure.error().message);
    positions = at;
  }
  void ran(int32_t, Clock::time_point, Clock::time_point, int64_t) override { ++timed; }

  std::vector<std::unique_ptr<hal::MemoryRegion>> regions_;
  std::vector<std::unique_ptr<hal::Event>> events_;
  std::vector<std::unique_ptr<hal::Command>> owned_;
};

}  // namespace piper::standin
