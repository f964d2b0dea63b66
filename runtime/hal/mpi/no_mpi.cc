#include "runtime/hal/mpi/mpi_transport.h"

namespace piper::hal {

Result<std::unique_ptr<MpiTransport>> MpiTransport::make() {
  return Status::failure("R0104",
                         "this piper-run was built without MPI. Install an MPI library with its headers, configure the "
                         "build again, or run all ranks in one process with --comm local");
}

}  // namespace piper::hal
