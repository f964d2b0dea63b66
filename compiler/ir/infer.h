// Shared by the files of type inference (infer_*.cc); no one else includes it.
// The function that an operator's row names, often one for a family, gets its operand types and returns the result
// types, or a failure with code P0401 whose message names the operator and all operand types.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/attrs_text.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/shapes.h"
#include "schemas/base/check.h"

namespace piper::ir::infer {

using Types = std::vector<TensorType>;

struct Call {
  OpKind kind;
  const Attrs& attrs;
  const std::vector<const TensorType*>& operands;

  // Operand i; for required operands after `require` has been called.
  const TensorType& x(size_t i) const { return *operands[i]; }
  // Operand i, or null where it is absent.
  const TensorType* optional(size_t i) const { return i < operands.size() ? operands[i] : nullptr; }
  template <class A>
  const A& as() const {
    const A* a = std::get_if<A>(&attrs);
    PIPER_CHECK(a != nullptr, "wrong attribute struct for ", op_name(kind));
    return *a;
  }
  Status fail(const std::string& why) const {
    std::string text = std::string(op_name(kind)) + "(";
    for (size_t i = 0; i < operands.size(); ++i)
      text += (i ? ", " : "") + (operands[i] ? to_string(*operands[i]) : std::string("none"));
    std::string attrs_text = to_string(attrs);
    if (!attrs_text.empty()) text += "; " + attrs_text;
    return Status::failure("P0401", text + "): " + why);
  }
  // Between `required` and `required + optional_count` operands, the required ones present.
  Status require(size_t required, size_t optional_count = 0) const {
    if (operands.size() < required || operands.size() > required + optional_count)
      return fail("takes " + std::to_string(required) +
                  (optional_count ? " to " + std::to_string(required + optional_count) : "") + " operands");
    for (size_t i = 0; i < required; ++i)
      if (!operands[i]) return fail("operand " + std::to_string(i) + " is missing");
    return {};
  }
  Status want_dtype(size_t i, DType dtype) const {
    if (optional(i) && operands[i]->dtype != dtype)
      return fail("operand " + std::to_string(i) + " must be " + std::string(dtype_name(dtype)));
    return {};
  }
  Status want_float(size_t i) const {
    if (optional(i) && !is_floating(operands[i]->dtype))
      return fail("operand " + std::to_string(i) + " must be floating point");
    return {};
  }
  // Operand i, where present, has exactly this dtype and shape.
  Status want(size_t i, const TensorType& type) const {
    if (optional(i) && !(*operands[i] == type))
      return fail("operand " + std::to_string(i) + " must be " + to_string(type));
    return {};
  }
  Status want_dim(int64_t dim, size_t rank) const {
    if (dim < 0 || dim >= static_cast<int64_t>(rank)) return fail("no axis " + std::to_string(dim));
    return {};
  }
};

// The function of each row's column `types`.
#define PIPER_OP(enumerator, name, attrs, types, ...) Result<Types> types(const Call& c);
#include "compiler/ir/ops.def"
#undef PIPER_OP

}  // namespace piper::ir::infer
