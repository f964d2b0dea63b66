// `all_gather`: refused on CPU ranks.
#include "runtime/exec/prepare.h"

namespace piper::exec {

Prepared prepare_all_gather(const plan::AllGather&, int32_t, PrepareContext&) {
  return Status::failure("R0404", "all_gather is not supported on CPU ranks");
}

}  // namespace piper::exec
