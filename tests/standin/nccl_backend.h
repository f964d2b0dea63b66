// Ranks of one process on the stand-ins for GPUs and NCCL, a GPU for each.
#pragma once

#include "tests/standin/standin_backend.h"
#include "tests/standin/train.h"

namespace piper::standin {

// There must be a GPU for each rank (standin.h).
exec::MakeBackend nccl_backend(plan::Summing summing, GpuOptions options);
// train() on as many GPUs as there are ranks; On::kCpu is the CPU.
Status train_over_nccl(const Training& training, On on, plan::Summing summing);

}  // namespace piper::standin
