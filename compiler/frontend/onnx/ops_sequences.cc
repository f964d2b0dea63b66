// Joining and splitting, with ONNX sequences: lists of values whose indices must be known.
#include <numeric>

#include "compiler/frontend/onnx/ops.h"

namespace piper::frontend::onnx {
namespace {

constexpr int64_t kMostParts = 4096;

// The values among `all`, or refused.
void join(NodeImport& n, const std::vector<ValueId>& all, int64_t raw_axis) {
  if (!n.ok()) return;
  if (all.empty()) return n.refuse("it joins nothing");
  const int64_t axis = n.axis(raw_axis, n.rank(all[0]));
  if (!n.ok()) return;
  if (all.size() == 1) return n.set(0, all[0]);
  n.result(OpKind::kCat, all, ir::DimAttrs{axis});
}

std::vector<ValueId> cut(NodeImport& n, ValueId x, int64_t axis, const std::vector<int64_t>& extents) {
  if (!n.ok()) return {};
  const int64_t whole = n.shape(x)[static_cast<size_t>(axis)];
  int64_t at = 0;
  std::vector<ValueId> parts;
  for (const int64_t extent : extents) {
    if (extent < 0 || extent > whole - at) {
      n.refuse("its parts are longer than the axis of extent " + std::to_string(whole));
      return {};
    }
    parts.push_back(n.slice(x, axis, at, at + extent));
    at += extent;
  }
  if (at != whole) n.refuse("its parts do not add up to the axis of extent " + std::to_string(whole));
  return parts;
}

// `whole` in pieces of `size`, the last one smaller.
std::vector<int64_t> pieces(NodeImport& n, int64_t whole, int64_t size) {
  if (size < 1 || whole / size >= kMostParts) {
    n.refuse("it makes parts of " + std::to_string(size));
    return {};
  }
  std::vector<int64_t> out;
  for (int64_t at = 0; at < whole; at += size) out.push_back(std::min(size, whole - at));
  return out;
}

}  // namespace

void import_concat(NodeImport& n) {
  std::vector<ValueId> all;
  for (size_t i = 0; i < n.num_inputs(); ++i) all.push_back(n.in(i));
  join(n, all, n.int_attr("axis", 0));
}

void import_concat_from_sequence(NodeImport& n) {
  std::vector<ValueId> all = n.sequence(0);
  const int64_t axis = n.int_attr("axis", 0);
  if (n.int_attr("new_axis", 0) != 0)
    for (ValueId& v : all) v = n.unsqueeze(v, axis);
  join(n, all, axis);
}

void import_split(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t axis = n.axis(n.int_attr("axis", 0), n.rank(x));
  std::vector<int64_t> extents;
  if (n.has(1)) extents = n.ints(n.in(1), "split");
  if (!n.ok()) return;
  if (!n.has(1)) {
    const int64_t whole = n.shape(x)[static_cast<size_t>(axis)];
    const int64_t parts = n.int_attr("num_outputs", static_cast<int64_t>(n.node().outputs.size()));
    if (parts < 1 || parts != static_cast<int64_t>(n.node().outputs.size()))
      return n.refuse("it makes as many parts as it has results");
    const int64_t size = (whole + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) extents.push_back(std::max<int64_t>(0, std::min(size, whole - i * size)));
  }
  const std::vector<ValueId> parts = cut(n, x, axis, extents);
  if (n.ok() && parts.size() != n.node().outputs.size()) return n.refuse("it makes as many parts as it has results");
  for (size_t i = 0; i < parts.size(); ++i) n.set(i, parts[i]);
}

void import_split_to_sequence(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t axis = n.axis(n.int_attr("axis", 0), n.rank(x));
  if (!n.ok()) return;
  const int64_t whole = n.shape(x)[static_cast<size_t>(axis)];
  std::vector<int64_t> extents;
  if (!n.has(1)) extents = pieces(n, whole, 1);
  else if (n.rank(n.in(1)) == 0) extents = pieces(n, whole, n.one_int(n.in(1), "split"));
  else extents = n.ints(n.in(1), "split");
  if (static_cast<int64_t>(extents.size()) > kMostParts)
    return n.refuse("it makes " + std::to_string(extents.size()) + " parts");
  std::vector<ValueId> parts = cut(n, x, axis, extents);
  if (const bool keeps = n.int_attr("keepdims", 1) != 0; n.ok() && !n.has(1) && !keeps) {
    Extents to = n.shape(x);
    to.erase(to.begin() + axis);
    for (ValueId& v : parts) v = n.reshape(v, to);
  }
  n.set_sequence(0, std::move(parts));
}

void import_sequence_construct(NodeImport& n) {
  std::vector<ValueId> all;
  for (size_t i = 0; i < n.num_inputs(); ++i) all.push_back(n.in(i));
  n.set_sequence(0, std::move(all));
}

void import_sequence_length(NodeImport& n) {
  n.set(0, n.constant_i64({}, {static_cast<int64_t>(n.sequence(0).size())}));
}

void import_sequence_at(NodeImport& n) {
  const std::vector<ValueId>& items = n.sequence(0);
  const int64_t position = n.axis(n.one_int(n.in(1), "position"), static_cast<int64_t>(items.size()));
  if (n.ok()) n.set(0, items[static_cast<size_t>(position)]);
}

}  // namespace piper::frontend::onnx
