// The shim's bf16.
#pragma once

#include "half_bits.h"

using __nv_bfloat16 = piper::shim::HalfBits<piper::DType::kBF16>;
inline float __bfloat162float(__nv_bfloat16 x) { return piper::shim::widened(x); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return piper::shim::narrowed<piper::DType::kBF16>(x); }
