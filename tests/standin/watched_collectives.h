// Collectives over the stand-in for NCCL that a test looks at when they go.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/standin/nccl_backend.h"

namespace piper::standin {

// By the rank's thread: before its collectives go, and after that, with nullptr.
using LookAtEnd = std::function<void(int32_t rank, const hal::Collectives* collectives)>;
// Ranks on the stand-in for NCCL, with sums by position.
MakeRank watched_nccl(const GpuOptions& options, const LookAtEnd& at_end);

}  // namespace piper::standin
