// How a struct of the plan is listed once for its reader, its writer and its JSON Schema: a function
//
//   void fields(auto& v, Of<Channel> auto& channel) {
//     v("channel", channel.name, {.unique = "channels"});
//     v("peer", channel.peer, {.least = 0});
//   }
//
// calls the visitor `v` for each member, in the order of the text. Visitors: FieldReader (field_reader.h), FieldWriter
// (field_writer.h), and that of describe_format.cc, which writes plan.schema.json. What they have:
//
//   v(key, member, rule)                     a member that is always there; of an std::optional one that may be
//   v.optional(key, member, value, rule)     left out where it is `value`
//   v.unless_empty(key, list)                a list that is left out where it has no item
//   v.where(holds, [&] { v(..); })           members that are there where earlier ones say so
//   v.together(said, [&] { v(..); v(..); })  members that are there or left out, all of them; `said`: what is written
//
// A member is a number, a word of an enumeration, a string, a struct with such a function, or a list of these; others
// are the business of a visitor's own read() or write(). Checks of more than one member are check() of the reader.
// Only readers and writers include this, and the lists: manifest_fields.h, program_fields.h, rank_plan_fields.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "schemas/base/of.h"
#include "schemas/plan/names.h"

namespace piper::plan {

// What a reader refuses of a member, and the schema says.
struct Rule {
  int64_t least = INT64_MIN, most = INT64_MAX;   // of an integer
  bool positive = false;                         // of a real: above 0, and finite
  bool shape = false;                            // of integers: extents whose product is a number of elements
  bool or_empty = false;                         // of a word: "", too
  bool filled = false;                           // of a string: not ""; of numbers: one or more
  std::span<const std::string_view> words = {};  // of a string: one of these
  std::string_view unique = {};  // of a name: what the list is of, in which no two are called alike, or "": "channels"
  std::string_view what = {};    // of a word: what it is, in "unknown buffer class"; its key where that says it
  std::string_view hint = {};    // after that message
  std::string_view says =
      {};  // the message for a number, "KEY is out of range" where it is ""; for a word that is to be left out
  std::string_view as = {};     // the schema's name for such a text
  std::string_view about = {};  // in the schema
};

constexpr std::string_view word_of(BufferClass cls) { return class_name(cls); }
constexpr std::string_view word_of(SlotRole role) { return role_name(role); }
constexpr std::string_view word_of(RateByShape rule) { return rate_by_shape_name(rule); }
constexpr std::string_view word_of(StepNumber number) { return number_name(number); }
constexpr std::string_view word_of(Spread spread) { return spread_name(spread); }
constexpr std::string_view word_of(Pass pass) { return pass_name(pass); }
constexpr std::string_view word_of(Feed feed) { return feed_name(feed); }
constexpr std::string_view word_of(PlacementKind kind) { return kind_name(kind); }
constexpr std::string_view word_of(Priority priority) { return priority_name(priority); }
constexpr std::string_view word_of(DeviceKind device) { return device_name(device); }
constexpr std::string_view word_of(Summing summing) { return summing_name(summing); }
constexpr std::string_view word_of(ModelBuffer buffer) { return model_buffer_name(buffer); }
constexpr std::string_view word_of(DType dtype) { return dtype_name(dtype); }
constexpr std::string_view word_of(Reduction reduction) { return reduction == Reduction::kSum ? "sum" : ""; }

template <class T>
concept IsWord = std::is_enum_v<T>;
template <class T>
concept IsList = requires(T& list) { list.emplace_back(); };
template <class T>
concept IsStruct = std::is_class_v<T> && !IsList<T>;

}  // namespace piper::plan
