// Arithmetic on shapes.
#include "compiler/ir/shapes.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>

using namespace piper::ir;

TEST_CASE("elements and strides of a shape") {
  const Shape shape = {2, 3, 5, 7};
  CHECK(elements(shape, 0, 4) == 210);
  CHECK(elements(shape, 1, 3) == 15);
  CHECK(elements(shape, 2, 2) == 1);
  CHECK(elements(shape) == 210);
  CHECK(elements({}) == 1);
  CHECK(elements_before(shape, 2) == 6);
  CHECK(elements_behind(shape, 1) == 35);
  CHECK(elements_behind(shape, 3) == 1);
  CHECK(row_major_strides(shape) == Shape{105, 35, 7, 1});
  CHECK(row_major_strides({}).empty());
}

TEST_CASE("shapes are broadcast from the last axis on") {
  CHECK(broadcast_shape({4, 1, 3}, {5, 1}) == Shape{4, 5, 3});
  CHECK(broadcast_shape({}, {2, 3}) == Shape{2, 3});
  CHECK(broadcast_shape({1, 3}, {0, 1}) == Shape{0, 3});
  CHECK_FALSE(broadcast_shape({2, 3}, {2}));
  CHECK_FALSE(broadcast_shape({2}, {0}));
}

// A view that repeats an axis is still along it.
TEST_CASE("strides of an expanded tensor") {
  CHECK(broadcast_strides({3, 1}, {2, 3, 4}) == Shape{0, 1, 0});
  CHECK(broadcast_strides({3, 2}, {1, 3}, {3, 2}) == Shape{1, 3});
  CHECK(broadcast_strides({}, {2}) == Shape{0});
}

TEST_CASE("axes and bounds that count from the end") {
  CHECK(axis_from_front(-1, 3) == 2);
  CHECK(axis_from_front(-4, 3) == -1);
  CHECK(known_axis(-3, 3) == 0);
  CHECK(known_axis(2, 3) == 2);
  CHECK_FALSE(known_axis(3, 3));
  CHECK_FALSE(known_axis(-4, 3));
  CHECK_FALSE(known_axis(0, 0));
  CHECK(slice_bound(-2, 5) == 3);
  CHECK(slice_bound(-9, 5) == 0);
  CHECK(slice_bound(std::numeric_limits<int64_t>::max(), 5) == 5);
}

TEST_CASE("a permutation and its inverse") {
  CHECK(inverse_permutation({2, 0, 1}) == Shape{1, 2, 0});
  CHECK(inverse_permutation({}).empty());
}

// A batch of 4 in [4, 6]: its step is 6 elements. As [24] it has 6 elements after it in the one axis; in [2, 12] and
// [6, 4] it is cut.
TEST_CASE("a factor of an axis is found by the length of its step") {
  const auto at = [](const Shape& shape, size_t axis, int64_t number, int64_t behind) {
    const auto factor = factor_in_axis(shape, axis, number, behind);
    return factor
               ? std::to_string(factor->outer) + " x " + std::to_string(number) + " x " + std::to_string(factor->inner)
               : "none";
  };
  CHECK(at({4, 6}, 0, 4, 6) == "1 x 4 x 1");
  CHECK(at({24}, 0, 4, 6) == "1 x 4 x 6");
  CHECK(at({48}, 0, 4, 6) == "2 x 4 x 6");
  CHECK(at({8, 3}, 0, 4, 6) == "1 x 4 x 2");
  CHECK(at({2, 12}, 0, 4, 6) == "none");
  CHECK(at({6, 4}, 0, 4, 6) == "none");
  // No elements: nothing can be said, and nothing is divided by zero.
  CHECK(at({4, 0}, 0, 4, 0) == "none");
  CHECK(at({4, 6}, 0, 0, 6) == "none");
}

TEST_CASE("weights of experts for each token of a large step are within bounds, what overflows is not") {
  const int64_t tokens = 4096 * 8192, rows = 8 * tokens;
  CHECK(is_within_bounds({rows, 1536, 2048}));
  CHECK(is_within_bounds({0, kMostExtent}));
  CHECK(!is_within_bounds({kMostExtent + 1}));
  CHECK(!is_within_bounds({int64_t{1} << 26, int64_t{1} << 26}));
  CHECK(!is_within_bounds({0, kMostExtent, kMostExtent}));
}
