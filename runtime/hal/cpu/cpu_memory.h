// Memory of CPU ranks: mappings with huge pages, filled at once, refused before the machine or its cgroup runs out.
// Used by cpu_device.cc.
#pragma once

#include "runtime/hal/device.h"

namespace piper::hal {

// R0405.
Result<std::unique_ptr<MemoryRegion>> map_memory(int64_t bytes, const DeviceOptions& options);

}  // namespace piper::hal
