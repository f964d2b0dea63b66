// The softmax of attention.
#pragma once

#include "compiler/frontend/aten/call.h"

namespace piper::frontend::aten {

// Softmax along an axis; a row of nothing but -inf, which may attend to nothing, is 0 and has the gradient 0.
ValueId safe_softmax(Call& c, ValueId x, int64_t dim);

}  // namespace piper::frontend::aten
