// What a step is made of: commands, each for one queue of a device, made at load and issued once a step. On a queue of
// the CPU issuing is doing: the queue's own thread issues, and the command is done when issue() returns. On a queue of
// a GPU issue() only enqueues. Commands are made by the device (device.h), by its collectives (collectives.h) and by
// who binds its kernels (runtime/exec).
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/hal/polling.h"
#include "runtime/hal/stop.h"
#include "schemas/base/status.h"

namespace piper::hal {

// In-order execution on a device. What it holds is the device's own business.
class Queue {
 public:
  virtual ~Queue() = default;
};

// One submission of a recording.
struct Submission {
  uint32_t number = 0;  // from 1, over all recordings of the device: what events count
  WaitControl wait;
  const Progress* progress = nullptr;  // of the submission; nullptr: unknown
};

class Command {
 public:
  virtual ~Command() = default;
  // Allocates nothing and looks nothing up. R03xx communication, R0403 a kernel failed, R0406 experts are over their
  // capacity; stopped() after a failure elsewhere.
  virtual Status issue(Queue& queue, const Submission& submission) = 0;
  // Why issuing it once is not enough for a device that replays what was issued (a graph); nullptr: it is. The words go
  // after "it cannot be part of a graph: " and live as long as the command.
  virtual const char* prevents_capture() const { return nullptr; }
};

using MadeCommand = Result<std::unique_ptr<Command>>;

}  // namespace piper::hal
