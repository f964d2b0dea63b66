// Random choices that are the same for one seed with every compiler and library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace piper::mutate {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  // A number of [0, count); count > 0.
  size_t below(size_t count) { return static_cast<size_t>(engine_() % count); }
  bool coin() { return below(2) == 0; }
  template <class T>
  const T& of(const std::vector<T>& all) {
    return all[below(all.size())];
  }
  template <class T>
  T& of(std::vector<T>& all) {
    return all[below(all.size())];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace piper::mutate
