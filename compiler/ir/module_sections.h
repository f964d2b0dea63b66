// What the sections of a module's text share, and the functions that print and read each: print_module.cc and
// parse_module.cc put them together, and the file named beside each defines them. Not for users of module_text.h.
#pragma once

#include <iosfwd>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/attrs_text.h"
#include "compiler/ir/module.h"
#include "compiler/ir/text_reader.h"

namespace piper::ir {

// Words of an enumeration, by its enumerators' numbers.
using Words = std::span<const std::string_view>;

// ---------------------------------------------------------------- printing
std::string span_text(diag::Span span);  // "@0:5:3+7"
template <class IdType>
std::string id_text(IdType id) {  // "3", "none"
  return id.valid() ? std::to_string(id.index) : "none";
}
// "F", "B", "BW", "C", "N".
std::string_view phase_text(Phase phase);
// "[0 x4, 1]": `text` makes an entry's text; equal neighbours are written once.
template <class List, class Text>
std::string repeated_text(const List& list, const Text& text) {
  std::string all = "[";
  for (size_t i = 0; i < list.size();) {
    size_t end = i + 1;
    while (end < list.size() && list[end] == list[i]) ++end;
    all += (i > 0 ? ", " : "") + text(list[i]) + (end - i > 1 ? " x" + std::to_string(end - i) : "");
    i = end;
  }
  return all + "]";
}
// "[0..3, 5]" of indices; more than one entry that count up are a range.
std::string ranges_text(const std::vector<uint32_t>& indices);
std::string ranges_text(const std::vector<int32_t>& indices);  // not negative
template <class Tag>
std::string ranges_text(const std::vector<Id<Tag>>& ids) {
  std::vector<uint32_t> indices;
  for (const Id<Tag> id : ids) indices.push_back(id.index);
  return ranges_text(indices);
}
// "[[0, 1], [2, 3]]", positions kept.
std::string rank_lists_text(const std::vector<std::vector<int32_t>>& lists);

// ---------------------------------------------------------------- reading
std::map<std::string, ValueId> values_by_name(const Graph& graph);
// The words of a module's text; reads what several sections name.
class ModuleReader : public TextReader {
 public:
  using TextReader::TextReader;
  Result<Phase> phase();
  Result<std::vector<std::vector<int32_t>>> rank_lists();
  Result<size_t> one_of(Words words);
  // One of the words, as its enumerator.
  template <class Enum>
  Result<Enum> word(Words words) {
    PIPER_ASSIGN(const size_t found, one_of(words));
    return static_cast<Enum>(found);
  }
  // "%name": a value of the module's first variant, which must come before; "none" is an invalid id.
  Result<ValueId> value(const Module& module);
  // "%name": one of these values.
  Result<ValueId> value_of(const std::map<std::string, ValueId>& values);

 private:
  std::map<std::string, ValueId> values_;  // by name, once one was asked for
};

// ---------------------------------------------------------------- sections
// A printer writes "NAME {" to "}" and nothing where its part is empty; a reader starts after NAME.
void print_distribution_section(const Module& module, std::ostream& out);  // distribution_text.cc
Status parse_distribution_section(ModuleReader& in, Module& module);
void print_schedule_section(const Module& module, std::ostream& out);  // schedule_text.cc
Status parse_schedule_section(ModuleReader& in, Module& module);
void print_dag_section(const Module& module, std::ostream& out);  // dag_text.cc
Status parse_dag_section(ModuleReader& in, Module& module);
void print_state_section(const Module& module, std::ostream& out);  // state_text.cc
Status parse_state_section(ModuleReader& in, Module& module);

}  // namespace piper::ir
