// In place of open_cuda.cc where the build has no CUDA.
#include "runtime/exec/backends/open_cuda.h"

namespace piper::exec {

Result<OpenedCuda> open_cuda() {
  return Status::failure("R0106",
                         "this piper-run was built without CUDA (PIPER_WITH_CUDA): it executes plans on CPU ranks, "
                         "--device cpu, with --comm local, mpi or ucx");
}

}  // namespace piper::exec
