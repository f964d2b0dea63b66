// Complex numbers while ATen calls are imported. The op set has none: a complex result is a list of its real and its
// imaginary part (None where that is 0). `real`, `imag`, `view_as_real` and Fourier transforms read it; some calls have
// a function of their own for it, and some are made of each part. Any other call refuses the list as an argument that
// must be a tensor.
#pragma once

#include <string>

#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {

// Argument `self`, a tensor of f32, as a complex number: what a cast to torch.complex64 gives. P0306 for other types.
Item complex_of_real(Call& call);

bool is_complex(const Item& x);

// Whether a call with a complex first operand gives each part what it gives of it.
bool is_part_wise(const std::string& target);
// The function of a call that has complex operands, where that is another; null elsewhere.
Handler of_complex(const std::string& target);

}  // namespace piper::frontend::aten
