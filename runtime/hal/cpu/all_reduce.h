// The sum over ranks on the CPU: each member owns a contiguous segment, receives the others' parts of
// it, adds them element by element in the order of their positions in the group (position_sum.h), and
// sends the result to all. The bits depend on that order alone, not on backend, bucket or message
// size. Used by the executor's all_reduce instruction; runs piece by piece so that scratch stays small.
#pragma once

#include <memory>
#include <vector>

#include "runtime/hal/transport.h"
#include "runtime/hal/cpu/position_sum.h"

namespace piper::hal {

struct AllReduceSpec {
  std::vector<int32_t> group;  // ranks by position; contains the caller's
  int32_t channel = 0;         // uses `channel` and `channel` + 1
  std::byte* data = nullptr;
  int64_t count = 0;
  plan::SumTypes types;          // ones that can_sum()
  std::byte* scratch = nullptr;  // plan::staged_bytes() + all_reduce_scratch_bytes() bytes, 64-byte aligned
  AddF32 add_f32 = nullptr;
};

class AllReduce {
 public:
  // PIPER_CHECKs the spec; dtypes that cannot be summed are refused by the loader.
  static std::unique_ptr<AllReduce> prepare(Transport& transport, const AllReduceSpec& spec);
  Status run(const WaitControl& control);

 private:
  struct Piece {  // of this member's own segment
    std::byte* own = nullptr;
    int64_t count = 0;
  };

  plan::SumTypes types_;
  std::byte* data_ = nullptr;
  std::byte* staged_ = nullptr;  // all of the data as they travel; nullptr: as they are
  int64_t count_ = 0;
  PositionSum sum_;
  std::vector<Piece> pieces_;                         // one per round
  std::vector<std::unique_ptr<Exchange>> exchanges_;  // rounds + 1
};

}  // namespace piper::hal
