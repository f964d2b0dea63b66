#include "runtime/data/permutation.h"

#include <bit>

#include "runtime/data/philox.h"
#include "schemas/base/check.h"

namespace piper::data {

namespace {

// A round of few bits changes little: at 12 rounds some of the 720 orders of six samples come far more often than
// others, at 24 none does.
constexpr int kFewBits = 16;
constexpr uint32_t kRounds = 12, kRoundsOfFew = 32;
// Rounds are above the purpose in the counter's first word.
constexpr uint32_t kRoundShift = 16;

// One round's key is seed and epoch; an input is the part that stays, of at most 32 bits.
struct RoundFunction {
  uint64_t seed, epoch;
  uint32_t operator()(uint32_t round, uint64_t part) const {
    return philox4x32_10({static_cast<uint32_t>(Purpose::kShuffle) | round << kRoundShift, static_cast<uint32_t>(epoch),
                          static_cast<uint32_t>(part), static_cast<uint32_t>(epoch >> 32)},
                         seed)[0];
  }
};

}  // namespace

int64_t permuted_sample(uint64_t seed, int64_t epoch, int64_t samples, int64_t position) {
  PIPER_CHECK(position >= 0 && position < samples && epoch >= 0, "position ", position, " of ", samples, " samples");
  const auto count = static_cast<uint64_t>(samples);
  const int bits = std::bit_width(count - 1), low_bits = bits - bits / 2;  // at most 63, 32
  const uint64_t low_mask = (uint64_t{1} << low_bits) - 1, high_mask = (uint64_t{1} << (bits / 2)) - 1;
  const uint32_t rounds = bits <= kFewBits ? kRoundsOfFew : kRounds;
  const RoundFunction mixed{seed, static_cast<uint64_t>(epoch)};
  auto value = static_cast<uint64_t>(position);
  do {
    uint64_t low = value & low_mask, high = value >> low_bits;
    for (uint32_t round = 0; round < rounds; round += 2) {
      low ^= mixed(round, high) & low_mask;
      high ^= mixed(round + 1, low) & high_mask;
    }
    value = high << low_bits | low;
  } while (value >= count);  // ends: a bijection comes back to where it began
  return static_cast<int64_t>(value);
}

}  // namespace piper::data
