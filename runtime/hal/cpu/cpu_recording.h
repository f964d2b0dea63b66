// Commands of a step on a CPU device: each queue's thread walks its own list, all at once. Used by cpu_device.cc.
#pragma once

#include <memory>
#include <vector>

#include "runtime/hal/cpu/queue_threads.h"
#include "runtime/hal/device.h"

namespace piper::hal {

// `threads` and `submissions`, the number of the device's last submission, outlive the recording.
std::unique_ptr<Recording> make_cpu_recording(QueueThreads& threads, uint32_t& submissions,
                                              const std::vector<Issue>& commands);

}  // namespace piper::hal
