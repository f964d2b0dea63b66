// One random permutation of the samples per epoch, made when an epoch is first asked for. The last
// two are kept, because a batch may span an epoch's end. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

namespace piper::data {

class EpochPermutations {
 public:
  EpochPermutations(uint64_t seed, int64_t num_samples) : seed_(seed), num_samples_(num_samples) {}
  // Sample at `position` of `epoch`, both from 0.
  int64_t at(int64_t epoch, int64_t position) const;

 private:
  struct Epoch {
    int64_t number = -1;
    std::vector<int64_t> samples;
  };
  uint64_t seed_;
  int64_t num_samples_;
  mutable std::mutex mutex_;
  mutable std::array<Epoch, 2> kept_;  // by parity of the epoch
};

// Fisher-Yates with one draw per position: counter (kShuffle, epoch, position).
std::vector<int64_t> epoch_permutation(uint64_t seed, int64_t epoch, int64_t num_samples);

}  // namespace piper::data
