// The first half of a sum over ranks on the CPU: every member ends with the sum of its own part, added
// in the order of the positions in the group (position_sum.h). Used by the executor's reduce_scatter
// instruction; runs piece by piece so that scratch stays small.
#pragma once

#include <memory>
#include <vector>

#include "runtime/hal/transport.h"
#include "runtime/hal/cpu/position_sum.h"

namespace piper::hal {

struct ReduceScatterSpec {
  std::vector<int32_t> group;  // ranks by position; contains the caller's
  int32_t channel = 0;
  const std::byte* data = nullptr;  // [members, count]
  std::byte* out = nullptr;         // [count]: the own part of `data`, or apart from it
  int64_t count = 0;                // elements of a part
  plan::SumTypes types;             // ones that can_sum()
  std::byte* scratch = nullptr;     // plan::staged_bytes() + reduce_scatter_scratch_bytes() bytes, 64-byte aligned
  AddF32 add_f32 = nullptr;
};

class ReduceScatter {
 public:
  // PIPER_CHECKs the spec.
  static std::unique_ptr<ReduceScatter> prepare(Transport& transport, const ReduceScatterSpec& spec);
  Status run(const WaitControl& control);

 private:
  struct Piece {  // of this member's part
    std::byte* own = nullptr;
    std::byte* out = nullptr;
    int64_t count = 0;
  };
  const std::byte* own_ = nullptr;  // the own part of the data
  std::byte* out_ = nullptr;
  int64_t bytes_ = 0;  // of a part
  plan::SumTypes types_;
  const std::byte* data_ = nullptr;
  std::byte* staged_ = nullptr;  // all of the data as they travel; nullptr: as they are
  PositionSum sum_;
  std::vector<Piece> pieces_;  // one per exchange
  std::vector<std::unique_ptr<Exchange>> exchanges_;
};

}  // namespace piper::hal
