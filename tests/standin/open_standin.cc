// In place of runtime/exec/open_cuda.cc: piper-run on the stand-ins, whose GPUs PIPER_STANDIN_DEVICES counts, without a
// library to open.
#include <cstdlib>

#include "runtime/exec/cuda_backend.h"
#include "runtime/hal/cuda/cuda_device.h"
#include "tests/standin/standin.h"

namespace piper::exec {

Result<OpenedCuda> open_cuda() {
  const char* const devices = std::getenv("PIPER_STANDIN_DEVICES");
  standin::set_devices(devices == nullptr ? 0 : std::atoi(devices));
  PIPER_ASSIGN(const int count, hal::cuda_devices());
  return OpenedCuda{count, [](const CudaBackendOptions& options) {
                      MakeBackend made;
                      piper_cuda_backend(options, made);
                      return made;
                    }};
}

}  // namespace piper::exec
