// In place of runtime/exec/backends/open_cuda.cc: piper-run on the stand-ins, without a library to open. What tests
// choose in its environment: PIPER_STANDIN_DEVICES, the number of GPUs, and PIPER_STANDIN_KERNELS=cpu for the CPU's
// kernels on them, which have the CPU's bits, instead of CUDA's own. Races, and barriers that not all threads of a
// block came to, end the process with a message and status 86.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "runtime/bootstrap/rank_environment.h"
#include "runtime/exec/backends/open_cuda.h"
#include "runtime/hal/cuda/cuda_device.h"
#include "runtime/hal/cuda/local_collectives.h"
#include "runtime/hal/nccl/nccl_collectives.h"
#include "schemas/plan/communicator_uses.h"
#include "tests/shim/blocks.h"
#include "tests/standin/nccl_standin.h"
#include "tests/standin/race_detector.h"
#include "tests/standin/standin.h"
#include "tests/standin/standin_backend.h"

namespace piper::exec {

namespace {

constexpr int kMistakes = 86;

void tell_mistakes() {
  const std::string kernel = shim::take_failure();
  if (!kernel.empty()) std::fprintf(stderr, "piper-run-standin: kernel: %s\n", kernel.c_str());
  const std::vector<std::string> races = standin::RaceDetector::instance().take_races();
  for (const std::string& race : races) std::fprintf(stderr, "piper-run-standin: race: %s\n", race.c_str());
  if (!races.empty() || !kernel.empty()) _exit(kMistakes);
}

bool has_cpu_kernels() {
  const char* const kernels = std::getenv("PIPER_STANDIN_KERNELS");
  return kernels != nullptr && std::string_view(kernels) == "cpu";
}

// What CUDA and NCCL would read by now (hal/gpu_environment.h).
void want_variable(const char* name, std::string_view wanted) {
  const char* const value = std::getenv(name);
  if (value == nullptr ? wanted.empty() : value == wanted) return;
  std::fprintf(stderr, "piper-run-standin: %s is %s\n", name, value == nullptr ? "not set" : value);
  _exit(kMistakes);
}

MakeBackend make(const CudaBackendOptions& options) {
  MakeBackend made;
  if (!has_cpu_kernels()) {
    piper_cuda_backend(options, made);
    return [made = std::move(made)](const plan::RankPlan& plan) {
      if (plan::counts_rows(plan)) want_variable("NCCL_GRAPH_MIXING_SUPPORT", "");
      return made(plan);
    };
  }
  return [options](const plan::RankPlan& plan) -> Result<Backend> {
    standin::GpuOptions gpu;
    gpu.graphs = options.graphs;
    PIPER_ASSIGN(Backend backend, standin::open_gpu(options.ordinal, plan, gpu));
    backend.collectives = options.transport != nullptr
                              ? hal::make_cuda_local_collectives(*options.transport, *backend.device, gpu.groups)
                              : hal::make_nccl_collectives(plan, options.summing, *backend.device, gpu.groups);
    return backend;
  };
}

}  // namespace

Result<OpenedCuda> open_cuda() {
  std::atexit(&tell_mistakes);
  want_variable("CUDA_DEVICE_MAX_CONNECTIONS", "32");
  want_variable("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  const char* const devices = std::getenv("PIPER_STANDIN_DEVICES");
  standin::set_devices(devices == nullptr ? 0 : std::atoi(devices));
  const auto environment = bootstrap::read_rank_environment(bootstrap::process_variable);
  standin::set_ranks_are_processes(environment.ok() && environment->size != 1);
  PIPER_ASSIGN(const int count, hal::cuda_devices());
  return OpenedCuda{count, &make};
}

}  // namespace piper::exec
