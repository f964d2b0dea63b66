// How much memory beside its operands a kernel call may take while it runs. piperc counts it in a rank's predicted
// peak; on GPUs calls that take more are reported when a plan is loaded (runtime/exec/rehearse.h).
#pragma once

#include <cstdint>

#include "schemas/plan/kernels.h"
#include "schemas/plan/plan.h"

namespace piper::plan {

// Bytes that any call may take, whatever its formula says.
inline constexpr int64_t kScratchSlack = 64 * 1024;

// Attention by a predicate goes by blocks of so many queries, whose masks are in scratch: on CPU ranks of one sample,
// on GPUs of all `batch`.
inline constexpr int64_t kAttendsQueries = 128;
int64_t attends_queries_on_gpu(int64_t batch, int64_t keys);

// Upper bound of the scratch of one call on such a device, in bytes, with `threads` intra-op threads. The formulas of
// products, embeddings and attention in f32 on CPUs are those of LibTorch 2.13 and of our own kernels; elsewhere all
// operands are taken to be copied; on GPUs with what LibTorch 2.11's attention takes beside.
int64_t scratch_bytes(const KernelInfo& info, const KernelCall& call, DeviceKind device, int threads = 1);

}  // namespace piper::plan
