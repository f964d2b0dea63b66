#include "runtime/hal/cpu/cpu_recording.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "schemas/base/check.h"

namespace piper::hal {

namespace {

int64_t thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

class CpuQueue : public Queue {
 public:
  struct Listed {
    Command* command = nullptr;
    int32_t instruction = 0;
  };
  std::vector<Listed> commands;
  // A cache line of its own: written at every command.
  alignas(64) std::atomic<int32_t> position{-1};
};

class CpuRecording : public Recording {
 public:
  CpuRecording(QueueThreads& threads, uint32_t& submissions, const std::vector<Issue>& commands)
      : threads_(threads), submissions_(submissions) {
    int32_t queues = 0;
    for (const Issue& issue : commands) queues = std::max(queues, issue.queue + 1);
    for (int32_t i = 0; i < queues; ++i) queues_.push_back(std::make_unique<CpuQueue>());
    for (const Issue& issue : commands)
      queues_[static_cast<size_t>(issue.queue)]->commands.push_back({issue.command, issue.instruction});
  }

  Status submit(const WaitControl& wait, StepObserver& observer, bool timed) override {
    submission_ = {++submissions_, wait};
    observer_ = &observer;
    timed_ = timed;
    failed_ = false;
    if (!queues_.empty()) threads_.run(walk_);
    return ended() ? stopped() : Status();
  }

 private:
  bool ended() const {
    return failed_.load(std::memory_order_relaxed) ||
           (submission_.wait.stop != nullptr && submission_.wait.stop->raised());
  }

  void walk(int index) {
    if (static_cast<size_t>(index) >= queues_.size()) return;
    CpuQueue& queue = *queues_[static_cast<size_t>(index)];
    Submission submission = submission_;
    submission.wait.messages = observer_->message_waits(index);
    for (const CpuQueue::Listed& listed : queue.commands) {
      if (ended()) return;
      queue.position.store(listed.instruction, std::memory_order_relaxed);
      observer_->reached(index, listed.instruction);
      Status status;
      try {
        status = timed_ ? issue_timed(queue, listed, submission) : listed.command->issue(queue, submission);
      } catch (const InternalError& bug) {
        status = Status::failure("bug", bug.what());
      } catch (const std::exception& failure) {
        status = Status::failure("R0403", failure.what());
      }
      if (status.ok()) continue;
      failed_ = true;
      if (!is_stopped(status)) observer_->failed(index, listed.instruction, std::move(status), positions());
      return;
    }
    queue.position.store(-1, std::memory_order_relaxed);
    observer_->reached(index, -1);
  }

  Status issue_timed(CpuQueue& queue, const CpuQueue::Listed& listed, const Submission& submission) {
    const auto begin = StepObserver::Clock::now();
    const int64_t begin_cpu = thread_cpu_ns();
    Status status = listed.command->issue(queue, submission);
    const int64_t cpu = thread_cpu_ns() - begin_cpu;
    observer_->ran(listed.instruction, begin, StepObserver::Clock::now(), cpu);
    return status;
  }

  std::vector<int32_t> positions() const {
    std::vector<int32_t> all;
    for (const auto& queue : queues_) all.push_back(queue->position.load(std::memory_order_relaxed));
    return all;
  }

  QueueThreads& threads_;
  uint32_t& submissions_;
  std::vector<std::unique_ptr<CpuQueue>> queues_;
  Submission submission_;
  StepObserver* observer_ = nullptr;
  bool timed_ = false;
  std::atomic<bool> failed_{false};
  std::function<void(int)> walk_ = [this](int queue) { walk(queue); };
};

}  // namespace

std::unique_ptr<Recording> make_cpu_recording(QueueThreads& threads, uint32_t& submissions,
                                              const std::vector<Issue>& commands) {
  return std::make_unique<CpuRecording>(threads, submissions, commands);
}

}  // namespace piper::hal
