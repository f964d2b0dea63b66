// Type inference: each operator by the function that its row names.
#include "compiler/ir/infer.h"

namespace piper::ir {
namespace {

// Bounds that keep all later arithmetic on extents and attributes inside int64_t: text and model
// files may hold any number.
constexpr int64_t kMostExtent = int64_t{1} << 40;
constexpr int64_t kMostElements = int64_t{1} << 48;
constexpr int64_t kMostWindow = int64_t{1} << 22;  // strides, paddings, kernels

bool small_enough(const Shape& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape) {
    if (extent > kMostExtent || (extent > 0 && elements > kMostElements / extent)) return false;
    elements *= extent > 0 ? extent : 1;
  }
  return true;
}

struct AttrBounds {
  bool ok = true;
  void operator()(std::string_view name, int64_t v) {
    if (name != "key" && name != "ignore_index") ok = ok && v >= -kMostExtent && v <= kMostExtent;
  }
  void operator()(std::string_view name, const std::vector<int64_t>& v) {
    if (name == "shape") ok = ok && small_enough(v);
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
    if (!small_enough(type.shape)) return call.fail("too many elements");
  return results;
}

}  // namespace piper::ir
