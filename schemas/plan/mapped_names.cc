#include "schemas/plan/mapped_names.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace piper::plan {
namespace {

// A handler may not lock or allocate: fixed entries, of which `begin` is written last and cleared first.
struct Entry {
  std::atomic<uintptr_t> begin{0}, end{0};  // begin 0: free
  char path[512] = {};
};
std::array<Entry, 128> entries;
std::mutex writers;

}  // namespace

void name_mapping(const void* data, size_t bytes, const char* path) {
  const std::lock_guard lock(writers);
  for (Entry& entry : entries) {
    if (entry.begin != 0) continue;
    std::strncpy(entry.path, path, sizeof entry.path - 1);
    entry.end = reinterpret_cast<uintptr_t>(data) + bytes;
    entry.begin = reinterpret_cast<uintptr_t>(data);
    return;
  }
}

void forget_mapping(const void* data) {
  const std::lock_guard lock(writers);
  for (Entry& entry : entries)
    if (entry.begin == reinterpret_cast<uintptr_t>(data)) entry.begin = 0;
}

const char* mapped_name(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const Entry& entry : entries)
    if (const uintptr_t begin = entry.begin; begin != 0 && begin <= at && at < entry.end) return entry.path;
  return nullptr;
}

}  // namespace piper::plan
