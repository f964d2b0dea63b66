// Looks, after each call of a step, for the ones that make numbers that are none: a call whose result has a NaN, and
// what it read has none; or an infinity, and what it read has neither. Masks are full of infinities that the model
// means: a call that only hands one on makes nothing, nor does one that writes a constant.
#pragma once

#include <utility>
#include <vector>

#include "runtime/exec/checks/call_by_call.h"
#include "runtime/trace/digest_values.h"
#include "schemas/digest/step_values.h"

namespace piper::exec {

// A call, or a sum over ranks, that made a NaN or an infinity.
struct NanMaker {
  digest::ValuePlace place;
  bool nan = false;          // else infinite
  bool of_infinity = false;  // a NaN: what it read has an infinity
};

class NanWatch : public PieceObserver {
 public:
  explicit NanWatch(hal::Device& device) : device_(device) {}
  Status before(const StepPiece& piece) override;
  Status after(const StepPiece& piece) override;
  // Since the last call, in the order of the step.
  std::vector<NanMaker> take() { return std::exchange(found_, {}); }

 private:
  Result<trace::NotFinite> look_at(const PlacedValue& value);
  Result<trace::NotFinite> look_at_inputs(const StepPiece& piece);

  hal::Device& device_;
  trace::NotFinite overwritten_;  // in what the piece that is under way writes over
  std::vector<NanMaker> found_;
};

}  // namespace piper::exec
