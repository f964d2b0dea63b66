// `reduce_scatter`: refused on CPU ranks.
#include "runtime/exec/prepare.h"

namespace piper::exec {

Prepared prepare_reduce_scatter(const plan::ReduceScatter&, int32_t, PrepareContext&) {
  return Status::failure("R0404", "reduce_scatter is not supported on CPU ranks");
}

}  // namespace piper::exec
