// LibTorch's operators of library_rows.def as those of a device: on views of the host's memory, run where they are
// called.
#pragma once

#include <memory>

#include "runtime/kernels/kernel.h"

namespace piper::shim {

std::unique_ptr<const kernels::Library> host_operators();

}  // namespace piper::shim
