#include "tests/conformance/device_cases.h"

#include <atomic>
#include <cstring>
#include <mutex>

namespace piper::conformance {

namespace {

using hal::Address;
using hal::Command;
using hal::Device;
using hal::Issue;

constexpr int64_t kBytes = 4096;
const hal::WaitControl kWait{nullptr, std::chrono::seconds(60)};

// Keeps what is reported to it.
class Told : public hal::StepObserver {
 public:
  void failed(int32_t queue, int32_t instruction, Status failure, const std::vector<int32_t>& positions) override {
    std::lock_guard lock(mutex);
    failures.push_back(std::to_string(queue) + "." + std::to_string(instruction) + " " + failure.error().code);
    this->positions = positions;
  }
  void ran(int32_t instruction, Clock::time_point begin, Clock::time_point end, int64_t cpu_ns) override {
    std::lock_guard lock(mutex);
    if (end >= begin && cpu_ns >= 0) ran_instructions.push_back(instruction);
  }
  std::mutex mutex;
  std::vector<std::string> failures;
  std::vector<int32_t> positions, ran_instructions;
};

// A recording's commands and what they work on.
class Script {
 public:
  Script(const MakeDevice& make, size_t queues) : device(make(queues)) {}
  void add(int32_t queue, std::unique_ptr<Command> command) {
    issues.push_back({queue, static_cast<int32_t>(issues.size()), command.get()});
    commands.push_back(std::move(command));
  }
  hal::Event& event() {
    events.push_back(std::move(device->make_event("event " + std::to_string(events.size()))).value());
    return *events.back();
  }
  std::unique_ptr<hal::Recording> recorded() const { return std::move(device->record(issues)).value(); }
  // What is wrong with the submission.
  std::string submit() {
    const auto recording = recorded();
    if (!recording->submit(kWait, told, false).ok() || !device->finish().ok())
      return "a submission failed: " + (told.failures.empty() ? std::string("untold") : told.failures[0]);
    return "";
  }
  std::string holds(Address at, uint8_t value, int64_t bytes = kBytes) const {
    std::vector<uint8_t> read(static_cast<size_t>(bytes));
    if (!device->read(read.data(), at, bytes).ok()) return "memory cannot be read";
    for (const uint8_t byte : read)
      if (byte != value) return "memory holds " + std::to_string(byte) + " and not " + std::to_string(value);
    return "";
  }

  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<hal::Event>> events;
  std::vector<std::unique_ptr<Command>> commands;
  std::vector<Issue> issues;
  Told told;
};

std::string memory_is_zero_and_aligned(const MakeDevice& make) {
  Script script(make, 1);
  const auto region = script.device->allocate(3 * kBytes);
  if (!region.ok()) return region.error().message;
  if ((*region)->bytes() != 3 * kBytes) return "it has another size";
  const auto none = script.device->allocate(0);
  if (!none.ok() || (*none)->bytes() != 0) return "no bytes are not to be had";
  return script.holds((*region)->base(), 0, 3 * kBytes);
}

std::string writes_are_read(const MakeDevice& make) {
  Script script(make, 1);
  const auto region = script.device->allocate(kBytes);
  if (!region.ok()) return region.error().message;
  const std::vector<uint8_t> out(kBytes / 2, 7);
  if (!script.device->write((*region)->base() + kBytes / 2, out.data(), kBytes / 2).ok()) return "a write failed";
  const std::string first = script.holds((*region)->base(), 0, kBytes / 2);
  return first.empty() ? script.holds((*region)->base() + kBytes / 2, 7, kBytes / 2) : first;
}

// What the host writes for submission n is what its commands see, and what it reads is what they left.
std::string uploads_and_downloads(const MakeDevice& make) {
  Script script(make, 1);
  const auto region = script.device->allocate(2 * kBytes);
  if (!region.ok()) return region.error().message;
  const Address in = (*region)->base(), out = in + kBytes;
  script.add(0, script.device->copy(out, in, kBytes));
  const auto recording = script.recorded();
  const auto upload = std::move(script.device->make_upload(in, kBytes)).value();
  const auto download = std::move(script.device->make_download(out, kBytes)).value();
  for (int step = 1; step <= 5; ++step) {
    std::memset(upload->begin(), step, kBytes);
    if (!upload->commit().ok() || !recording->submit(kWait, script.told, false).ok() || !download->begin().ok())
      return "a step failed";
    const auto read = download->wait();
    if (!read.ok()) return read.error().message;
    for (int64_t i = 0; i < kBytes; ++i)
      if ((*read)[i] != static_cast<std::byte>(step)) return "step " + std::to_string(step) + " gave another value";
  }
  return "";
}

std::string host_memory_is_copied(const MakeDevice& make) {
  Script script(make, 1);
  const auto region = script.device->allocate(kBytes);
  const auto host = script.device->allocate_host(kBytes);
  if (!region.ok() || !host.ok()) return "no memory";
  script.add(0, script.device->fill((*region)->base(), std::byte{9}, kBytes));
  script.add(0, script.device->copy((*host)->address(), (*region)->base(), kBytes));
  if (const std::string wrong = script.submit(); !wrong.empty()) return wrong;
  for (int64_t i = 0; i < kBytes; ++i)
    if ((*host)->data()[i] != std::byte{9}) return "the host sees another value";
  return "";
}

// Each queue keeps its order; an event orders two of them; whatever their speed, for many submissions.
std::string events_order_queues(const MakeDevice& make) {
  constexpr int32_t kQueues = 4;
  Script script(make, kQueues);
  const auto region = script.device->allocate((kQueues + 1) * kBytes);
  if (!region.ok()) return region.error().message;
  const auto place = [&](int32_t i) { return (*region)->base() + i * kBytes; };
  // A value goes from place to place, each hop on the next queue, issued from the last hop to the first.
  std::vector<hal::Event*> done;
  for (int32_t i = 0; i <= kQueues; ++i) done.push_back(&script.event());
  script.add(0, script.device->fill(place(0), std::byte{3}, kBytes));
  script.add(0, script.device->record_event(*done[0]));
  for (int32_t queue = 1; queue <= kQueues; ++queue) {
    script.add(queue % kQueues, script.device->wait_event(*done[static_cast<size_t>(queue - 1)]));
    script.add(queue % kQueues, script.device->copy(place(queue), place(queue - 1), kBytes));
    script.add(queue % kQueues, script.device->record_event(*done[static_cast<size_t>(queue)]));
  }
  for (int32_t queue = 1; queue < kQueues; ++queue) {
    script.add(queue, script.device->wait_event(*done[kQueues]));
    script.add(queue, script.device->fill(place(queue), std::byte{0}, kBytes));
  }
  for (int round = 0; round < 200; ++round) {
    if (const std::string wrong = script.submit(); !wrong.empty()) return wrong;
    if (const std::string wrong = script.holds(place(kQueues), 3); !wrong.empty()) return wrong;
    if (const std::string wrong = script.holds(place(1), 0); !wrong.empty()) return wrong;
  }
  return "";
}

// Whatever follows a submission sees what all of its queues did, and the next one begins after that.
std::string queues_join(const MakeDevice& make) {
  constexpr int32_t kQueues = 3;
  Script first(make, kQueues);
  const auto region = first.device->allocate(kQueues * kBytes);
  if (!region.ok()) return region.error().message;
  const auto place = [&](int32_t i) { return (*region)->base() + i * kBytes; };
  for (int32_t queue = 1; queue < kQueues; ++queue)
    first.add(queue, first.device->fill(place(queue), std::byte{1}, kBytes));
  const auto one = first.recorded();
  // Reads on queue 0 what the other recording's last queue wrote.
  const auto copy = first.device->copy(place(0), place(kQueues - 1), kBytes);
  const auto two = std::move(first.device->record({{0, 0, copy.get()}})).value();
  for (int round = 0; round < 100; ++round) {
    if (!one->submit(kWait, first.told, false).ok() || !two->submit(kWait, first.told, false).ok()) return "it failed";
    if (!first.device->finish().ok()) return "it does not end";
    if (const std::string wrong = first.holds(place(0), 1); !wrong.empty()) return wrong;
    for (const int32_t cleared : {0, kQueues - 1})
      if (!first.device->write(place(cleared), std::vector<uint8_t>(kBytes, 0).data(), kBytes).ok())
        return "a write failed";
  }
  return "";
}

class Fails : public Command {
 public:
  Status issue(hal::Queue&, const hal::Submission&) override { return Status::failure("R0403", "as it must"); }
};

// A failure is reported once, with queue, instruction and where the others are; the rest is not issued. What is in
// front may have been done, or may have been part of a graph that was not to be.
std::string failures_are_told(const MakeDevice& make) {
  Script script(make, 2);
  const auto region = script.device->allocate(kBytes);
  if (!region.ok()) return region.error().message;
  script.add(0, script.device->fill((*region)->base(), std::byte{1}, kBytes));
  script.add(0, std::make_unique<Fails>());
  script.add(0, script.device->fill((*region)->base(), std::byte{2}, kBytes));
  const auto recording = script.recorded();
  const Status status = recording->submit(kWait, script.told, false);
  if (!script.device->finish().ok()) return "what was issued does not end";
  if (status.ok() || !hal::is_stopped(status)) return "the submission does not say that it stopped";
  if (script.told.failures != std::vector<std::string>{"0.1 R0403"}) return "it was not told once";
  if (script.told.positions.empty() || script.told.positions[0] != 1) return "its position was not told";
  return script.holds((*region)->base(), 1).empty() ? "" : script.holds((*region)->base(), 0);
}

std::string a_raised_stop_ends_it(const MakeDevice& make) {
  Script script(make, 1);
  const auto region = script.device->allocate(kBytes);
  if (!region.ok()) return region.error().message;
  script.add(0, script.device->fill((*region)->base(), std::byte{1}, kBytes));
  hal::Stop stop;
  stop.raise(Status::failure("R0303", "elsewhere"));
  const Status status = script.recorded()->submit({&stop, std::chrono::seconds(60)}, script.told, false);
  if (!hal::is_stopped(status)) return "it went on";
  return script.told.failures.empty() ? "" : "what happened elsewhere was told as this device's failure";
}

std::string timed_submissions_tell_all(const MakeDevice& make) {
  Script script(make, 2);
  const auto region = script.device->allocate(kBytes);
  if (!region.ok()) return region.error().message;
  for (int32_t i = 0; i < 6; ++i) script.add(i % 2, script.device->fill((*region)->base() + i, std::byte{1}, 1));
  if (!script.recorded()->submit(kWait, script.told, true).ok() || !script.device->finish().ok()) return "it failed";
  return script.told.ran_instructions.size() == 6 ? "" : "not every command was timed";
}

std::string each_thread_is_met(const MakeDevice& make) {
  Script script(make, 3);
  std::atomic<int> met{0};
  script.device->on_each_thread([&met] { ++met; });
  return met > 0 ? "" : "no thread issues commands";
}

}  // namespace

std::vector<DeviceCase> device_cases() {
  return {{"memory_is_zero_and_aligned", memory_is_zero_and_aligned},
          {"writes_are_read", writes_are_read},
          {"uploads_and_downloads", uploads_and_downloads},
          {"host_memory_is_copied", host_memory_is_copied},
          {"events_order_queues", events_order_queues},
          {"queues_join", queues_join},
          {"failures_are_told", failures_are_told},
          {"a_raised_stop_ends_it", a_raised_stop_ends_it},
          {"timed_submissions_tell_all", timed_submissions_tell_all},
          {"each_thread_is_met", each_thread_is_met}};
}

}  // namespace piper::conformance
