// What running a program does to contents, worked out once per program: which values it reads and makes,
// which parameters it reads, what it does to accumulators. Programs that only move, add and clear are
// kept as a list of such calls, to be followed call by call; of others ("compute") the kernels are
// trusted. Used by the rules about contents (contents_flow.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::verify {

// Strings as ids, from 0.
class Names {
 public:
  int32_t id(const std::string& name);
  int32_t find(const std::string& name) const;  // -1: none
  const std::string& operator[](int32_t id) const { return names_[static_cast<size_t>(id)]; }
  size_t size() const { return names_.size(); }

 private:
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<std::string> names_;
};

// What values are called (held_name.h), as ids, from 0: what a number of the step is called is never a value's label.
class Labels {
 public:
  int32_t id(const std::string& name, plan::StepNumber number = plan::StepNumber::kNone);
  const std::string& operator[](int32_t id) const { return all_[static_cast<size_t>(id)].first; }
  plan::StepNumber number(int32_t id) const { return all_[static_cast<size_t>(id)].second; }

 private:
  std::map<std::pair<std::string, plan::StepNumber>, int32_t> ids_;
  std::vector<std::pair<std::string, plan::StepNumber>> all_;
};

// A kind of addend of a sum: what the programs of one chunk, of all passes and sizes, add into slots that hold one
// thing (held_name.h).
struct Addend {
  std::string chunk, slot;
  int32_t tensor = -1;  // where the slot is a gradient's: the tensor's id, else -1
  plan::StepNumber number = plan::StepNumber::kNone;
  int32_t share = -1;  // over which cut it is a share: index into Manifest::cuts; -1: every place adds all of it
};
class Addends {
 public:
  int32_t id(const Addend& addend);
  const Addend& operator[](int32_t id) const { return all_[static_cast<size_t>(id)]; }
  size_t size() const { return all_.size(); }

 private:
  std::map<std::tuple<std::string, std::string, int32_t, plan::StepNumber, int32_t>, int32_t> ids_;
  std::vector<Addend> all_;
};

struct ProgramEffects {
  // Why no run may be of this program, or "": it has slots in roles that runs have no use for, or, beside a reference,
  // it belongs to no chunk and does more than can be followed.
  std::string not_run;
  std::vector<std::string> slots;  // what they hold (held_name.h)
  struct Bound {
    int32_t slot = -1, what = -1;
    int64_t bytes = 0;
  };  // bytes of the slot
  enum class Do : uint8_t {
    kAdd,      // adds its samples
    kAssign,   // replaces by its samples
    kConsume,  // uses the sum
    kClear,
  };
  struct OnSum {
    int32_t slot = -1;
    Do act = Do::kAdd;
    int32_t addend = -1;
    int64_t bytes = 0;
  };
  // Compute programs.
  std::vector<Bound> reads, writes;  // values; what = label
  std::vector<Bound> scalars;        // read; what = label
  std::vector<Bound> parameters;     // what = tensor, -1 where the model has none of that name
  std::vector<Bound> constants;
  std::vector<Bound> statistics;  // what = tensor
  std::vector<OnSum> sums;        // in order
  // Slots that dropout reads as the position of its first sample; -1: it reads something else.
  std::vector<int32_t> sample_offsets;
  // Programs to follow.
  enum class Op : uint8_t {
    kClear,
    kCopy,
    kAdd,
    kAddInto,
    kSquareSum,
    kOverflows,
    kClip,
    kUnscale,
    kAdvance,
    kAdvanceLossScale
  };
  struct Place {
    int32_t slot = -1;
    int64_t offset = 0, bytes = 0;
    DType dtype = DType::kF32;
  };  // slot -1: workspace
  struct Call {
    Op op = Op::kClear;
    std::vector<Place> outputs, inputs;
  };
  bool follow = false;
  std::vector<Call> calls;
};

// Labels name values; tensors are parameters of the model.
std::vector<ProgramEffects> program_effects(const plan::Bundle& bundle, const Names& tensors, Labels& labels,
                                            Addends& addends);

}  // namespace piper::verify
