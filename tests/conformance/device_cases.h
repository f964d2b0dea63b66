// What every device must do: memory, uploads and downloads, order of commands on queues and between them, failures. A
// case returns what is wrong, or "".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/hal/device.h"

namespace piper::conformance {

using MakeDevice = std::function<std::unique_ptr<hal::Device>(size_t queues)>;

struct DeviceCase {
  const char* name;
  std::string (*run)(const MakeDevice& make);
};
std::vector<DeviceCase> device_cases();

}  // namespace piper::conformance
