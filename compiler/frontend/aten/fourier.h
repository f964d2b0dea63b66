// Complex numbers while ATen calls are imported. The op set has none: a complex result is a list of its real and its
// imaginary part (None where that is 0), which `real`, `imag`, `view_as_real` and Fourier transforms read. Any other
// call refuses the list as an argument that must be a tensor.
#pragma once

#include "compiler/frontend/aten/call.h"

namespace piper::frontend::aten {

// Argument `self`, a tensor of f32, as a complex number: what a cast to torch.complex64 gives. P0306 for other types.
Item complex_of_real(Call& call);

}  // namespace piper::frontend::aten
