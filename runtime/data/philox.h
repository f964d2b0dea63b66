// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11): a counter-based
// generator, so a random choice depends on what it is for and on nothing that ran before it. Used for
// sampling; the same generator with other purposes serves dropout in the kernels.
#pragma once

#include <array>
#include <cstdint>

namespace piper::data {

using PhiloxCounter = std::array<uint32_t, 4>;

inline PhiloxCounter philox4x32_10(PhiloxCounter counter, uint64_t key) {
  auto low = static_cast<uint32_t>(key);
  auto high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ low, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ high, static_cast<uint32_t>(a)};
    low += 0x9E3779B9u;
    high += 0xBB67AE85u;
  }
  return counter;
}

// First word of the counter.
enum class Purpose : uint32_t {
  kData = 1,     // where a sample starts in a token stream
  kShuffle = 2,  // the permutation of an epoch
  kMix = 3,      // where the sources of a mix begin to take turns
  kSource = 4,   // the seed of a source's permutations
  kInit = 5,     // initial values of parameters
};

// The first 64 bits for (purpose, a, b): counter words purpose, a, b, upper half of a.
inline uint64_t random_bits(uint64_t seed, Purpose purpose, uint64_t a, uint32_t b) {
  const PhiloxCounter out = philox4x32_10(
      {static_cast<uint32_t>(purpose), static_cast<uint32_t>(a), b, static_cast<uint32_t>(a >> 32)}, seed);
  return out[0] | uint64_t{out[1]} << 32;
}

}  // namespace piper::data
