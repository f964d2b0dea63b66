// Windows over images as an axis, for what slides them in another way than the kernels of convolutions and pools do.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/frontend/aten/call.h"

namespace piper::frontend::aten {

// The elements of the windows over all axes from the third on: [N, C, ..] -> [N, C, kernel, windows..].
ValueId columns(Call& c, ValueId x, const std::vector<int64_t>& kernel, const ir::ConvolutionAttrs& attrs);

}  // namespace piper::frontend::aten
