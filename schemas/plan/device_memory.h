// Memory of a GPU that a rank takes beside the buffers and the scratch of its plan. Part of the predicted peak of plans
// for GPUs (RankSummary::peak_bytes); 0 for CPU ranks.
#pragma once

#include "schemas/plan/communicator_uses.h"
#include "schemas/plan/plan.h"

namespace piper::plan {

// What NCCL keeps for the plan's communicators and channels. Not yet compared with what a GPU says: the runtime
// measures it at its start (peak_memory_bytes of the log). A stream's max_ctas bounds NCCL's channels (CTAs); without
// it NCCL opens at most as many as kNcclChannels, on a node of 8 H100 with NVSwitch. Sizes are those of NCCL 2.28.
//
// Where NVLink or PCI connects ranks, and everywhere if the target does not say how many ranks a node has: buffers
// belong to connections, of a communicator with one other rank, in one direction, one for each of NCCL's channels. LL 8
// lines x 512 threads x 8 steps x 16 bytes, LL128 120 elements x 640 threads x 8 steps x 8 bytes, Simple
// NCCL_BUFFSIZE = 4 MiB (src/init.cc), at the receiver, and what the ends tell each other, in pieces of 2 MiB
// (src/transport/p2p.cc). For messages an upper bound, whatever connects the ranks; sums
// between nodes may take more.
inline constexpr int64_t kConnectionReceiveBytes = int64_t{10} << 20;
inline constexpr int64_t kConnectionSendBytes = int64_t{2} << 20;
inline constexpr int64_t kNcclChannels = 32;

// Communicators with members on several nodes (src/transport/net.cc) have at most kNetworkChannels: NCCL finds one for
// each of 8 adapters of 400 Gbit/s, doubles them, and doubles them again only below 16 (src/graph/connect.cc).
// - Messages of all peers on other nodes share one pool a direction, of 16 steps x 128 KiB for each channel
//   (sharedNetBuffersInit, NCCL_SHARED_STEPS, NCCL_P2P_NET_CHUNKSIZE), and channels are a power of two
//   (ncclTopoComputeP2pChannels, src/graph/paths.cc). A rank also has the pools from which its neighbours on the node
//   send, since a message leaves by the rank that is next to its adapter (PXN). LL has no buffers here.
// - Members on the same node are connected as above, by at most 4 channels a pair: as many as a network needs
//   (ncclTopoGetNchannels: 2, and in NCCL 2.29 one for each 14 GB/s of an adapter of 400 Gbit/s).
// - Sums and gathers have buffers of their own at both ends of a connection, LL128 and Simple, in pieces of 2 MiB. Each
//   way there are at most one connection of a ring and four of a tree (all_reduce). Trees of all_gathers are switched
//   off (runtime/hal/gpu_environment.h).
inline constexpr int64_t kNetworkChannels = 16;
inline constexpr int64_t kNetworkPoolBytes = int64_t{16} * (int64_t{128} << 10);  // of a channel
inline constexpr int64_t kNetworkConnectionBytes = int64_t{10} << 20;             // at either end
inline constexpr int64_t kNetworkPeerChannels = 4;

int64_t communicator_bytes(const RankPlan& plan, const Target& target);
// `uses`: of the plan, or of another one with the same instructions.
int64_t communicator_bytes(const RankPlan& plan, const CommunicationUses& uses, const Target& target);
// The least of it over all ways in which the ranks may lie on nodes.
int64_t least_communicator_bytes(const RankPlan& plan, const Target& target);

// What kernels keep for parts of their sums: at most kKernelPartBytes a call, once for runs that agree in all operands.
inline constexpr int64_t kKernelPartBytes = int64_t{64} << 10;
int64_t kernel_part_bytes(const std::vector<Program>& programs, const RankPlan& plan, const Target& target);

}  // namespace piper::plan
