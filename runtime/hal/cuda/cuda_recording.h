// Commands of a step on a GPU: issued in the order of the list, each to its stream. Used by cuda_device.cc.
#pragma once

#include <memory>
#include <vector>

#include "runtime/hal/cuda/cuda_handles.h"
#include "runtime/hal/device.h"

namespace piper::hal {

// Enqueues the record of an event of the plan; where a queue stands is told by those that have passed.
class CudaRecordEvent : public Command {
 public:
  explicit CudaRecordEvent(CudaEvent& event) : event_(event) {}
  Status issue(Queue& queue, const Submission& submission) override;
  const CudaEvent& event() const { return event_; }

 private:
  CudaEvent& event_;
};

class CudaRecording : public Recording {
 public:
  // `queues`, the commands, and the number and recording of the device's last submission outlive it. R0407.
  static Result<std::unique_ptr<CudaRecording>> make(const std::vector<std::unique_ptr<CudaQueue>>& queues,
                                                     std::vector<Issue> commands, uint32_t& submissions,
                                                     CudaRecording*& last);
  ~CudaRecording() override;
  Status submit(const WaitControl& wait, StepObserver& observer, bool timed) override;
  // Until the last submission is done; tells its observer what was timed, and R0302 or R0407 where it does not end.
  Status finish();

 private:
  CudaRecording(const std::vector<std::unique_ptr<CudaQueue>>& queues, std::vector<Issue> commands,
                uint32_t& submissions, CudaRecording*& last)
      : queues_(queues), commands_(std::move(commands)), submissions_(submissions), last_(last) {}

  Status issue_all();
  Status issue(const Issue& command, size_t index);
  Status make_timers();
  Status tell_times();
  std::vector<int32_t> positions() const;
  // stopped(), having told the observer. -1 both: it concerns no one command.
  Status tell(int32_t queue, int32_t instruction, Status failure);

  const std::vector<std::unique_ptr<CudaQueue>>& queues_;
  std::vector<Issue> commands_;
  uint32_t& submissions_;
  CudaRecording*& last_;
  std::unique_ptr<CudaEvent> fork_, done_;
  std::vector<std::unique_ptr<CudaEvent>> joins_;  // by queue behind the first
  Submission submission_;
  size_t issued_ = 0;  // commands of it
  StepObserver* observer_ = nullptr;
  // Of a timed submission: before and behind each command, and the moment in which the first was enqueued.
  bool timed_ = false;
  std::unique_ptr<CudaEvent> start_;
  std::vector<std::unique_ptr<CudaEvent>> begins_, ends_;
  StepObserver::Clock::time_point start_time_;
};

}  // namespace piper::hal
