#include "runtime/hal/ucx/ucx_transport.h"

namespace piper::hal {

Result<std::unique_ptr<UcxTransport>> UcxTransport::join(ControlChannel&, Reach, const WaitControl&) {
  return Status::failure("R0104",
                         "this piper-run was built without UCX. Install UCX with its headers, configure the build "
                         "again, or start the ranks by mpirun, or all in one process with --comm local");
}

void UcxTransport::leave_signals_alone() {}

}  // namespace piper::hal
