// Every member's part at every member, by point-to-point messages of whole parts. Used by the
// executor's all_gather instruction.
#pragma once

#include <memory>
#include <vector>

#include "runtime/hal/transport.h"

namespace piper::hal {

struct AllGatherSpec {
  std::vector<int32_t> group;  // ranks by position; contains the caller's
  int32_t channel = 0;
  const std::byte* part = nullptr;  // the own part of `data`, or apart from it
  std::byte* data = nullptr;        // [members, bytes]
  int64_t bytes = 0;                // of a part
};

class AllGather {
 public:
  // PIPER_CHECKs the spec.
  static std::unique_ptr<AllGather> prepare(Transport& transport, const AllGatherSpec& spec);
  Status run(const WaitControl& control);

 private:
  const std::byte* part_ = nullptr;
  std::byte* own_ = nullptr;  // where the own part goes
  int64_t bytes_ = 0;
  std::unique_ptr<Exchange> exchange_;  // nullptr: nobody else, or nothing
};

}  // namespace piper::hal
