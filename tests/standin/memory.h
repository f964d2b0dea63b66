// The stand-in's memory. Device memory is mapped twice: device addresses lie in a mapping that nobody may touch, so
// that a host access is a fault; what happens on a stream goes through an alias. Asynchronous copies take page-locked
// host memory alone: CUDA would take any, and wait where one does not want to.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "tests/standin/race_detector.h"

namespace piper::standin {

class DeviceMemory {
 public:
  static DeviceMemory& instance();
  void* allocate(size_t size);
  // The bytes that begin there, allocated and not freed; 0: none.
  size_t size_at(void* place);
  void release(void* place);
  bool contains(const void* place) const;
  // Whether all of it is memory that was allocated and not freed, in one piece.
  bool holds(const void* place, size_t bytes);
  std::byte* alias(const void* place) const { return alias_ + (static_cast<const std::byte*>(place) - guarded_); }

 private:
  DeviceMemory();

  std::byte *guarded_ = nullptr, *alias_ = nullptr;
  std::mutex mutex_;
  std::map<size_t, size_t> free_, taken_;  // offset -> bytes
};

class PageLocked {
 public:
  static PageLocked& instance();
  void add(void* place, size_t bytes);
  size_t remove(void* place);  // the bytes that were there; 0: nothing begins there
  bool holds(const void* place, size_t bytes);

 private:
  std::mutex mutex_;
  std::map<std::byte*, size_t> blocks_;
};

// Where bytes lie that a stream touches; nullptr where it must not touch them.
std::byte* touched(const void* place, size_t bytes, bool asynchronous);
bool all_allocated(const std::vector<Range>& ranges);

}  // namespace piper::standin
