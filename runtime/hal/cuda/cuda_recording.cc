#include "runtime/hal/cuda/cuda_recording.h"

#include <algorithm>
#include <thread>

#include "runtime/hal/cuda/cuda_check.h"
#include "schemas/base/check.h"

namespace piper::hal {

namespace {

using Clock = StepObserver::Clock;

cudaStream_t stream_of(Queue& queue) { return static_cast<CudaQueue&>(queue).stream(); }

bool raised(const WaitControl& wait) { return wait.stop != nullptr && wait.stop->raised(); }

}  // namespace

Status CudaRecordEvent::issue(Queue& queue, const Submission&) {
  PIPER_CUDA(cudaEventRecord(event_.handle(), stream_of(queue)));
  return {};
}

Result<std::unique_ptr<CudaRecording>> CudaRecording::make(const std::vector<std::unique_ptr<CudaQueue>>& queues,
                                                           std::vector<Issue> commands, uint32_t& submissions,
                                                           CudaRecording*& last) {
  std::unique_ptr<CudaRecording> recording(new CudaRecording(queues, std::move(commands), submissions, last));
  PIPER_ASSIGN(recording->fork_, CudaEvent::make("fork"));
  PIPER_ASSIGN(recording->done_, CudaEvent::make("done"));
  for (size_t queue = 1; queue < queues.size(); ++queue) {
    PIPER_ASSIGN(auto join, CudaEvent::make("join"));
    recording->joins_.push_back(std::move(join));
  }
  return recording;
}

CudaRecording::~CudaRecording() {
  if (last_ == this) last_ = nullptr;
}

Status CudaRecording::submit(const WaitControl& wait, StepObserver& observer, bool timed) {
  submission_ = {++submissions_, wait};
  last_ = this;
  observer_ = &observer;
  timed_ = timed;
  if (timed_ && begins_.empty()) PIPER_RETURN_IF_ERROR(make_timers());
  Status status = issue_all();
  if (status.ok() || is_stopped(status)) return status;
  return tell(-1, -1, std::move(status));
}

// Queue 0 forks to the others and joins them.
Status CudaRecording::issue_all() {
  cudaStream_t first = queues_[0]->stream();
  if (timed_) {
    PIPER_CUDA(cudaEventRecord(start_->handle(), first));
    start_time_ = Clock::now();
  }
  PIPER_CUDA(cudaEventRecord(fork_->handle(), first));
  for (size_t queue = 1; queue < queues_.size(); ++queue)
    PIPER_CUDA(cudaStreamWaitEvent(queues_[queue]->stream(), fork_->handle(), 0));
  for (issued_ = 0; issued_ < commands_.size(); ++issued_) PIPER_RETURN_IF_ERROR(issue(commands_[issued_], issued_));
  for (size_t queue = 1; queue < queues_.size(); ++queue) {
    PIPER_CUDA(cudaEventRecord(joins_[queue - 1]->handle(), queues_[queue]->stream()));
    PIPER_CUDA(cudaStreamWaitEvent(first, joins_[queue - 1]->handle(), 0));
  }
  PIPER_CUDA(cudaEventRecord(done_->handle(), first));
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
  if (is_stopped(status)) return status;
  if (!status.ok()) return tell(command.queue, command.instruction, std::move(status));
  if (timed_) PIPER_CUDA(cudaEventRecord(ends_[index]->handle(), stream_of(queue)));
  return {};
}

Status CudaRecording::tell(int32_t queue, int32_t instruction, Status failure) {
  std::vector<int32_t> at = positions();
  if (queue >= 0) at[static_cast<size_t>(queue)] = instruction;
  observer_->failed(queue, instruction, std::move(failure), at);
  return stopped();
}

// Short steps are waited for without sleep, long ones in slices in which a Stop is noticed.
Status CudaRecording::finish() {
  if (observer_ == nullptr) return {};
  const auto begin = Clock::now();
  for (int64_t round = 0;; ++round) {
    const cudaError_t error = cudaEventQuery(done_->handle());
    if (error == cudaSuccess) break;
    if (error != cudaErrorNotReady) return tell(-1, -1, cuda_status(error, "a step on the device"));
    if (raised(submission_.wait)) return stopped();
    const auto waited = Clock::now() - begin;
    if (waited > submission_.wait.timeout)
      return tell(-1, -1,
                  Status::failure("R0302", "waited " + std::to_string(submission_.wait.timeout.count() / 1000) +
                                               " s for the device to finish a step"));
    if (waited > std::chrono::milliseconds(1)) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
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

// A queue is behind the last event of the plan that has passed: at the command that follows it.
std::vector<int32_t> CudaRecording::positions() const {
  std::vector<int32_t> at(queues_.size(), -1);
  std::vector<bool> known(queues_.size(), false);
  for (size_t i = issued_; i-- > 0;) {
    const auto queue = static_cast<size_t>(commands_[i].queue);
    if (known[queue]) continue;
    const auto* record = dynamic_cast<const CudaRecordEvent*>(commands_[i].command);
    if (record != nullptr && cudaEventQuery(record->event().handle()) == cudaSuccess) known[queue] = true;
    else at[queue] = commands_[i].instruction;
  }
  return at;
}

}  // namespace piper::hal
