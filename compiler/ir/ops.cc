// What ops.def says of the operators: names, attribute structs, axes, element types.
#include "compiler/ir/op_traits.h"

#include <iterator>
#include <unordered_map>

namespace piper::ir {
namespace {

constexpr std::string_view kNames[] = {
#define PIPER_OP(enumerator, name, ...) name,
#include "compiler/ir/ops.def"
#undef PIPER_OP
};
struct Traits {
  AxisRule axes;
  Takes precision;
};
constexpr Traits kTraits[] = {
#define PIPER_OP(enumerator, name, attrs, types, axes, precision, folding, derivative) \
  {AxisRule::axes, Takes::precision},
#include "compiler/ir/ops.def"
#undef PIPER_OP
};

}  // namespace

std::string_view op_name(OpKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::optional<OpKind> op_from_name(std::string_view name) {
  static const std::unordered_map<std::string_view, OpKind> kTable = [] {
    std::unordered_map<std::string_view, OpKind> table;
    for (size_t i = 0; i < std::size(kNames); ++i) table.emplace(kNames[i], static_cast<OpKind>(i));
    return table;
  }();
  auto found = kTable.find(name);
  if (found == kTable.end()) return std::nullopt;
  return found->second;
}

Attrs default_attrs(OpKind kind) {
  switch (kind) {
#define PIPER_OP(enumerator, name, attrs, ...) \
  case OpKind::enumerator: return attrs{};
#include "compiler/ir/ops.def"
#undef PIPER_OP
  }
  return NoAttrs{};
}

AxisRule axis_rule(OpKind kind) { return kTraits[static_cast<size_t>(kind)].axes; }
Takes takes(OpKind kind) { return kTraits[static_cast<size_t>(kind)].precision; }
bool is_conversion(OpKind kind) { return is_communication(kind) || kind == OpKind::kEnter; }
bool is_communication(OpKind kind) {
  return kind == OpKind::kAllToAll || kind == OpKind::kAllReduce || kind == OpKind::kAllGather ||
         kind == OpKind::kReduceScatter;
}
bool may_be_view(OpKind kind) {
  return kind == OpKind::kReshape || kind == OpKind::kPermute || kind == OpKind::kExpand || kind == OpKind::kSlice ||
         kind == OpKind::kDetach;
}

}  // namespace piper::ir
