// A device of one rank: memory, queues, events, and the recordings of commands that its queues execute. Everything is
// made at load; a step fills uploads, submits a recording, and reads downloads. `cpu/` implements it with threads.
// Kernels are not its business (runtime/kernels), nor is communication (collectives.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/hal/address.h"
#include "runtime/hal/command.h"
#include "schemas/plan/plan.h"

namespace piper::hal {

// Zero-filled memory of a device, there from the start: no page fault in a step. Aligned to plan::buffer_alignment().
class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
  Address base() const { return base_; }
  int64_t bytes() const { return bytes_; }

 protected:
  Address base_;
  int64_t bytes_ = 0;
};

// Memory of the host that queues copy to and from.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  virtual std::byte* data() const = 0;
  virtual Address address() const = 0;  // the same place, for the device
};

// Host memory on its way to one place of the device. Used by the thread that submits.
class Upload {
 public:
  virtual ~Upload() = default;
  // Where the host writes, all bytes of it: after this call the last commit's copy has been taken.
  virtual std::byte* begin() = 0;
  // Copies what was written, before all that is submitted later.
  virtual Status commit() = 0;
};

// The other way. Used by the thread that submits.
class Download {
 public:
  virtual ~Download() = default;
  // Copies after all that was submitted.
  virtual Status begin() = 0;
  // The copy, once it is there. Valid until the next begin() or submission.
  virtual Result<const std::byte*> wait() = 0;
};

class Event {
 public:
  virtual ~Event() = default;
};

// A command in its place: issue order is the order of the list, a queue's order the subsequence of its commands.
struct Issue {
  int32_t queue = 0;        // index
  int32_t instruction = 0;  // of the plan, for messages and times
  Command* command = nullptr;
};

// Notified where commands execute; called on any thread of the device, several at once.
class StepObserver {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~StepObserver() = default;
  // `queue` and `instruction` are -1 where it concerns no one command. `positions`: by queue, the instruction that it
  // is at, or -1 where it is done or has not begun. Not for stopped().
  virtual void failed(int32_t queue, int32_t instruction, Status failure, const std::vector<int32_t>& positions) = 0;
  // Where commands are done when they are issued: `queue` is about to issue one of `instruction`; -1: it has issued
  // all.
  virtual void reached([[maybe_unused]] int32_t queue, [[maybe_unused]] int32_t instruction) {}
  // Where commands are done when they are issued: who is notified which messages `queue` waits for; nullptr: nobody.
  virtual MessageWaits* message_waits([[maybe_unused]] int32_t queue) { return nullptr; }
  // Where the submission is timed. `cpu_ns`: processor time of the issuing thread.
  virtual void ran(int32_t instruction, Clock::time_point begin, Clock::time_point end, int64_t cpu_ns) = 0;
  // Asked by who waits for a submission: a failure beside the device, for which failed() is called next.
  virtual Status watch() { return {}; }
};

// A command that is between graphs, and Command::prevents_capture() of it.
struct Uncaptured {
  int32_t instruction = 0;
  const char* reason = nullptr;
};

// Commands of a step. Queue 0 forks to the others and joins them: what is submitted later comes after all of it.
class Recording {
 public:
  virtual ~Recording() = default;
  // Issues every command once. A failure, or a Stop raised elsewhere, is stopped(): the observer was given the reason.
  // May return before the commands are done; Device::finish() waits.
  virtual Status submit(const WaitControl& wait, StepObserver& observer, bool timed) = 0;
  // Where the device makes graphs of recordings: what keeps this one from being a single graph, in issue order.
  virtual const std::vector<Uncaptured>& uncaptured() const {
    static const std::vector<Uncaptured> none;
    return none;
  }
};

struct QueueOptions {
  std::string name;
  plan::Priority priority = plan::Priority::kNormal;
};

// One queue a stream of the plan.
std::vector<QueueOptions> queues_of(const plan::RankPlan& plan);

struct DeviceOptions {
  bool huge_pages = true;
  std::string machine;                 // where /proc and /sys are looked for; tests have their own
  std::function<void()> enter_thread;  // called on each thread that issues commands, before its first
};

// R0405 for memory, R0407 where the device's own library fails.
class Device {
 public:
  virtual ~Device() = default;
  // R0405 when the memory is not to be had, or would leave the machine or the cgroup too little.
  virtual Result<std::unique_ptr<MemoryRegion>> allocate(int64_t bytes) = 0;
  virtual Result<std::unique_ptr<HostMemory>> allocate_host(int64_t bytes) = 0;
  // Host and device, at once: nothing that uses the place may be under way.
  virtual Status write(Address to, const void* from, int64_t bytes) = 0;
  virtual Status read(void* to, Address from, int64_t bytes) = 0;
  virtual Result<std::unique_ptr<Upload>> make_upload(Address to, int64_t bytes) = 0;
  virtual Result<std::unique_ptr<Download>> make_download(Address from, int64_t bytes) = 0;

  // An event is recorded once in a submission; who waits for it goes on after that record. `name` for messages.
  virtual Result<std::unique_ptr<Event>> make_event(const std::string& name) = 0;
  virtual std::unique_ptr<Command> record_event(Event& event) = 0;
  virtual std::unique_ptr<Command> wait_event(Event& event) = 0;
  virtual std::unique_ptr<Command> copy(Address to, Address from, int64_t bytes) = 0;
  virtual std::unique_ptr<Command> fill(Address to, std::byte value, int64_t bytes) = 0;

  // The commands stay the caller's and outlive the recording.
  virtual Result<std::unique_ptr<Recording>> record(std::vector<Issue> commands) = 0;
  // Until all that was submitted is done. Failures as Recording::submit().
  virtual Status finish() = 0;
  // Once on each thread that issues commands; nothing may be under way.
  virtual void on_each_thread(const std::function<void()>& body) = 0;
};

// A device whose queues are threads, queue 0 the one that submits.
std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options, const std::vector<QueueOptions>& queues);

}  // namespace piper::hal
