// Launch of the optimizers.
#pragma once

#include <cstdint>

#include "schemas/plan/dtype.h"
#include "schemas/plan/optimizers.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

// Ranges of `count` elements on the device, each dense.
struct Update {
  plan::UpdateRule rule = plan::UpdateRule::kSgd;
  DType type = DType::kF32, working_type = DType::kF32;
  // nullptr where the rule has none; the gradient is cleared.
  void *parameter = nullptr, *gradient = nullptr, *first_moment = nullptr, *second_moment = nullptr;
  void* working = nullptr;  // the parameter in working_type; nullptr: none
  int64_t count = 0;
  // For the manifest. decoupled: weight decay as AdamW has it. kSgd: without a first moment there is no momentum.
  double momentum = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  double rate = 1;  // of the learning rate, that of these elements
  bool decoupled = false, nesterov = false;
  const double* learning_rate = nullptr;
  const int64_t* step = nullptr;    // from 1
  const float* factor = nullptr;    // on the gradient; nullptr: 1
  const float* overflow = nullptr;  // where it is not 0, the gradient is cleared and nothing else done; nullptr: 0
};
void launch_update(const Update& update, cudaStream_t stream);

}  // namespace piper::kernels::cuda
