// Elements that are only copied, by their size. For .cu files.
#pragma once

#include "runtime/kernels/cuda/device_code.h"

namespace piper::kernels::cuda {

// Calls body(tag) with a type of as many bytes as typename decltype(tag)::type.
template <class F>
void by_bytes(int bytes, F&& body) {
  switch (bytes) {
    case 1: return body(Type<uint8_t>());
    case 2: return body(Type<uint16_t>());
    case 4: return body(Type<uint32_t>());
    case 8: return body(Type<uint64_t>());
  }
  PIPER_CHECK(false, "elements of ", bytes, " bytes");
}

}  // namespace piper::kernels::cuda
