#include "runtime/hal/cuda/cuda_recording.h"

#include <algorithm>

#include "runtime/hal/cuda/cuda_check.h"
#include "runtime/hal/cuda/cuda_stream.h"
#include "runtime/hal/cuda/event_commands.h"
#include "schemas/base/check.h"

namespace piper::hal {

using Clock = StepObserver::Clock;

Result<std::unique_ptr<CudaRecording>> CudaRecording::make(const std::vector<std::unique_ptr<CudaQueue>>& queues,
                                                           std::vector<Issue> commands, bool graphs,
                                                           uint32_t& submissions, CudaRecording*& last) {
  std::unique_ptr<CudaRecording> recording(new CudaRecording(queues, std::move(commands), submissions, last));
  PIPER_ASSIGN(recording->fork_, CudaEvent::make("fork"));
  PIPER_ASSIGN(recording->done_, CudaEvent::make("done"));
  recording->whole_.end = recording->commands_.size();
  for (size_t queue = 1; queue < queues.size(); ++queue) {
    PIPER_ASSIGN(auto join, CudaEvent::make("join"));
    recording->joins_.push_back(std::move(join));
    recording->whole_.queues.push_back(queue);
  }
  if (!graphs) return recording;
  recording->cut_ = cut_into_segments(recording->commands_);
  recording->made_.resize(recording->cut_.list.size());
  for (size_t segment = 0; segment < recording->cut_.list.size(); ++segment) {
    PIPER_ASSIGN(auto passed, CudaEvent::make("segment"));
    recording->passed_.push_back(std::move(passed));
  }
  return recording;
}

CudaRecording::~CudaRecording() {
  if (last_ == this) last_ = nullptr;
}

Status CudaRecording::submit(const WaitControl& wait, StepObserver& observer, bool timed) {
  submission_ = {++submissions_, wait, this};
  last_ = this;
  observer_ = &observer;
  timed_ = timed;
  by_segments_ = !timed && !cut_.list.empty();
  issued_ = submitted_ = 0;
  failing_ = nullptr;
  if (timed_ && begins_.empty()) PIPER_RETURN_IF_ERROR(make_timers());
  Status status = submit_all();
  if (status.ok() || is_stopped(status)) return status;
  return tell(failing_, std::move(status));
}

Status CudaRecording::submit_all() {
  cudaStream_t first = queues_[0]->stream();
  // The time that a command takes alone on the device is wanted. Where it needs the host, it cannot be held.
  const bool held = timed_ && commands_.size() == 1 && commands_[0].command->prevents_capture() == nullptr;
  if (held) PIPER_RETURN_IF_ERROR(gate_.close(first));
  Status status = enqueue_all(first);
  gate_.open();
  return status;
}

Status CudaRecording::enqueue_all(cudaStream_t first) {
  if (timed_) {
    PIPER_CUDA(cudaEventRecord(start_->handle(), first));
    start_time_ = Clock::now();
  }
  if (by_segments_)
    for (; submitted_ < cut_.list.size(); ++submitted_) PIPER_RETURN_IF_ERROR(submit_segment(submitted_));
  else PIPER_RETURN_IF_ERROR(issue_segment(whole_));
  PIPER_CUDA(cudaEventRecord(done_->handle(), first));
  return {};
}

Status CudaRecording::submit_segment(size_t index) {
  const Segment& segment = cut_.list[index];
  cudaStream_t first = queues_[0]->stream();
  if (segment.captured) {
    if (raised(submission_.wait)) return stopped();
    if (made_[index] == nullptr) {
      PIPER_ASSIGN(made_[index], capture(segment));
    }
    PIPER_RETURN_IF_ERROR(made_[index]->launch(first));
    issued_ = segment.end;
  } else {
    PIPER_RETURN_IF_ERROR(issue_segment(segment));
  }
  PIPER_CUDA(cudaEventRecord(passed_[index]->handle(), first));
  return {};
}

// A failure leaves before end(): the capture is over when it is reported.
Result<std::unique_ptr<CudaGraph>> CudaRecording::capture(const Segment& segment) {
  CudaCapture capture(queues_[0]->stream());
  PIPER_RETURN_IF_ERROR(capture.begin());
  PIPER_RETURN_IF_ERROR(issue_segment(segment));
  return capture.end();
}

Status CudaRecording::issue_segment(const Segment& segment) {
  cudaStream_t first = queues_[0]->stream();
  PIPER_CUDA(cudaEventRecord(fork_->handle(), first));
  for (const size_t queue : segment.queues)
    PIPER_CUDA(cudaStreamWaitEvent(queues_[queue]->stream(), fork_->handle(), 0));
  for (issued_ = segment.begin; issued_ < segment.end; ++issued_)
    if (!by_segments_ || !cut_.ordered_by_cut[issued_]) PIPER_RETURN_IF_ERROR(issue(commands_[issued_], issued_));
  for (const size_t queue : segment.queues) {
    PIPER_CUDA(cudaEventRecord(joins_[queue - 1]->handle(), queues_[queue]->stream()));
    PIPER_CUDA(cudaStreamWaitEvent(first, joins_[queue - 1]->handle(), 0));
  }
  return {};
}

Status CudaRecording::issue(const Issue& command, size_t index) {
  if (raised(submission_.wait)) return stopped();
  Queue& queue = *queues_.at(static_cast<size_t>(command.queue));
  if (timed_) PIPER_CUDA(cudaEventRecord(begins_[index]->handle(), stream_of(queue)));
  Status status;
  try {
    status = command.command->issue(queue, submission_);
  } catch (const InternalError& bug) {
    status = Status::failure("bug", bug.what());
  } catch (const std::exception& failure) {
    status = Status::failure("R0403", failure.what());
  }
  if (!status.ok()) {
    failing_ = &command;
    return status;
  }
  if (timed_) PIPER_CUDA(cudaEventRecord(ends_[index]->handle(), stream_of(queue)));
  return {};
}

Status CudaRecording::tell(const Issue* command, Status failure) {
  std::vector<int32_t> at = positions();
  if (command != nullptr) at[static_cast<size_t>(command->queue)] = command->instruction;
  observer_->failed(command == nullptr ? -1 : command->queue, command == nullptr ? -1 : command->instruction,
                    std::move(failure), at);
  return stopped();
}

// A step takes as long as it takes; it fails where none of its events has passed for the time that a message may take.
Status CudaRecording::finish() {
  if (observer_ == nullptr) return {};
  const auto done = [this]() -> Result<bool> {
    const cudaError_t error = cudaEventQuery(done_->handle());
    if (error == cudaSuccess) return true;
    if (error != cudaErrorNotReady) return cuda_status(error, "a step on the device");
    if (!raised(submission_.wait)) PIPER_RETURN_IF_ERROR(observer_->watch());
    return false;
  };
  Status status = wait_until(submission_.wait, done, [] { return "the device to finish a step"; }, this);
  if (is_stopped(status)) return status;
  if (!status.ok()) return tell(nullptr, std::move(status));
  return timed_ ? tell_times() : Status();
}

Status CudaRecording::make_timers() {
  PIPER_ASSIGN(start_, CudaEvent::make("start", true));
  for (auto* list : {&begins_, &ends_})
    for (size_t i = 0; i < commands_.size(); ++i) {
      PIPER_ASSIGN(auto event, CudaEvent::make("time", true));
      list->push_back(std::move(event));
    }
  return {};
}

Status CudaRecording::tell_times() {
  const auto since_start = [this](const CudaEvent& event, Clock::time_point& time) -> Status {
    float ms = 0;
    PIPER_CUDA(cudaEventElapsedTime(&ms, start_->handle(), event.handle()));
    time = start_time_ + std::chrono::nanoseconds(static_cast<int64_t>(1e6 * static_cast<double>(ms)));
    return {};
  };
  for (size_t i = 0; i < commands_.size(); ++i) {
    Clock::time_point begin, end;
    PIPER_RETURN_IF_ERROR(since_start(*begins_[i], begin));
    PIPER_RETURN_IF_ERROR(since_start(*ends_[i], end));
    observer_->ran(commands_[i].instruction, begin, end, std::chrono::nanoseconds(end - begin).count());
  }
  return {};
}

// A queue is past the last event of the plan that has happened: at the command that follows it. Events in a graph
// cannot be asked: while it runs, its queues are at their first commands in it.
std::vector<int32_t> CudaRecording::positions() const {
  const auto has_passed = [](const CudaEvent& event) { return cudaEventQuery(event.handle()) == cudaSuccess; };
  size_t segment = 0;
  if (by_segments_)
    while (segment < submitted_ && has_passed(*passed_[segment])) ++segment;
  const size_t begin = by_segments_ && segment < cut_.list.size() ? cut_.list[segment].begin : 0;
  std::vector<int32_t> at(queues_.size(), -1);
  if (by_segments_ && segment == cut_.list.size()) return at;
  std::vector<bool> known(queues_.size(), false);
  for (size_t i = issued_; i-- > begin;) {
    const auto queue = static_cast<size_t>(commands_[i].queue);
    if (known[queue]) continue;
    const auto* record = dynamic_cast<const CudaRecordEvent*>(commands_[i].command);
    if (record != nullptr && !in_graph(i) && has_passed(record->event())) known[queue] = true;
    else at[queue] = commands_[i].instruction;
  }
  return at;
}

bool CudaRecording::in_graph(size_t command) const {
  if (!by_segments_) return false;
  for (const Segment& segment : cut_.list)
    if (command < segment.end) return segment.captured;
  return false;
}

}  // namespace piper::hal
