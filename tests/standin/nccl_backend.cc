#include "tests/standin/nccl_backend.h"

#include <utility>

#include "runtime/hal/nccl/nccl_collectives.h"
#include "tests/standin/standin.h"

namespace piper::standin {

exec::MakeBackend nccl_backend(plan::Summing summing, GpuOptions options) {
  return [summing, options = std::move(options)](const plan::RankPlan& plan) -> Result<exec::Backend> {
    PIPER_ASSIGN(exec::Backend backend, open_gpu(plan.rank, plan, options));
    backend.collectives = hal::make_nccl_collectives(plan, summing, *backend.device, options.groups);
    return backend;
  };
}

Status train_over_nccl(const Training& training, On on, plan::Summing summing) {
  if (on == On::kCpu) return train(training, on);
  set_devices(static_cast<int>(training.bundle->ranks.size()));
  Status status = train(training, [&](hal::Transport&) { return nccl_backend(summing, gpu_options(training, on)); });
  set_devices(1);
  return status;
}

}  // namespace piper::standin
