// Copies what nobody reads soon, as the snapshot of a checkpoint: past the caches. A store through them first reads the
// line that it overwrites, a third of all traffic; glibc's memcpy avoids that only for pieces larger than a share of
// the last cache, tensors are smaller.
#pragma once

#include <cstdint>

namespace piper::hal {

// `bytes` from `from` to `to`, of any alignment, which do not overlap. Other threads see the copy as they see one of
// memcpy.
void stream_copy(void* to, const void* from, int64_t bytes);

}  // namespace piper::hal
