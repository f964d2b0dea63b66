// The words of the bundle's text format for its enumerations, how operands and buffer ranges are spelt, and how
// messages quote a name. One place for the printers and the parsers of this folder and for the proof's messages; it
// reads nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::plan {

inline constexpr std::string_view kWorkspaceWord = "workspace";  // as an operand; no slot may be called so

// "NAME" as messages show it; a damaged file's name is cut off after 200 bytes.
inline std::string in_quotes(std::string_view name) { return "\"" + std::string(name.substr(0, 200)) + "\""; }

constexpr std::string_view class_name(BufferClass cls) {
  switch (cls) {
    case BufferClass::kArena: return "arena";
    case BufferClass::kParameter: return "parameter";
    case BufferClass::kGradient: return "gradient";
    case BufferClass::kOptimizer: return "optimizer";
    case BufferClass::kState: return "state";
    case BufferClass::kConstant: return "constant";
    case BufferClass::kTraining: return "training";
    case BufferClass::kInput: return "input";
    case BufferClass::kScalar: return "scalar";
  }
  return "";
}

constexpr std::string_view role_name(SlotRole role) {
  switch (role) {
    case SlotRole::kInput: return "input";
    case SlotRole::kOutput: return "output";
    case SlotRole::kSaved: return "saved";
    case SlotRole::kParameter: return "parameter";
    case SlotRole::kGradient: return "gradient";
    case SlotRole::kState: return "state";
    case SlotRole::kConstant: return "constant";
    case SlotRole::kScalar: return "scalar";
    case SlotRole::kMoment: return "moment";
  }
  return "";
}

constexpr std::string_view rate_by_shape_name(RateByShape rule) {
  switch (rule) {
    case RateByShape::kOriginal: return "original";
    case RateByShape::kMatchRmsAdamw: return "match_rms_adamw";
  }
  return "";
}

constexpr std::string_view number_name(StepNumber number) {
  switch (number) {
    case StepNumber::kNone: return "none";
    case StepNumber::kLoss: return "loss";
    case StepNumber::kCount: return "count";
    case StepNumber::kDropped: return "dropped";
    case StepNumber::kSeedStep: return "seed_step";
    case StepNumber::kSampleOffset: return "sample_offset";
    case StepNumber::kPlace: return "place";
    case StepNumber::kLearningRate: return "learning_rate";
    case StepNumber::kLossScale: return "loss_scale";
  }
  return "";
}

constexpr std::string_view spread_name(Spread spread) {
  switch (spread) {
    case Spread::kSame: return "same";
    case Spread::kPart: return "part";
    case Spread::kShare: return "share";
  }
  return "";
}

constexpr std::string_view pass_name(Pass pass) {
  switch (pass) {
    case Pass::kForward: return "F";
    case Pass::kBackward: return "B";
    case Pass::kBackwardInput: return "BI";
    case Pass::kBackwardWeight: return "BW";
    case Pass::kCount: return "C";
    case Pass::kCountFinish: return "N";
  }
  return "";
}

constexpr std::string_view feed_name(Feed feed) {
  switch (feed) {
    case Feed::kTokens: return "tokens";
    case Feed::kNextTokens: return "next_tokens";
    case Feed::kPositions: return "positions";
    case Feed::kDocuments: return "documents";
    case Feed::kNone: return "";
  }
  return "";
}

constexpr std::string_view kind_name(PlacementKind kind) {
  switch (kind) {
    case PlacementKind::kValue: return "value";
    case PlacementKind::kMaster: return "master";
    case PlacementKind::kWorking: return "working";
    case PlacementKind::kGradient: return "gradient";
    case PlacementKind::kFirstMoment: return "m";
    case PlacementKind::kSecondMoment: return "v";
    case PlacementKind::kState: return "state";
    case PlacementKind::kConstant: return "constant";
  }
  return "";
}

constexpr std::string_view priority_name(Priority priority) {
  switch (priority) {
    case Priority::kNormal: return "normal";
    case Priority::kHigh: return "high";
    case Priority::kLow: return "low";
  }
  return "";
}

constexpr std::string_view device_name(DeviceKind device) {
  switch (device) {
    case DeviceKind::kCpu: return "cpu";
    case DeviceKind::kCuda: return "cuda";
  }
  return "";
}

constexpr std::string_view summing_name(Summing summing) {
  switch (summing) {
    case Summing::kPosition: return "position";
    case Summing::kLibrary: return "library";
  }
  return "";
}

// The value of a word, given the function above that has the words of all values and "" after the last.
template <class Enum>
std::optional<Enum> enum_from_name(std::string_view name, std::string_view (*name_of)(Enum)) {
  for (int i = 0; !name_of(static_cast<Enum>(i)).empty(); ++i)
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  return std::nullopt;
}

// A name and a byte offset in one string: "name+128"; "+0" only after a name that itself ends so.
struct NameAndOffset {
  std::string_view name;
  int64_t offset = 0;
};
std::optional<NameAndOffset> split_offset(std::string_view text);
bool ends_like_offset(std::string_view name);

// Row-major strides of a shape, in elements.
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape);
// Number of elements, or nullopt on a negative extent or overflow.
std::optional<int64_t> element_count(const std::vector<int64_t>& shape);

// Whether [offset, offset + bytes) lies inside [0, size), without overflow.
constexpr bool range_inside(int64_t offset, int64_t bytes, int64_t size) {
  return offset >= 0 && bytes >= 0 && offset <= size && bytes <= size - offset;
}

// What is wrong with elements of `size` bytes that are at `offset` of a buffer, as kernels cannot read them there.
std::string no_multiple(int64_t offset, int64_t size, std::string_view buffer);

}  // namespace piper::plan
