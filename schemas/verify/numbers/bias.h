// Rule on numbers: a product of rows by a matrix, and a vector added to each row of it, is the product with that vector
// as its bias. Right up to rounding, which the order of such additions is a part of. Where a product's rows are cut,
// its bias is added once, to the sum of the places' shares.
#pragma once

#include <optional>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/number.h"

namespace piper::verify {

struct ProductWithBias {
  plan::KernelCall call;
  std::vector<View> operands;
};
// The product that an addition makes; nothing where it adds something else.
std::optional<ProductWithBias> product_with_bias(const plan::KernelCall& call, const std::vector<View>& operands,
                                                 const NumberTable& table);

}  // namespace piper::verify
