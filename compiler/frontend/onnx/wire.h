// Steps of reading ONNX messages that the reader's parts share: checked fields of one wire type,
// repeated numbers packed or not, metadata entries. Included by onnx_file.cc and read_tensor.cc
// only; damage leaves them as an exception that onnx_file.cc turns into a Status.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <protozero/pbf_message.hpp>

#include "compiler/frontend/onnx/onnx_fields.h"
#include "compiler/frontend/onnx/onnx_file.h"

namespace piper::frontend::onnx::wire {

inline constexpr int64_t kMaxRank = 64;

// What is wrong with a file.
struct Damage : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] inline void damaged(const std::string& what) { throw Damage(what); }

inline std::string in_quotes(const std::string& name) { return "'" + name.substr(0, 200) + "'"; }
template <class Field>
using Message = protozero::pbf_message<Field>;

template <class Field>
std::string text(Message<Field>& m) {
  const protozero::data_view v = m.get_view();
  return {v.data(), v.size()};
}

template <class Field>
void want_wire(const Message<Field>& m, protozero::pbf_wire_type type, const char* what) {
  if (m.wire_type() != type) damaged(std::string(what) + " has the wrong wire type");
}

template <class Field>
std::string get_text(Message<Field>& m, const char* what) {
  want_wire(m, protozero::pbf_wire_type::length_delimited, what);
  return text(m);
}
// The same where it lies in the file.
template <class Field>
std::string_view get_view(Message<Field>& m, const char* what) {
  want_wire(m, protozero::pbf_wire_type::length_delimited, what);
  const protozero::data_view view = m.get_view();
  return {view.data(), view.size()};
}
template <class Field>
int64_t get_int(Message<Field>& m, const char* what) {
  want_wire(m, protozero::pbf_wire_type::varint, what);
  return m.get_int64();
}
template <class Sub, class Field>
Message<Sub> get_message(Message<Field>& m, const char* what) {
  want_wire(m, protozero::pbf_wire_type::length_delimited, what);
  return Message<Sub>{m.get_view()};
}

// Repeated numbers are packed or one by one.
template <class Field>
void append_ints(Message<Field>& m, std::vector<int64_t>& out, const char* what) {
  if (m.wire_type() == protozero::pbf_wire_type::length_delimited) {
    for (const int64_t v : m.get_packed_int64()) out.push_back(v);
  } else {
    out.push_back(get_int(m, what));
  }
}
template <class Field>
void append_floats(Message<Field>& m, std::vector<float>& out, const char* what) {
  if (m.wire_type() == protozero::pbf_wire_type::length_delimited) {
    const protozero::data_view v = m.get_view();
    if (v.size() % sizeof(float) != 0) damaged(std::string(what) + " is no whole number of floats");
    const size_t first = out.size();
    out.resize(first + v.size() / sizeof(float));
    if (!v.empty()) std::memcpy(out.data() + first, v.data(), v.size());
  } else {
    want_wire(m, protozero::pbf_wire_type::fixed32, what);
    out.push_back(m.get_float());
  }
}
template <class Field>
void append_doubles(Message<Field>& m, std::vector<double>& out, const char* what) {
  if (m.wire_type() == protozero::pbf_wire_type::length_delimited) {
    const protozero::data_view v = m.get_view();
    if (v.size() % sizeof(double) != 0) damaged(std::string(what) + " is no whole number of doubles");
    const size_t first = out.size();
    out.resize(first + v.size() / sizeof(double));
    if (!v.empty()) std::memcpy(out.data() + first, v.data(), v.size());
  } else {
    want_wire(m, protozero::pbf_wire_type::fixed64, what);
    out.push_back(m.get_double());
  }
}

inline std::pair<std::string_view, std::string_view> read_entry(Message<EntryField> m) {
  std::pair<std::string_view, std::string_view> entry;
  while (m.next()) {
    switch (m.tag()) {
      case EntryField::kKey: entry.first = get_view(m, "a metadata key"); break;
      case EntryField::kValue: entry.second = get_view(m, "a metadata value"); break;
      default: m.skip();
    }
  }
  return entry;
}

template <class Field>
void append_entry(Message<Field>& m, Metadata& out) {
  out.entries.push_back(read_entry(get_message<EntryField>(m, "a metadata entry")));
}

// One TensorProto. `file` = the whole file, which raw data must lie in; `path` = where it is, for
// external data ("" = in memory: external data is refused).
OnnxTensor read_tensor(Message<TensorField> m, std::string_view file, const std::string& path);

}  // namespace piper::frontend::onnx::wire
