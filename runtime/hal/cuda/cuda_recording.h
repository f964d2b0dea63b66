// Commands of a step on a GPU: issued in the order of the list, each to its stream, or once into graphs that are
// launched from then on. Used by cuda_device.cc.
#pragma once

#include <memory>
#include <vector>

#include "runtime/hal/cuda/cuda_graph.h"
#include "runtime/hal/cuda/cuda_handles.h"
#include "runtime/hal/cuda/segments.h"
#include "runtime/hal/cuda/start_gate.h"
#include "runtime/hal/device.h"

namespace piper::hal {

class CudaRecording : public Recording, private Progress {
 public:
  // `queues`, the commands, and the number and recording of the device's last submission outlive it. R0407.
  static Result<std::unique_ptr<CudaRecording>> make(const std::vector<std::unique_ptr<CudaQueue>>& queues,
                                                     std::vector<Issue> commands, bool graphs, uint32_t& submissions,
                                                     CudaRecording*& last);
  ~CudaRecording() override;
  Status submit(const WaitControl& wait, StepObserver& observer, bool timed) override;
  const std::vector<Uncaptured>& uncaptured() const override { return cut_.uncaptured; }
  // Until the last submission is done; gives its observer what was timed; R0302 or R0407 where it does not go on.
  Status finish();

 private:
  CudaRecording(const std::vector<std::unique_ptr<CudaQueue>>& queues, std::vector<Issue> commands,
                uint32_t& submissions, CudaRecording*& last)
      : queues_(queues), commands_(std::move(commands)), submissions_(submissions), last_(last) {}

  Status submit_all();
  Status enqueue_all(cudaStream_t first);
  // A segment of `cut_`: launched, or issued.
  Status submit_segment(size_t index);
  Result<std::unique_ptr<CudaGraph>> capture(const Segment& segment);
  // Queue 0 forks to the segment's others and joins them.
  Status issue_segment(const Segment& segment);
  Status issue(const Issue& command, size_t index);
  Status make_timers();
  Status tell_times();
  std::vector<int32_t> positions() const override;
  bool in_graph(size_t command) const;  // of the last submission
  // stopped(), after the observer was called. nullptr: it concerns no one command.
  Status tell(const Issue* command, Status failure);

  const std::vector<std::unique_ptr<CudaQueue>>& queues_;
  std::vector<Issue> commands_;
  uint32_t& submissions_;
  CudaRecording*& last_;
  std::unique_ptr<CudaEvent> fork_, done_;
  std::vector<std::unique_ptr<CudaEvent>> joins_;  // by queue after the first
  Segment whole_;                                  // without graphs
  // With graphs, by segment: the graph, once it was captured, and an event after the segment.
  Segments cut_;
  std::vector<std::unique_ptr<CudaGraph>> made_;
  std::vector<std::unique_ptr<CudaEvent>> passed_;

  Submission submission_;
  size_t issued_ = 0;               // commands of it
  size_t submitted_ = 0;            // segments of it
  bool by_segments_ = false;        // it
  const Issue* failing_ = nullptr;  // its command that failed
  StepObserver* observer_ = nullptr;
  // For a timed submission: before and after each command, and the moment in which the first was enqueued.
  bool timed_ = false;
  std::unique_ptr<CudaEvent> start_;
  std::vector<std::unique_ptr<CudaEvent>> begins_, ends_;
  StepObserver::Clock::time_point start_time_;
  StartGate gate_;
};

}  // namespace piper::hal
