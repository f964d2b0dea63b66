// The functions of library_rows.def, for the table and for kernels of a device that leave some operands to the library.
#pragma once

#include "runtime/kernels/binding.h"

namespace piper::kernels::library {

#define PIPER_LIBRARY_ROW(name, function) std::unique_ptr<PreparedKernel> function(const Call& call);
#include "runtime/kernels/library/library_rows.def"
#undef PIPER_LIBRARY_ROW

// Each function of schemas/plan/elementwise.def once.
void call_each_function(const at::Tensor& x);

}  // namespace piper::kernels::library
