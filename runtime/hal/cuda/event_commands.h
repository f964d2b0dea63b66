// Records of and waits for events of the plan, as commands on a GPU. Known by name, since graphs are cut between them
// and positions are known by them.
#pragma once

#include "runtime/hal/cuda/cuda_handles.h"
#include "runtime/hal/device.h"

namespace piper::hal {

class CudaRecordEvent : public Command {
 public:
  explicit CudaRecordEvent(CudaEvent& event) : event_(event) {}
  Status issue(Queue& queue, const Submission& submission) override;
  const CudaEvent& event() const { return event_; }

 private:
  CudaEvent& event_;
};

class CudaWaitEvent : public Command {
 public:
  explicit CudaWaitEvent(CudaEvent& event) : event_(event) {}
  Status issue(Queue& queue, const Submission& submission) override;
  const CudaEvent& event() const { return event_; }

 private:
  CudaEvent& event_;
};

}  // namespace piper::hal
