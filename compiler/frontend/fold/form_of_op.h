// The form of what an operator makes of constants.
#pragma once

#include <vector>

#include "compiler/frontend/fold.h"

namespace piper::frontend {

// The form that the tensor has, or that its bytes show: one number, or integers that rise evenly along each axis; else
// null. Reads each element at most once.
Form form_of(const ConstantTensor& tensor);

// The form of the one result of an operator whose operands passed type inference; null where it has none.
Form form_of(ir::OpKind kind, const ir::Attrs& attrs, const std::vector<ConstantTensor>& operands,
             const ir::TensorType& result);

}  // namespace piper::frontend
