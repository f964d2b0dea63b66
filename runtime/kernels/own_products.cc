// The CPU's products: own ones (sgemm.h) where they serve, else the library's (library_products.h).
#include <ATen/Parallel.h>

#include <algorithm>

#include "runtime/kernels/library/products.h"
#include "runtime/kernels/library_products.h"
#include "runtime/kernels/sgemm.h"

namespace piper::kernels {
namespace {

// All of them as own products, or none.
std::vector<Sgemm> own_products(const library::Products& all, bool accumulate) {
  std::vector<Sgemm> products;
  const auto take = [&](const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool add) {
    const auto product = as_sgemm(out, a, b, all.bias, add);
    if (product) products.push_back(*product);
    return product.has_value();
  };
  for (size_t i = 0; i < all.views.size(); ++i) {
    const auto& [out, a, b] = all.views[i];
    const bool add = all.adds(accumulate, i);
    if (out.dim() == 2) {
      if (!take(out, a, b, add)) return {};
      continue;
    }
    for (int64_t e = 0; e < out.size(0); ++e)
      if (!take(out.select(0, e), a.select(0, e), b.select(0, e), add)) return {};
  }
  return products;
}

// Many products with outputs of their own share the threads; else each one uses all.
void run_own(const std::vector<Sgemm>& products, bool one_sum) {
  const auto count = static_cast<int64_t>(products.size());
  const bool together = !one_sum && count >= at::get_num_threads();
  const Sgemm& p = products.front();
  const int64_t grain = together ? 1 + kSerialWork / std::max<int64_t>(1, p.m * p.n * p.k) : count;
  at::parallel_for(0, count, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) sgemm(products[static_cast<size_t>(i)]);
  });
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_own_products(const Call& call) {
  library::Products products = library::products_of(call);
  std::vector<Sgemm> own = own_products(products, call.accumulate());
  if (!own.empty())
    return make_kernel(call, [own = std::move(own), one_sum = products.one_sum] { run_own(own, one_sum); });
  return make_kernel(call, [products = std::move(products), accumulate = call.accumulate()] {
    for (size_t i = 0; i < products.views.size(); ++i) {
      const auto& [out, a, b] = products.views[i];
      library_product(out, a, b, products.bias, products.adds(accumulate, i));
    }
  });
}

}  // namespace piper::kernels
