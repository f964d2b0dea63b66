// A step of a loaded rank in its smallest pieces: each kernel call and each message is a recording of its own, done
// before the next begins, in the order of the instructions. So values can be looked at that share their bytes with
// later ones. Much slower than a step, which knows nothing of this: made where values are recorded, or one is looked
// for. Other ranks may do the same step in either way: the order of all instructions is free of deadlock (rule 4 of
// schemas/verify).
#pragma once

#include <memory>
#include <vector>

#include "runtime/exec/load_rank.h"

namespace piper::exec {

// A value in the device's memory. `type`: element type, shape and strides.
struct PlacedValue {
  hal::Address at;
  plan::Operand type;
  int32_t output = 0;  // which of a call's outputs, or which of its inputs
};

// Elements that are one after the other.
PlacedValue dense_value(hal::Address at, DType dtype, int64_t count);

struct StepPiece {
  int32_t instruction = 0;
  int32_t call = -1;  // of the instruction's program; -1: a message or a collective
  const plan::KernelCall* kernel = nullptr;
  std::vector<PlacedValue> inputs;        // of a call; of a sum over ranks, what this one adds
  std::vector<PlacedValue> outputs;       // what it makes, or brings; none of a send
  bool reads_outputs = false;             // they count as inputs, too
  std::unique_ptr<hal::Command> command;  // of a call; messages have the rank's own
  std::unique_ptr<hal::Recording> recording;
};

// Called around each piece; a failure ends the step.
class PieceObserver {
 public:
  virtual ~PieceObserver() = default;
  virtual Status before(const StepPiece&) { return {}; }
  // Before after(): nanoseconds of the thread that did it, of the processor; on a GPU those of the device.
  virtual void took(const StepPiece&, int64_t) {}
  virtual Status after(const StepPiece& piece) = 0;
};

// `rank` outlives it. Errors of hal::Device::record().
class CallByCall {
 public:
  static Result<std::unique_ptr<CallByCall>> make(const LoadedRank& rank);
  const std::vector<StepPiece>& pieces() const { return pieces_; }

 private:
  std::vector<StepPiece> pieces_;  // in issue order
};

// A value's bytes on the host: trace::extent_bytes() of them. Nothing may be under way on the device.
Result<std::vector<std::byte>> read_value(hal::Device& device, const PlacedValue& value);

}  // namespace piper::exec
