// A part from every member to every member by point-to-point messages, of which as many rows travel as counts in memory
// say when it runs.
#pragma once

#include <memory>
#include <vector>

#include "runtime/hal/collectives.h"
#include "runtime/hal/transport.h"

namespace piper::hal {

class CountedExchange {
 public:
  // `group`: ranks by position, with the caller's. PIPER_CHECKs the operands, of host memory.
  static std::unique_ptr<CountedExchange> prepare(Transport& transport, std::vector<int32_t> group, int32_t channel,
                                                  const ExchangeOperands& operands);
  // R0304: a count is negative, beyond its part, or not what the other end says of it (where the two are different
  // ranks, the backend finds that: R0301, R0303).
  Status run(const WaitControl& control);

 private:
  Status apply_counts();

  std::vector<int32_t> group_;
  ExchangeOperands operands_;
  size_t position_ = 0;
  std::unique_ptr<Exchange> exchange_;  // a send and a receive for each other position, in order
  int64_t own_bytes_ = 0;               // that stay on this rank
};

}  // namespace piper::hal
