// What tests ask of the stand-in for CUDA beside CUDA's own functions.
#pragma once

#include <cstddef>

namespace piper::standin {

// How many GPUs there are from now on; 1 at first.
void set_devices(int count);
// Where a stream finds bytes of device or page-locked memory; nullptr where it must not look.
std::byte* alias(const void* place, size_t bytes);

}  // namespace piper::standin
