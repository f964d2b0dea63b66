#include "schemas/verify/program_bytes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/dtype.h"
#include "schemas/plan/kernels.h"

namespace piper::verify {
namespace {

using namespace plan;

struct Bytes {
  int64_t begin = 0, end = 0;
};

// The bytes of an operand: equal runs, `count` of them at every combination of the axes that no run covers.
class Footprint {
 public:
  explicit Footprint(const Operand& operand) : begin_(operand.offset) {
    const int64_t bytes = dtype_bytes(operand.dtype);
    struct Axis {
      int64_t extent, stride;
    };
    std::vector<Axis> axes;
    for (size_t axis = 0; axis < operand.shape.size(); ++axis) {
      const int64_t extent = operand.shape[axis], stride = operand.strides.at(axis);
      if (extent == 0) empty_ = true;
      if (extent > 1 && stride != 0) axes.push_back({extent, stride * bytes});
    }
    std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
    run_ = bytes;
    size_t inner = 0;
    for (; inner < axes.size() && axes[inner].stride == run_; ++inner) run_ *= axes[inner].extent;
    for (; inner < axes.size(); ++inner) {
      runs_ *= axes[inner].extent;
      span_ += (axes[inner].extent - 1) * axes[inner].stride;
      steps_.push_back({axes[inner].extent, axes[inner].stride});
    }
  }

  bool empty() const { return empty_; }
  Bytes whole() const { return {begin_, begin_ + span_ + run_}; }
  int64_t runs() const { return empty_ ? 0 : runs_; }

  // Calls visit(Bytes) for the first `most` runs, until one returns false.
  template <class Visit>
  bool each_run(int64_t most, Visit visit) const {
    std::vector<int64_t> index(steps_.size(), 0);
    int64_t at = begin_;
    for (int64_t run = 0; run < std::min(runs(), most); ++run) {
      if (!visit(Bytes{at, at + run_})) return false;
      for (size_t axis = 0; axis < steps_.size(); ++axis) {
        at += steps_[axis].second;
        if (++index[axis] < steps_[axis].first) break;
        at -= steps_[axis].first * steps_[axis].second;
        index[axis] = 0;
      }
    }
    return true;
  }

 private:
  int64_t begin_ = 0, run_ = 0, span_ = 0, runs_ = 1;
  std::vector<std::pair<int64_t, int64_t>> steps_;  // (extent, stride in bytes) of the axes over runs, innermost first
  bool empty_ = false;
};

// What was written into a slot or the workspace so far, and as elements of which type.
class Written {
 public:
  // From the start, by another: of any type.
  void fill(int64_t bytes) {
    if (bytes > 0) parts_[0] = {bytes, std::nullopt};
  }
  void write(Bytes at, DType dtype) {
    if (at.begin >= at.end) return;
    split(at.begin);
    split(at.end);
    auto first = parts_.lower_bound(at.begin);
    first = parts_.erase(first, parts_.lower_bound(at.end));
    // Neighbours of one type are one part.
    int64_t begin = at.begin, end = at.end;
    if (first != parts_.end() && first->first == end && first->second.dtype == dtype) {
      end = first->second.end;
      first = parts_.erase(first);
    }
    if (first != parts_.begin()) {
      const auto before = std::prev(first);
      if (before->second.end == begin && before->second.dtype == dtype) {
        before->second.end = end;
        return;
      }
    }
    parts_.emplace_hint(first, begin, Part{end, dtype});
  }
  // The first byte of `at` that nobody wrote, or that was written as another type.
  struct Fault {
    int64_t byte = 0;
    std::optional<DType> written_as;  // nothing: not written
  };
  bool meets(Bytes at) const {
    const auto behind = parts_.lower_bound(at.end);
    return behind != parts_.begin() && std::prev(behind)->second.end > at.begin;
  }
  std::optional<Fault> read(Bytes at, std::optional<DType> dtype) const {
    auto part = parts_.upper_bound(at.begin);
    if (part == parts_.begin()) return Fault{at.begin, std::nullopt};
    --part;
    for (int64_t byte = at.begin; byte < at.end; ++part) {
      if (part == parts_.end() || part->first > byte || part->second.end <= byte) return Fault{byte, std::nullopt};
      if (dtype && part->second.dtype && *part->second.dtype != *dtype) return Fault{byte, part->second.dtype};
      byte = part->second.end;
    }
    return std::nullopt;
  }

 private:
  struct Part {
    int64_t end = 0;
    std::optional<DType> dtype;
  };
  void split(int64_t at) {
    auto part = parts_.upper_bound(at);
    if (part == parts_.begin()) return;
    --part;
    if (part->first == at || part->second.end <= at) return;
    const Part rest = part->second;
    part->second.end = at;
    parts_[at] = rest;
  }
  std::map<int64_t, Part> parts_;  // by first byte, none overlap
};

class Walk {
 public:
  explicit Walk(const Program& program) : program_(program), slots_(program.slots.size()), made_(program.slots.size()) {
    for (size_t s = 0; s < slots_.size(); ++s)
      if (program.slots[s].reads) slots_[s].fill(program.slots[s].bytes);
  }

  Status run() {
    for (call_ = 0; call_ < program_.calls.size(); ++call_) PIPER_RETURN_IF_ERROR(visit(program_.calls[call_]));
    for (size_t s = 0; s < slots_.size(); ++s) PIPER_RETURN_IF_ERROR(check_whole(program_.slots[s], made_[s]));
    return {};
  }

 private:
  Status visit(const KernelCall& call) {
    const KernelInfo* info = find_kernel(call.kernel);
    if (info == nullptr) return refuse("is no kernel");
    for (const Operand& input : call.inputs) PIPER_RETURN_IF_ERROR(check_read(input));
    if (call.accumulate || reads_outputs(call.kernel))
      for (const Operand& output : call.outputs) PIPER_RETURN_IF_ERROR(check_read(output));
    for (size_t o = 0; o < call.outputs.size(); ++o) PIPER_RETURN_IF_ERROR(check_places(call, *info, o));
    for (const Operand& output : call.outputs) write(output);
    return {};
  }

  Status check_read(const Operand& operand) {
    if (operand.slot == Operand::kAbsent) return {};
    const Written& written = space(operand);
    std::optional<Written::Fault> fault;
    Footprint(operand).each_run(kMostRuns, [&](Bytes at) {
      fault = written.read(at, operand.dtype);
      return !fault;
    });
    if (!fault) return {};
    return refuse("reads byte " + std::to_string(fault->byte) + " of " + name(operand) +
                  (fault->written_as ? " as " + std::string(dtype_name(operand.dtype)) + ", which was written as " +
                                           std::string(dtype_name(*fault->written_as))
                                     : ", which nothing has written"));
  }

  // Output `index` against all inputs and the outputs behind it.
  Status check_places(const KernelCall& call, const KernelInfo& info, size_t index) {
    const Operand& output = call.outputs[index];
    if (output.slot == Operand::kAbsent) return {};
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const Operand& input = call.inputs[i];
      const bool in_place = index == 0 && info.in_place == static_cast<int>(i) && output.slot == input.slot &&
                            output.offset == input.offset && output.dtype == input.dtype &&
                            output.shape == input.shape && output.strides == input.strides;
      if (!in_place && share(output, input))
        return refuse("writes output " + std::to_string(index) + " over bytes of input " + std::to_string(i) + ", in " +
                      name(output));
    }
    for (size_t o = index + 1; o < call.outputs.size(); ++o)
      if (share(output, call.outputs[o]))
        return refuse("writes outputs " + std::to_string(index) + " and " + std::to_string(o) +
                      " over one another, in " + name(output));
    return {};
  }

  static bool share(const Operand& a, const Operand& b) {
    if (a.slot == Operand::kAbsent || a.slot != b.slot) return false;
    const Footprint first(a), second(b);
    if (first.empty() || second.empty()) return false;
    const auto meet = [](Bytes x, Bytes y) { return x.begin < y.end && y.begin < x.end; };
    if (!meet(first.whole(), second.whole())) return false;
    if (first.runs() == 1 && second.runs() == 1) return true;
    // Slices of one matrix lie between one another.
    Written taken;
    first.each_run(kMostRuns, [&](Bytes at) {
      taken.write(at, DType::kBool);
      return true;
    });
    return !second.each_run(kMostRuns, [&](Bytes at) { return !taken.meets(at); });
  }

  void write(const Operand& operand) {
    if (operand.slot == Operand::kAbsent) return;
    const Footprint footprint(operand);
    if (footprint.empty()) return;
    const auto into = [&](Written& written) {
      if (footprint.runs() > kMostRuns) return written.write(footprint.whole(), operand.dtype);
      footprint.each_run(kMostRuns, [&](Bytes at) {
        written.write(at, operand.dtype);
        return true;
      });
    };
    into(space(operand));
    if (operand.slot != Operand::kWorkspace && leaves(program_.slots.at(static_cast<size_t>(operand.slot))))
      into(made_[static_cast<size_t>(operand.slot)]);
  }

  // Blocks of saved values have gaps between them; states and moments are written by kernels that work in place.
  static bool leaves(const Slot& slot) {
    return slot.writes && slot.bytes > 0 &&
           (slot.role == SlotRole::kOutput || slot.role == SlotRole::kScalar || slot.role == SlotRole::kGradient);
  }
  Status check_whole(const Slot& slot, const Written& made) const {
    if (!leaves(slot)) return {};
    const auto fault = made.read({0, slot.bytes}, std::nullopt);
    if (!fault) return {};
    return Status::failure("P0635", "rule 7: program " + program_.name + " leaves byte " + std::to_string(fault->byte) +
                                        " of slot \"" + slot.name + "\" unwritten, which it declares to write");
  }

  Written& space(const Operand& operand) {
    return operand.slot == Operand::kWorkspace ? workspace_ : slots_.at(static_cast<size_t>(operand.slot));
  }
  std::string name(const Operand& operand) const {
    return operand.slot == Operand::kWorkspace
               ? "the workspace"
               : "slot \"" + program_.slots.at(static_cast<size_t>(operand.slot)).name + "\"";
  }
  Status refuse(const std::string& why) const {
    const KernelCall& call = program_.calls[call_];
    return Status::failure("P0635", "rule 7: program " + program_.name + " call " + std::to_string(call_) + " (" +
                                        call.kernel + (call.origin.empty() ? "" : " of " + call.origin) + ") " + why);
  }

  const Program& program_;
  size_t call_ = 0;
  Written workspace_;
  std::vector<Written> slots_;  // with what was there before
  std::vector<Written> made_;   // by this program, of slots that leave it
};

}  // namespace

Status check_program_bytes(const Program& program) { return Walk(program).run(); }

}  // namespace piper::verify
