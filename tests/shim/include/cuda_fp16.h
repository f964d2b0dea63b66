// The shim's f16.
#pragma once

#include "half_bits.h"

using __half = piper::shim::HalfBits<piper::DType::kF16>;
inline float __half2float(__half x) { return piper::shim::widened(x); }
inline __half __float2half_rn(float x) { return piper::shim::narrowed<piper::DType::kF16>(x); }
