// matmul, linear and its gradients as one list of products of two matrices, made at bind: leading axes are folded into
// the rows of one product where the strides allow, else into a batched product, else looped over. Accumulation is the
// product's own. The library multiplies them on any device; the CPU has products of its own for some.
#pragma once

#include <vector>

#include "runtime/kernels/binding.h"

namespace piper::kernels::library {

// out = a b, of rank 2 or, matrix by matrix, 3; any strides.
struct ProductViews {
  at::Tensor out, a, b;
};
struct Products {
  std::vector<ProductViews> views;
  at::Tensor bias;       // for products of rank 2 that add to nothing; or undefined
  bool one_sum = false;  // all are pieces of one sum, and follow each other; else each has an output of its own

  bool adds(bool accumulate, size_t view) const { return accumulate || (one_sum && view > 0); }
};
// For a call of one of the four.
Products products_of(const Call& call);

// out (+)= a b + bias by the library. `bias`: undefined where the product accumulates or has rank 3.
void multiply(at::Tensor out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias, bool accumulate);

}  // namespace piper::kernels::library
