// Where elements of strided operands lie, by 32 bits and by 64.
#include "runtime/kernels/cuda/layout.h"

#include <catch2/catch.hpp>

#include "runtime/kernels/cuda/bound_call.h"

namespace piper::kernels::cuda {
namespace {

Layout layout_of(const Shape& shape, const Shape& strides) {
  View view;
  view.shape = shape;
  view.strides = strides;
  return view.layout();
}

TEST_CASE("elements are counted by 32 bits where those are enough") {
  const Layout layout = layout_of({3, 5}, {8, 1});
  CHECK(!layout.wide);
  CHECK(layout.at(0) == 0);
  CHECK(layout.at(7) == 10);
  CHECK(layout.at(14) == 20);
  constexpr int64_t kMany = 0xffffffff;
  const Layout last = layout_of({3, kMany / 3}, {kMany, 2});
  CHECK(!last.wide);
  CHECK(last.at(kMany - 1) == 2 * kMany + 2 * (kMany / 3 - 1));
}

// Also small indices divide by the extents.
TEST_CASE("elements are counted by 64 bits where an axis alone has more than 32 bits count") {
  constexpr int64_t kMany = int64_t{1} << 32;
  const Layout layout = layout_of({2, kMany}, {4 * kMany, 2});
  CHECK(layout.wide);
  CHECK(layout.at(5) == 10);
  CHECK(layout.at(kMany + 5) == 4 * kMany + 10);
}

}  // namespace
}  // namespace piper::kernels::cuda
