// What values become on their way between the ranks of an expert group, or between the places of a cut, by the names
// that programs have for them. Rules 8 to 10 find it, as they follow every part from the rank that sent it to the run
// that reads it; the rule about equality with the model puts programs together by it. It says nothing of what is in the
// values.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::verify {

struct Exchange {
  std::string sent;     // the name that its maker has for the value
  int64_t devices = 0;  // D of the group: part j of D equal ones went to position j. 0: not the same everywhere
  DType dtype = DType::kF32;
  bool counted = false;  // of as many rows of each part as the data say; else whole parts travel
  int64_t row = 0;       // counted: elements of a row
  // Counted: the names that makers have for how many rows are sent and received, wherever the value travels.
  std::set<std::pair<std::string, std::string>> counts = {};
  // Among the D places of this cut shares were added up, of which each then has the sum or a part of it, or parts were
  // put together; -1: rows were exchanged.
  int32_t cut = -1;
  // Members are at several places of this cut: each sent rows of its own part, or sent those back; -1: they are at one.
  int32_t across = -1;
  enum class By : uint8_t { kAllReduce, kReduceScatter, kAllGather };
  By by = By::kAllReduce;  // where there is a cut
  // What the value came by before that, without a program in between: a sum in parts that are put together, say.
  std::vector<Exchange> before = {};
};
// A value at its arrival: its label, and how often it was converted (Value::conversions).
using Arrived = std::pair<int32_t, int32_t>;
using Exchanges = std::map<std::string, Exchange>;  // by the name that its readers have for the value

}  // namespace piper::verify
