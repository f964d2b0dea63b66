// Digests of orders of additions (sum_order.h): 64 bits, by XXH3.
#pragma once

#include <cstdint>
#include <string_view>

namespace piper::verify {

class OrderDigest {
 public:
  OrderDigest& add(std::string_view text);  // with its length
  OrderDigest& add(int64_t number);
  OrderDigest& add(uint64_t digest) { return add(static_cast<int64_t>(digest)); }
  // The same for both orders of the two.
  OrderDigest& add_unordered(uint64_t a, uint64_t b);
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

}  // namespace piper::verify
