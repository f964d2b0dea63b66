// Communication of ranks on GPUs by NCCL.
#pragma once

#include <memory>

#include "runtime/hal/collectives.h"
#include "runtime/hal/device.h"
#include "runtime/hal/position_group.h"

namespace piper::hal {

// `summing`: of the manifest. `kernels`: for sums that are not NCCL's. `plan` and `device` outlive the result and its
// commands. The communicators are made by open_groups(), those of the plan's channels, too.
std::unique_ptr<Collectives> make_nccl_collectives(const plan::RankPlan& plan, plan::Summing summing, Device& device,
                                                   GroupKernels kernels);

}  // namespace piper::hal
