// The form of what an operator makes of constants.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/frontend/fold.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend {

// The form that the tensor has, or that its bytes show: one number, or integers that rise evenly along each axis; else
// null. Reads each element at most once.
Form form_of(const ConstantTensor& tensor);

// The form of the one result of an operator whose operands passed type inference; null where it has none.
Form form_of(ir::OpKind kind, const ir::Attrs& attrs, const std::vector<ConstantTensor>& operands,
             const ir::TensorType& result);

// For parts one after another along an axis, each with so many places, at `place` of it: form_of_part(i, place) is that
// of part i. Null where a part has none.
Form one_after_another(const std::vector<int64_t>& extents, const Form& place,
                       const std::function<Form(size_t part, const Form& place)>& form_of_part);
// Operators whose result's elements are elements of their operand.
bool is_view_or_copy(ir::OpKind kind);
// The place in the operand of a view that each place of its result is: `at` has a form for each axis of the result,
// what is returned one for each of the operand. nullopt where a reshape does more than to add and drop axes of
// extent 1.
std::optional<std::vector<Form>> viewed_places(ir::OpKind kind, const ir::Attrs& attrs, const ir::Shape& from,
                                               const ir::Shape& to, const std::vector<Form>& at);
// An element of what an element-wise operator makes of these elements, of type `from` (what it reads first) to `to`.
Form form_of_elements(ir::OpKind kind, const ir::Attrs& attrs, const std::vector<Form>& elements, DType from, DType to);

}  // namespace piper::frontend
