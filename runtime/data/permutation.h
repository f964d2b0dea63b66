// One random permutation of the samples per epoch in constant memory: a keyed Feistel network whose rounds are Philox,
// over the smallest power of two that holds the samples; a value outside is permuted again until it is inside (Black
// and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). The two parts take turns instead of changing
// places, so that an odd number of bits is as good as an even one (as in NIST SP 800-38G, FF1). Where a position goes
// depends on seed, epoch, position and number of samples alone; any position of any epoch costs the same.
#pragma once

#include <cstdint>

namespace piper::data {

// The sample at `position` of `epoch`, all from 0: a bijection of [0, samples) for each seed and epoch. Fewer than two
// turns of the network on average. 0 <= position < samples, 0 <= epoch < 2^62.
int64_t permuted_sample(uint64_t seed, int64_t epoch, int64_t samples, int64_t position);

}  // namespace piper::data
