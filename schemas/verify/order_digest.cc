#include "schemas/verify/order_digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

namespace piper::verify {

OrderDigest& OrderDigest::add(std::string_view text) {
  add(static_cast<int64_t>(text.size()));
  value_ = XXH3_64bits_withSeed(text.data(), text.size(), value_);
  return *this;
}

OrderDigest& OrderDigest::add(int64_t number) {
  value_ = XXH3_64bits_withSeed(&number, sizeof number, value_);
  return *this;
}

OrderDigest& OrderDigest::add_unordered(uint64_t a, uint64_t b) { return add(std::min(a, b)).add(std::max(a, b)); }

}  // namespace piper::verify
