// `all_to_all`: refused on CPU ranks.
#include "runtime/exec/prepare.h"

namespace piper::exec {

Prepared prepare_all_to_all(const plan::AllToAll&, int32_t, PrepareContext&) {
  return Status::failure("R0404", "all_to_all is not supported on CPU ranks");
}

}  // namespace piper::exec
