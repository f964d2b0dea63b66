#include "runtime/data/permutation.h"

#include <utility>

#include "runtime/data/philox.h"

namespace piper::data {

std::vector<int64_t> epoch_permutation(uint64_t seed, int64_t epoch, int64_t num_samples) {
  std::vector<int64_t> samples(static_cast<size_t>(num_samples));
  for (int64_t i = 0; i < num_samples; ++i) samples[static_cast<size_t>(i)] = i;
  for (int64_t i = num_samples - 1; i > 0; --i) {
    const uint64_t bits = random_bits(seed, Purpose::kShuffle, static_cast<uint64_t>(epoch), static_cast<uint32_t>(i));
    std::swap(samples[static_cast<size_t>(i)], samples[static_cast<size_t>(bits % static_cast<uint64_t>(i + 1))]);
  }
  return samples;
}

int64_t EpochPermutations::at(int64_t epoch, int64_t position) const {
  std::lock_guard lock(mutex_);
  Epoch& kept = kept_[static_cast<size_t>(epoch % 2)];
  if (kept.number != epoch) kept = {epoch, epoch_permutation(seed_, epoch, num_samples_)};
  return kept.samples[static_cast<size_t>(position)];
}

}  // namespace piper::data
