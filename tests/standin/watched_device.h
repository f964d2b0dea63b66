// A device whose recordings a test sees, or changes on their way.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/hal/device.h"

namespace piper::standin {

struct Watch {
  // For a recording, before it is made; what is put in lives as long as the recording.
  std::function<void(hal::Device& device, std::vector<hal::Issue>& commands)> commands;
  std::function<void(const hal::Recording& recording)> recorded;
};
std::unique_ptr<hal::Device> watch_device(std::unique_ptr<hal::Device> device, Watch watch);

}  // namespace piper::standin
