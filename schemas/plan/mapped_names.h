// Which file a mapped address belongs to: for a handler of SIGBUS, which the kernel raises where bytes of a mapped file
// are read that are gone. map_file() keeps this table; nobody else writes to it.
#pragma once

#include <cstddef>

namespace piper::plan {

// Remembers that [data, data + bytes) is file `path`, until forget_mapping() of the same `data`. A mapping that finds
// the table full has no name. Thread-safe.
void name_mapping(const void* data, size_t bytes, const char* path);
void forget_mapping(const void* data);

// The path of the mapping that holds `address`, cut to the table's width; null where it is in none. Async-signal-safe;
// the text is good for as long as the mapping is there.
const char* mapped_name(const void* address);

}  // namespace piper::plan
