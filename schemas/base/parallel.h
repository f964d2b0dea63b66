// A loop whose turns do not touch each other, spread over the machine's cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace piper {

// Calls turn(i) once for every i below `count`, on up to 16 threads, in no order; in the calling thread alone where there is little to do or
// one core or no more threads to be had. The first exception is thrown again here, after all threads have ended.
template <class Turn>
void parallel_for(size_t count, const Turn& turn) {
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t threads = std::min({count, cores, size_t{16}});
  if (threads < 2 || count < 4) {
    for (size_t i = 0; i < count; ++i) turn(i);
    return;
  }
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (size_t i; (i = next.fetch_add(1)) < count;) turn(i);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> others;
  others.reserve(threads - 1);
  try {
    for (size_t t = 1; t < threads; ++t) others.emplace_back(work);
  } catch (const std::system_error&) {
    // The system has no more threads: those that run take all turns.
  }
  work();
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace piper
