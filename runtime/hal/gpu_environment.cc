#include "runtime/hal/gpu_environment.h"

#include <cstdlib>

namespace piper::hal {

namespace {

constexpr int kKeepsTheUsers = 0;

}  // namespace

void set_gpu_environment() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kKeepsTheUsers);
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", kKeepsTheUsers);
  setenv("NCCL_PAT_ENABLE", "0", kKeepsTheUsers);
}

void set_nccl_graph_mixing(bool one_graph) {
  if (one_graph) setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", kKeepsTheUsers);
}

}  // namespace piper::hal
