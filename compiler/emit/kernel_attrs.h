// The attributes of an operator as a plan's kernel calls carry them: names and values in field order.
#pragma once

#include <vector>

#include "compiler/ir/op_attrs.h"
#include "schemas/plan/plan.h"

namespace piper::emit {

std::vector<plan::Attr> kernel_attrs(const ir::Attrs& attrs);

}  // namespace piper::emit
