// What CUDA and NCCL read from the process's environment, set where the user has not set it: a value that is there
// stays. Called before CUDA or NCCL are first asked for anything, while no other thread reads the environment. Needs
// neither of them.
#pragma once

namespace piper::hal {

// CUDA_DEVICE_MAX_CONNECTIONS=32: a plan's streams get a hardware queue each; by default they share eight.
// NCCL_LAUNCH_ORDER_IMPLICIT=1: calls on several communicators of a GPU begin in the order in which the host makes
// them, which is the same on all ranks (level D1 of schemas/verify). Without it NCCL's manual says that they may
// deadlock.
// NCCL_PAT_ENABLE=0: all_gathers and reduce_scatters of ranks that are each on a node of its own go by rings. By trees
// (PAT) NCCL connects each to 2 log2(ranks) others, with 320 MiB a pair on a node of 8 H100, of which the predicted
// memory knows nothing (schemas/plan/device_memory.h).
void set_gpu_environment();

// NCCL_GRAPH_MIXING_SUPPORT=0 where every step is one graph or none, `one_graph`: NCCL then need not order what it
// captures against calls that another graph or no graph makes on the same communicator. Where the host reads counts
// within a step, such calls are under way at once, and the order is needed.
void set_nccl_graph_mixing(bool one_graph);

}  // namespace piper::hal
