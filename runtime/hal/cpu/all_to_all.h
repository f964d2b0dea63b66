// A part from every member to every member, by point-to-point messages; whole parts, or as many rows
// of each as counts in memory say when it runs. Used by the executor's all_to_all instruction.
#pragma once

#include <memory>
#include <vector>

#include "runtime/hal/transport.h"

namespace piper::hal {

struct AllToAllSpec {
  std::vector<int32_t> group;  // ranks by position; contains the caller's
  int32_t channel = 0;
  const std::byte* send = nullptr;  // [members, bytes]
  std::byte* recv = nullptr;        // [members, bytes], apart from `send`
  int64_t bytes = 0;                // of a part
  // [members] each, read when it runs, or nullptr both: rows to and from each position.
  const int64_t* send_counts = nullptr;
  const int64_t* recv_counts = nullptr;
  int64_t row_bytes = 0;  // of a row where there are counts
};

class AllToAll {
 public:
  // PIPER_CHECKs the spec.
  static std::unique_ptr<AllToAll> prepare(Transport& transport, const AllToAllSpec& spec);
  // R0304: a count is negative, beyond its part, or not what the other end says of it (where the two
  // are different ranks, the backend finds that: R0301, R0303).
  Status run(const WaitControl& control);

 private:
  Status apply_counts();

  AllToAllSpec spec_;
  size_t position_ = 0;
  std::unique_ptr<Exchange> exchange_;  // a send and a receive for each other position, in order
  int64_t own_bytes_ = 0;               // that stay on this rank
};

}  // namespace piper::hal
