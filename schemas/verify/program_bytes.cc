#include "schemas/verify/program_bytes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schemas/plan/dtype.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/signature.h"
#include "schemas/verify/rules.h"

namespace piper::verify {
namespace {

using namespace plan;

struct Bytes {
  int64_t begin = 0, end = 0;
};

// Runs of two operands that are compared one by one, where nothing simpler says whether they share bytes.
constexpr int64_t kMostCompared = int64_t{1} << 20;

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

  // Whether it lies apart from another because their runs, or stretches of several, come back in one and the same step
  // and lie apart within it, as slices of one tensor do. False: that does not tell.
  bool is_apart(const Footprint& other) const {
    int64_t mine = run_;
    for (size_t i = 0; i <= steps_.size(); ++i) {
      int64_t others = other.run_;
      for (size_t j = 0; j <= other.steps_.size(); ++j) {
        const int64_t step = std::gcd(step_from(i), other.step_from(j));
        if (step == 0) break;  // one stretch each
        const int64_t ahead = ((other.begin_ - begin_) % step + step) % step;
        if (mine <= ahead && ahead + others <= step) return true;
        if (j < other.steps_.size()) others += (other.steps_[j].first - 1) * other.steps_[j].second;
      }
      if (i < steps_.size()) mine += (steps_[i].first - 1) * steps_[i].second;
    }
    return false;
  }

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
  // For which all steps from this axis on are multiples; 0: there are none.
  int64_t step_from(size_t axis) const {
    int64_t step = 0;
    for (; axis < steps_.size(); ++axis) step = std::gcd(step, steps_[axis].second);
    return step;
  }

  int64_t begin_ = 0, run_ = 0, span_ = 0, runs_ = 1;
  std::vector<std::pair<int64_t, int64_t>> steps_;  // (extent, stride in bytes) of the axes over runs, innermost first
  bool empty_ = false;
};

// What was written into a slot or the workspace so far: as elements of which type, and under which name. Or what was
// read of it.
class Written {
 public:
  struct As {
    std::optional<DType> dtype;  // nothing: from the start, by another, of whatever type
    std::string_view name;       // of an operand that is read by its name; "": of another
    bool operator==(const As& other) const { return dtype == other.dtype && name == other.name; }
  };

  void fill(int64_t bytes) {
    if (bytes > 0) parts_[0] = {bytes, {}};
  }
  void write(Bytes at, As as) {
    if (at.begin >= at.end) return;
    split(at.begin);
    split(at.end);
    auto first = parts_.lower_bound(at.begin);
    first = parts_.erase(first, parts_.lower_bound(at.end));
    // Neighbours that are alike are one part.
    int64_t begin = at.begin, end = at.end;
    if (first != parts_.end() && first->first == end && first->second.as == as) {
      end = first->second.end;
      first = parts_.erase(first);
    }
    if (first != parts_.begin()) {
      const auto before = std::prev(first);
      if (before->second.end == begin && before->second.as == as) {
        before->second.end = end;
        return;
      }
    }
    parts_.emplace_hint(first, begin, Part{end, as});
  }
  bool meets(Bytes at) const {
    const auto behind = parts_.lower_bound(at.end);
    return behind != parts_.begin() && std::prev(behind)->second.end > at.begin;
  }
  // Calls visit(Bytes, As) for what is in `at`, until it returns false; false, too, where a byte was never written,
  // which is then `at.begin`.
  template <class Visit>
  bool read(Bytes& at, Visit visit) const {
    auto part = parts_.upper_bound(at.begin);
    if (part == parts_.begin()) return false;
    for (--part; at.begin < at.end; ++part) {
      if (part == parts_.end() || part->first > at.begin || part->second.end <= at.begin) return false;
      const Bytes here{at.begin, std::min(at.end, part->second.end)};
      if (!visit(here, part->second.as)) return false;
      at.begin = here.end;
    }
    return true;
  }
  bool covers(Bytes at) const {
    return read(at, [](Bytes, const As&) { return true; });
  }
  // What in `at` is of another type, or is under another name.
  std::optional<As> differs(Bytes at, As as) const {
    auto part = parts_.upper_bound(at.begin);
    if (part != parts_.begin() && std::prev(part)->second.end > at.begin) --part;
    for (; part != parts_.end() && part->first < at.end; ++part) {
      const As& other = part->second.as;
      if (other.dtype != as.dtype || (!other.name.empty() && !as.name.empty() && other.name != as.name)) return other;
    }
    return std::nullopt;
  }
  // What was written as elements of a type.
  Layout layout() const {
    Layout parts;
    for (const auto& [begin, part] : parts_)
      if (part.as.dtype) parts.push_back({begin, part.end, *part.as.dtype, part.as.name});
    return parts;
  }

 private:
  struct Part {
    int64_t end = 0;
    As as;
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
  explicit Walk(const Program& program)
      : program_(program), slots_(program.slots.size()), made_(program.slots.size()), asked_(program.slots.size()) {
    for (size_t s = 0; s < slots_.size(); ++s)
      if (program.slots[s].reads) slots_[s].fill(program.slots[s].bytes);
  }

  Status run() {
    for (call_ = 0; call_ < program_.calls.size(); ++call_) PIPER_RETURN_IF_ERROR(visit(program_.calls[call_]));
    for (size_t s = 0; s < slots_.size(); ++s) PIPER_RETURN_IF_ERROR(check_whole(program_.slots[s], made_[s]));
    return {};
  }
  SlotLayouts layouts(Layouts& layouts) const {
    SlotLayouts all;
    for (size_t s = 0; s < slots_.size(); ++s) {
      const bool block = program_.slots[s].role == SlotRole::kSaved;
      all.push_back({layouts.id(asked_[s].layout(), block), layouts.id(slots_[s].layout(), block)});
    }
    return all;
  }

 private:
  Status visit(const KernelCall& call) {
    const KernelInfo* info = find_kernel(call.kernel);
    if (info == nullptr) return refuse("is no kernel");
    if (const std::string wrong = misfit(*info, call); !wrong.empty())
      return refuse("does not fit its kernel: " + wrong);
    const Signature& signature = signature_of(*info);
    for (size_t i = 0; i < call.inputs.size(); ++i)
      PIPER_RETURN_IF_ERROR(check_read(call.inputs[i], name_of(signature.inputs, i)));
    if (call.accumulate || info->reads_outputs)
      for (size_t o = 0; o < call.outputs.size(); ++o)
        if ((call.accumulate && !signature.outputs[o].work) || signature.outputs[o].in_place)
          PIPER_RETURN_IF_ERROR(check_read(call.outputs[o], {}));
    for (size_t o = 0; o < call.outputs.size(); ++o) PIPER_RETURN_IF_ERROR(check_places(call, *info, o));
    for (size_t i = 0; i < signature.inputs.size() && i < call.inputs.size(); ++i)
      if (signature.inputs[i].in_place) PIPER_RETURN_IF_ERROR(check_changed(call, i));
    const std::string_view copied = call.kernel == Kernel::kCopy ? name_there(call.inputs[0]) : std::string_view();
    for (size_t i = 0; i < call.inputs.size(); ++i)
      if (i < signature.inputs.size() && signature.inputs[i].in_place) write(call.inputs[i], {});
    for (size_t o = 0; o < call.outputs.size(); ++o)
      write(call.outputs[o], copied.empty() ? name_of(signature.outputs, o) : copied);
    return {};
  }

  static std::string_view name_of(const std::vector<OperandSignature>& operands, size_t index) {
    return index < operands.size() && operands[index].by_name ? operands[index].name : std::string_view();
  }
  // Under which name the first byte of an operand was written.
  std::string_view name_there(const Operand& operand) {
    std::string_view name;
    Bytes first{operand.offset, operand.offset + 1};
    (void)space(operand).read(first, [&](Bytes, const Written::As& as) {
      name = as.name;
      return true;
    });
    return name;
  }

  Status check_read(const Operand& operand, std::string_view by_name) {
    if (operand.slot == Operand::kAbsent) return {};
    const Written& written = space(operand);
    const Written::As as{operand.dtype, by_name};
    Status fault;
    bool from_outside = false;
    const Footprint footprint(operand);
    footprint.each_run(kMostRuns, [&](Bytes at) {
      const bool whole = written.read(at, [&](Bytes here, const Written::As& there) {
        if (!there.dtype) from_outside = true;
        else if (*there.dtype != operand.dtype)
          fault = refuse("reads byte " + std::to_string(here.begin) + " of " + name(operand) + " as " +
                         std::string(dtype_name(operand.dtype)) + ", which was written as " +
                         std::string(dtype_name(*there.dtype)));
        else if (!by_name.empty() && there.name != by_name)
          fault = refuse("reads byte " + std::to_string(here.begin) + " of " + name(operand) + " as \"" +
                         std::string(by_name) + "\", where " +
                         (there.name.empty() ? "something else" : "\"" + std::string(there.name) + "\"") + " is");
        return fault.ok();
      });
      if (!whole && fault.ok())
        fault =
            refuse("reads byte " + std::to_string(at.begin) + " of " + name(operand) + ", which nothing has written");
      return fault.ok();
    });
    if (!fault.ok() || !from_outside) return fault;
    // Nearly always an earlier call has read the same, or the operand is one run.
    const Written& asked = asked_[static_cast<size_t>(operand.slot)];
    if (by_name.empty() && asked.covers(footprint.whole()) && !asked.differs(footprint.whole(), as)) return {};
    footprint.each_run(kMostRuns, [&](Bytes at) {
      fault = ask(operand, at, as);
      return fault.ok();
    });
    return fault;
  }

  // What the program takes to be in a slot: one thing at a place.
  Status ask(const Operand& operand, Bytes at, const Written::As& as) {
    Written& asked = asked_[static_cast<size_t>(operand.slot)];
    if (const auto other = asked.differs(at, as))
      return refuse(
          "reads " + name(operand) + " from byte " + std::to_string(at.begin) + " on as " +
          std::string(as.name.empty() ? dtype_name(*as.dtype) : as.name) + ", an earlier call as " +
          std::string(other->name.empty() || other->dtype != as.dtype ? dtype_name(*other->dtype) : other->name));
    if (!as.name.empty() || !asked.covers(at)) asked.write(at, as);  // a name that was asked for is not forgotten
    return {};
  }

  // Output `index` against all inputs and the outputs after it.
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

  // An input that is written in place against all others.
  Status check_changed(const KernelCall& call, size_t index) const {
    for (size_t i = 0; i < call.inputs.size(); ++i)
      if (i != index && share(call.inputs[index], call.inputs[i]))
        return refuse("changes input " + std::to_string(index) + " over bytes of input " + std::to_string(i) + ", in " +
                      name(call.inputs[index]));
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
    if (first.is_apart(second)) return false;
    if (first.runs() > kMostCompared || second.runs() > kMostCompared) return true;
    Written taken;
    first.each_run(kMostCompared, [&](Bytes at) {
      taken.write(at, {});
      return true;
    });
    return !second.each_run(kMostCompared, [&](Bytes at) { return !taken.meets(at); });
  }

  void write(const Operand& operand, std::string_view by_name) {
    if (operand.slot == Operand::kAbsent) return;
    const Footprint footprint(operand);
    if (footprint.empty()) return;
    const auto into = [&](Written& written) {
      const Written::As as{operand.dtype, by_name};
      if (footprint.runs() > kMostRuns) return written.write(footprint.whole(), as);
      footprint.each_run(kMostRuns, [&](Bytes at) {
        written.write(at, as);
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
    Bytes all{0, slot.bytes};
    if (made.read(all, [](Bytes, const Written::As&) { return true; })) return {};
    return violates(Rule::kPrograms, "program " + program_.name + " leaves byte " + std::to_string(all.begin) +
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
    return violates(Rule::kPrograms, "program " + program_.name + " call " + std::to_string(call_) + " (" +
                                         call.kernel.text() + (call.origin.empty() ? "" : " of " + call.origin) + ") " +
                                         why);
  }

  const Program& program_;
  size_t call_ = 0;
  Written workspace_;
  std::vector<Written> slots_;  // with what was there before
  std::vector<Written> made_;   // by this program, of slots that leave it
  std::vector<Written> asked_;  // of what was there before
};

}  // namespace

Result<SlotLayouts> check_program_bytes(const Program& program, Layouts& layouts) {
  Walk walk(program);
  PIPER_RETURN_IF_ERROR(walk.run());
  return walk.layouts(layouts);
}

}  // namespace piper::verify
