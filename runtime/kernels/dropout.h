// Counter-based dropout: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). The mask of an element is a function of the seed, the step, the dropout's key, the sample's
// position in the step's batch and the element's index within the sample: cutting the batch, or placing
// its pieces elsewhere, changes no mask. Used by the dropout kernel, forward and backward, and by its test.
//
// Layout of one block, which serves four neighbouring elements of a sample:
//   purpose   = splitmix64(key of the dropout xor 0x64726f706f757400)      ("dropout\0")
//   key       = (low 32 bits of the seed, high 32 bits of the seed xor high 32 bits of purpose)
//   counter   = (element index / 4, sample position, step, low 32 bits of purpose)
//   element e = word e % 4 of philox(counter, key)
//   uniform u = (word >> 8) * 2^-24, kept where u >= p, then multiplied by 1 / (1 - p)
// Of a part of a tensor the kernel says which elements of the whole it has (MaskedPart), so that places have the masks
// of one device. Element indices are row-major in the model's own tensor without its batch axis; sample positions,
// steps and element index / 4 stay below 2^32.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace piper::kernels {

// For `places` parts, each with `row` elements of a sample in a row, the one at `place`.
struct MaskedPart {
  int64_t places = 1, row = 1, place = 0;
  int64_t in_whole(int64_t element) const { return (element / row * places + place) * row + element % row; }
};

struct DropoutStream {
  uint32_t key0, key1, step, purpose;
};

inline uint64_t splitmix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

inline DropoutStream dropout_stream(uint64_t seed, uint64_t step, uint64_t dropout_key) {
  const uint64_t purpose = splitmix64(dropout_key ^ 0x64726f706f757400ull);
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32) ^ static_cast<uint32_t>(purpose >> 32),
          static_cast<uint32_t>(step), static_cast<uint32_t>(purpose)};
}

// One block, in place.
inline void philox4x32_10(uint32_t& c0, uint32_t& c1, uint32_t& c2, uint32_t& c3, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = static_cast<uint64_t>(0xd2511f53u) * c0, b = static_cast<uint64_t>(0xcd9e8d57u) * c2;
    const uint32_t next0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ key0;
    const uint32_t next2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ key1;
    c1 = static_cast<uint32_t>(b);
    c3 = static_cast<uint32_t>(a);
    c0 = next0;
    c2 = next2;
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
}

// Words of the elements 4 * block .. 4 * block + 3 of a sample.
inline std::array<uint32_t, 4> dropout_words(const DropoutStream& stream, uint32_t sample, uint32_t block) {
  std::array<uint32_t, 4> c{block, sample, stream.step, stream.purpose};
  philox4x32_10(c[0], c[1], c[2], c[3], stream.key0, stream.key1);
  return c;
}

// An element is kept where (word >> 8) >= threshold: exactly u >= p.
inline uint32_t dropout_threshold(double p) { return static_cast<uint32_t>(std::ceil(p * 16777216.0)); }

}  // namespace piper::kernels
