// The places of those threads of a block that have something to say, in the threads' order. For .cu files.
#pragma once

#include "runtime/kernels/cuda/device_code.h"

namespace piper::kernels::cuda {

// How many of the block's threads before this one say `wanted`, and how many do in all.
struct RankInBlock {
  int before, all;
};
// By all kThreads threads of the block.
template <int kThreads>
__device__ RankInBlock rank_in_block(bool wanted) {
  __shared__ int of_warps[kThreads / kWarp];
  const unsigned lanes = __ballot_sync(kAllLanes, wanted);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  __syncthreads();  // what was left here by the last call has been read
  if (lane == 0) of_warps[warp] = __popc(lanes);
  __syncthreads();
  RankInBlock rank = {__popc(lanes & ((1u << lane) - 1)), 0};
  for (int w = 0; w < kThreads / kWarp; ++w) {
    rank.before += w < warp ? of_warps[w] : 0;
    rank.all += of_warps[w];
  }
  return rank;
}

}  // namespace piper::kernels::cuda
