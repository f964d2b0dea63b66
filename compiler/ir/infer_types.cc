// Type inference: each operator by the function that its row names.
#include "compiler/ir/infer.h"

namespace piper::ir {
namespace {

constexpr int64_t kMostWindow = int64_t{1} << 22;  // strides, paddings, kernels

struct AttrBounds {
  bool ok = true;
  void operator()(std::string_view name, int64_t v) {
    if (name != "key" && name != "ignore_index") ok = ok && v >= -kMostExtent && v <= kMostExtent;
  }
  void operator()(std::string_view name, const std::vector<int64_t>& v) {
    if (name == "shape") ok = ok && is_within_bounds(v);
    else
      for (int64_t entry : v) ok = ok && entry >= -kMostWindow && entry <= kMostWindow;
  }
  template <class T>
  void operator()(std::string_view, const T&) {}
};

Result<infer::Types> dispatch(const infer::Call& call) {
  switch (call.kind) {
#define PIPER_OP(enumerator, name, attrs, types, ...) \
  case OpKind::enumerator: return infer::types(call);
#include "compiler/ir/ops.def"
#undef PIPER_OP
  }
  return call.fail("unknown operator");
}

}  // namespace

Result<std::vector<TensorType>> infer_types(OpKind kind, const Attrs& attrs,
                                            const std::vector<const TensorType*>& operands) {
  infer::Call call{kind, attrs, operands};
  if (attrs.index() != default_attrs(kind).index()) return call.fail("attributes of another operator");
  AttrBounds bounds;
  std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields(a, bounds); }, attrs);
  if (!bounds.ok) return call.fail("an attribute is out of range");
  Result<std::vector<TensorType>> results = dispatch(call);
  if (!results.ok()) return results;
  for (const TensorType& type : *results)
    if (!is_within_bounds(type.shape)) return call.fail("too many elements");
  return results;
}

}  // namespace piper::ir
