// Memory of a GPU that a rank takes beside the buffers and the scratch of its plan. Part of the predicted peak of plans
// for GPUs (RankSummary::peak_bytes); 0 for CPU ranks.
#pragma once

#include "schemas/plan/plan.h"

namespace piper::plan {

// What NCCL keeps for the plan's communicators and channels where ranks are connected by NVLink or PCI; over a network
// it keeps less on the device. Buffers belong to connections: of a communicator with one other rank, in one direction,
// one for each of NCCL's channels (CTAs). Their sizes are those of NCCL 2.28: LL 8 lines x 512 threads x 8 steps x 16
// bytes, LL128 120 elements x 640 threads x 8 steps x 8 bytes, Simple NCCL_BUFFSIZE = 4 MiB (src/init.cc), at the
// receiver, and what the ends tell each other, in pieces of 2 MiB (src/transport/p2p.cc). A stream's max_ctas bounds
// the channels; without it NCCL opens at most as many as kNcclChannels, on a node of 8 H100 with NVSwitch. Not yet
// compared with what a GPU says: the runtime measures it at its start (peak_memory_bytes of the log).
inline constexpr int64_t kConnectionReceiveBytes = int64_t{10} << 20;
inline constexpr int64_t kConnectionSendBytes = int64_t{2} << 20;
inline constexpr int64_t kNcclChannels = 32;
int64_t communicator_bytes(const RankPlan& plan, const Target& target);

// What kernels keep for parts of their sums: at most kKernelPartBytes a call, once for runs that agree in all operands.
inline constexpr int64_t kKernelPartBytes = int64_t{64} << 10;
int64_t kernel_part_bytes(const std::vector<Program>& programs, const RankPlan& plan, const Target& target);

}  // namespace piper::plan
