// Elements counted part by part, against a permutation made element by element.
#include <catch2/catch.hpp>

#include <numeric>
#include <random>

#include "schemas/plan/element_order.h"

namespace piper::plan {
namespace {

struct Counted {
  std::vector<int64_t> shape;
  PartsAlong along;
  int64_t elements() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }
};

// Where each element lies in row-major order, as they are counted: by the parts' definition.
std::vector<int64_t> naive(const Counted& tensor) {
  std::vector<int64_t> places;
  std::vector<int64_t> extents = tensor.along.extents;
  if (extents.empty())
    extents.assign(static_cast<size_t>(tensor.along.segments),
                   tensor.shape[static_cast<size_t>(tensor.along.axis)] / tensor.along.segments);
  std::vector<int64_t> part_of;  // [index along the axis]
  for (const int64_t extent : extents)
    for (int64_t k = 0; k < extent; ++k) part_of.push_back(k / (extent / tensor.along.parts));
  for (int64_t part = 0; part < tensor.along.parts; ++part)
    for (int64_t place = 0; place < tensor.elements(); ++place) {
      int64_t rest = place, index = 0;
      for (size_t k = tensor.shape.size(); k-- > static_cast<size_t>(tensor.along.axis);) {
        index = rest % tensor.shape[k];
        rest /= tensor.shape[k];
      }
      if (part_of[static_cast<size_t>(index)] == part) places.push_back(place);
    }
  return places;
}

std::vector<int64_t> listed(const ElementRuns& runs) {
  std::vector<int64_t> places;
  int64_t at = 0;
  for (const ElementRun& run : runs) {
    CHECK(run.at == at);
    CHECK(run.count > 0);
    for (int64_t i = 0; i < run.count; ++i) places.push_back(run.there + i);
    at += run.count;
  }
  return places;
}

int64_t number_of(const ElementRuns& runs) {
  int64_t number = 0;
  for ([[maybe_unused]] const ElementRun& run : runs) ++number;
  return number;
}

Counted random_tensor(std::mt19937& random) {
  Counted tensor;
  const size_t axes = 1 + random() % 4;
  tensor.along = {static_cast<int32_t>(random() % axes), 1 + static_cast<int64_t>(random() % 5),
                  1 + static_cast<int64_t>(random() % 3)};
  for (size_t k = 0; k < axes; ++k) {
    tensor.shape.push_back(1 + static_cast<int64_t>(random() % 4));
    if (static_cast<int32_t>(k) == tensor.along.axis) tensor.shape.back() *= tensor.along.parts * tensor.along.segments;
  }
  if (random() % 3 == 0) {  // segments of unequal size
    int64_t& extent = tensor.shape[static_cast<size_t>(tensor.along.axis)] = 0;
    tensor.along.segments = 1;
    for (int64_t k = 2 + static_cast<int64_t>(random() % 3); k > 0; --k) {
      tensor.along.extents.push_back(tensor.along.parts * (1 + static_cast<int64_t>(random() % 3)));
      extent += tensor.along.extents.back();
    }
  }
  return tensor;
}

TEST_CASE("runs are the permutation that counting part by part is, and its inverse") {
  std::mt19937 random(7);
  int64_t moved = 0;
  for (int i = 0; i < 2000; ++i) {
    const Counted tensor = random_tensor(random);
    const ElementOrder order(tensor.shape, tensor.along);
    const std::vector<int64_t> places = naive(tensor);
    std::vector<int64_t> back(places.size());
    for (size_t k = 0; k < places.size(); ++k) back[static_cast<size_t>(places[k])] = static_cast<int64_t>(k);
    const auto first = static_cast<int64_t>(random() % places.size());
    const auto count = static_cast<int64_t>(random() % (places.size() - static_cast<size_t>(first) + 1));
    const auto range = [&](const std::vector<int64_t>& all) {
      return std::vector<int64_t>(all.begin() + first, all.begin() + first + count);
    };
    INFO("axis " << tensor.along.axis << " in " << tensor.along.parts << " parts, from " << first << ", " << count);
    REQUIRE(listed(order.row_major_runs(first, count)) == range(places));
    REQUIRE(listed(order.counted_runs(first, count)) == range(back));
    REQUIRE(order.row_major() == std::is_sorted(places.begin(), places.end()));
    moved += order.row_major() ? 0 : count;
  }
  CHECK(moved > 10000);
}

TEST_CASE("a run is a row of a part, and a range in row-major order is one run") {
  const ElementOrder rows({8, 6}, {0, 4}), columns({8, 6}, {1, 3}), middle({2, 6, 5}, {1, 2});
  CHECK(rows.row_major());
  // Queries, keys and values of two heads each.
  CHECK(listed(ElementOrder({6, 2}, {0, 2, 3}).row_major_runs(0, 8)) == std::vector<int64_t>{0, 1, 4, 5, 8, 9, 2, 3});
  // Two heads of queries, one of keys, one of values for each of two places.
  const ElementOrder grouped({8, 1}, {0, 2, 1, {4, 2, 2}});
  CHECK(listed(grouped.row_major_runs(0, 8)) == std::vector<int64_t>{0, 1, 4, 6, 2, 3, 5, 7});
  CHECK(listed(grouped.counted_runs(3, 4)) == std::vector<int64_t>{5, 2, 6, 3});
  CHECK(number_of(grouped.row_major_runs(1, 5)) == 4);
  CHECK(number_of(rows.row_major_runs(5, 40)) == 1);
  CHECK(number_of(columns.row_major_runs(0, 48)) == 24);
  CHECK(number_of(columns.row_major_runs(1, 4)) == 3);
  CHECK(listed(columns.row_major_runs(16, 4)) == std::vector<int64_t>{2, 3, 8, 9});
  CHECK(number_of(middle.row_major_runs(0, 60)) == 4);
  CHECK(number_of(columns.row_major_runs(3, 0)) == 0);
  CHECK(number_of(ElementOrder().row_major_runs(3, 1000)) == 1);
  CHECK(number_of(ElementOrder({0, 6}, {1, 3}).row_major_runs(0, 0)) == 0);
  CHECK(ElementOrder({4, 0}, {1, 3}).row_major());
}

TEST_CASE("a manifest's tensor has the parts of its cut, where they are no range anyway") {
  Manifest manifest;
  manifest.cuts = {{"tp", {{0, 1, 2}, {5, 4, 3}}}};
  const auto tensor = [](const char* name, std::vector<int64_t> shape, int32_t axis) {
    TensorInfo info;
    info.name = name;
    info.shape = std::move(shape);
    if (axis >= 0) info.cut = TensorCut{0, axis};
    return info;
  };
  const auto fused = [&](int32_t segments) {
    TensorInfo info = tensor("fused", {6, 6}, 0);
    info.cut->segments = segments;
    return parts_along(manifest, info);
  };
  CHECK(fused(2) == PartsAlong{0, 3, 2});
  TensorInfo unequal = tensor("unequal", {9, 6}, 0);
  unequal.cut->extents = {6, 3};
  CHECK(parts_along(manifest, unequal) == PartsAlong{0, 3, 1, {6, 3}});
  manifest.tensors = {tensor("whole", {6, 6}, -1), tensor("rows", {6, 6}, 0), tensor("columns", {6, 6}, 1),
                      tensor("one row", {1, 6}, 1)};
  CHECK(parts_along(manifest, manifest.tensors[0]) == PartsAlong());
  CHECK(parts_along(manifest, manifest.tensors[1]) == PartsAlong());
  CHECK(parts_along(manifest, manifest.tensors[2]) == PartsAlong{1, 3});
  CHECK(parts_along(manifest, manifest.tensors[3]) == PartsAlong());
  const PartsByName by_name(manifest);
  CHECK(by_name.of("columns", {6, 6}) == PartsAlong{1, 3});
  CHECK(by_name.of("columns", {36}) == PartsAlong());
  CHECK(by_name.of("rows", {6, 6}) == PartsAlong());
}

TEST_CASE("pieces are a few MiB, in order, and a failure ends them") {
  int64_t next = 0, pieces = 0;
  const auto number = [&](int64_t at, int64_t n, std::byte* to) {
    for (int64_t i = 0; i < n; ++i) reinterpret_cast<int64_t*>(to)[i] = at + i;
    return Status();
  };
  constexpr int64_t kCount = 3'000'001;
  const Status all = gather_pieces(kCount, 8, number, [&](int64_t at, int64_t n, const std::byte* data) {
    REQUIRE(at == next);
    bool numbered = true;
    for (int64_t i = 0; i < n; ++i) numbered = numbered && reinterpret_cast<const int64_t*>(data)[i] == next + i;
    CHECK(numbered);
    next += n;
    ++pieces;
    return Status();
  });
  CHECK(all.ok());
  CHECK(next == kCount);
  CHECK(pieces == 3);
  const Status failed = gather_pieces(kCount, 8, number, [&](int64_t, int64_t, const std::byte*) {
    ++pieces;
    return Status::failure("R0405", "no");
  });
  CHECK(failed.error().code == "R0405");
  CHECK(pieces == 4);
  CHECK(gather_pieces(0, 8, number, [](int64_t, int64_t, const std::byte*) { return Status::failure("x", "x"); }).ok());
}

}  // namespace
}  // namespace piper::plan
