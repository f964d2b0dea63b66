// Kernels on parts of tables and of classes, as places of a cut have them: together they make what one device does,
// also where the parts are not equal, and what is past the last row is left out of sums and zero in gradients.
#include <algorithm>

#include "tests/unit/kernels_testing.h"

namespace piper::kernels::testing {
namespace {

using Fixture = Seeded<23>;
constexpr int64_t kIgnored = -100;

struct Parts {
  int64_t whole, places;
  int64_t each() const { return (whole + places - 1) / places; }
  int64_t here(int64_t place) const { return std::clamp<int64_t>(whole - place * each(), 0, each()); }
};
// Equal parts; a shorter last one; places with one row and with none.
constexpr Parts kParts[] = {{96, 2}, {97, 2}, {97, 4}, {5, 4}, {2000, 3}};

// Rows [place * each, ..) along `axis`; past the last of the whole there is what must not count.
at::Tensor part_of(const at::Tensor& whole, const Parts& parts, int64_t place, int64_t axis, double past) {
  std::vector<int64_t> shape = whole.sizes().vec();
  shape[static_cast<size_t>(axis)] = parts.each();
  at::Tensor part = at::full(shape, past, whole.options());
  const int64_t here = parts.here(place);
  const int64_t first = here == 0 ? 0 : place * parts.each();
  part.narrow(axis, 0, here).copy_(whole.narrow(axis, first, here));
  return part;
}
at::Tensor place_number(int64_t place) { return at::full({1}, place, at::kLong); }

// The parts' rows one after the other; all past the last must be zero.
at::Tensor joined(const Tensors& pieces, const Parts& parts, int64_t axis) {
  const at::Tensor all = at::cat(pieces, axis);
  CHECK(all.narrow(axis, parts.whole, all.size(axis) - parts.whole).abs().sum().to(at::kDouble).item<double>() == 0);
  return all.narrow(axis, 0, parts.whole);
}

void check_loss(const Parts& parts, at::ScalarType type, bool axes) {
  INFO(parts.whole << " classes over " << parts.places << " places, " << toString(type));
  const double tolerance = type == at::kDouble ? 1e-12 : type == at::kFloat ? 2e-6 : type == at::kHalf ? 1e-3 : 1e-2;
  const at::ScalarType summed = type == at::kDouble ? at::kDouble : at::kFloat;
  const std::vector<int64_t> shape =
      axes ? std::vector<int64_t>{3, parts.whole, 2} : std::vector<int64_t>{6, parts.whole};
  const at::Tensor logits = (normal(shape) * 4).to(type);
  at::Tensor target = at::randint(parts.whole, axes ? at::IntArrayRef{3, 2} : at::IntArrayRef{6}, at::kLong);
  target.view({-1})[1] = kIgnored;
  target.view({-1})[2] = parts.whole - 1;
  target.view({-1})[3] = 0;
  const std::vector<Attr> attrs{{"ignore_index", kIgnored}, {"label_smoothing", 0.0}};
  std::vector<Attr> of_part = attrs;
  of_part.push_back({"whole", parts.whole});
  const at::Tensor wide = logits.to(at::kDouble).requires_grad_(false);
  const at::Tensor rows = axes ? wide.permute({0, 2, 1}).reshape({6, -1}) : wide;
  const at::Tensor lse = at::logsumexp(rows, 1),
                   expected = at::cross_entropy_loss(rows, target.view({-1}), {}, at::Reduction::Sum, kIgnored);

  at::Tensor stats = at::zeros({6, parts.places, 2}, summed);
  for (int64_t p = 0; p < parts.places; ++p) {
    at::Tensor own = at::full({6, parts.places, 2}, 7, summed);
    REQUIRE(run_kernel("row_lse", {own}, {part_of(logits, parts, p, 1, 1e4), target, place_number(p)},
                       {{"ignore_index", kIgnored}, {"whole", parts.whole}, {"places", parts.places}})
                .ok());
    for (int64_t other = 0; other < parts.places; ++other)
      if (other != p) CHECK(own.select(1, other).abs().sum().item<double>() == 0);
    stats.add_(own);
  }
  const at::Tensor g = at::full({}, 0.25, summed);
  Tensors gradients;
  for (int64_t p = 0; p < parts.places; ++p) {
    const at::Tensor own = part_of(logits, parts, p, 1, 1e4);
    at::Tensor sum = at::zeros({}, summed), merged = at::zeros({6}, summed), gradient = at::full_like(own, 3);
    REQUIRE(run_kernel("cross_entropy_sum", {sum, merged}, {own, target, {}, stats, place_number(p)}, of_part).ok());
    CHECK(at::allclose(sum.to(at::kDouble), expected, std::max(tolerance, 1e-6), 0));
    CHECK(merged[1].item<double>() == 0);
    CHECK(at::allclose(merged[2].to(at::kDouble), lse[2], 1e-6, 1e-6));
    REQUIRE(
        run_kernel("cross_entropy_backward", {gradient}, {g, own, target, merged, {}, place_number(p)}, of_part).ok());
    // In the logits' place.
    at::Tensor in_place = own.clone();
    REQUIRE(
        run_kernel("cross_entropy_backward", {in_place}, {g, in_place, target, merged, {}, place_number(p)}, of_part)
            .ok());
    CHECK(at::equal(in_place, gradient));
    gradients.push_back(gradient);
  }
  at::Tensor all = at::softmax(wide, 1);
  const at::Tensor counts = target.ne(kIgnored);
  at::Tensor hot = at::zeros_like(wide);
  hot.scatter_(1, target.clamp_min(0).unsqueeze(1), 1);
  all = (all - hot) * counts.unsqueeze(1) * 0.25;
  CHECK(at::allclose(joined(gradients, parts, 1).to(at::kDouble), all, tolerance, tolerance * 0.1));
}

}  // namespace

TEST_CASE_METHOD(Fixture, "losses of parts of the classes are those of all") {
  for (const Parts& parts : kParts)
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      check_loss(parts, type, false);
      check_loss(parts, type, true);
    }
}

TEST_CASE_METHOD(Fixture, "statistics of rows are the log-sum-exp of the own classes and the own targets' logits") {
  const at::Tensor logits = normal({6, 49}) * 3, target = at::tensor({5, 60, 48, -100, 0, 96}, at::kLong);
  check({"row_lse",
         {{"ignore_index", kIgnored}, {"whole", int64_t{97}}, {"places", int64_t{2}}},
         {logits, target, place_number(0)},
         [](const Tensors& t) {
           const at::Tensor counts = t[1].ne(kIgnored), own = t[1].ge(0).logical_and(t[1].lt(49));
           at::Tensor stats = at::zeros({6, 2, 2}, at::kDouble);
           stats.select(1, 0).select(1, 0).copy_(at::logsumexp(t[0], 1) * counts);
           const at::Tensor at_target = t[0].gather(1, t[1].clamp(0, 48).unsqueeze(1)).squeeze(1);
           stats.select(1, 0).select(1, 1).copy_(at_target * own);
           return Tensors{stats};
         },
         {},
         {true},
         true,
         false});
}

TEST_CASE_METHOD(Fixture, "look-ups of own rows add up to the look-up, and their gradients are its rows") {
  for (const Parts& parts : kParts)
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      INFO(parts.whole << " rows over " << parts.places << " places, " << toString(type));
      const at::Tensor table = normal({parts.whole, 5}).to(type);
      const at::Tensor index = at::randint(parts.whole, {4, 3}, at::kLong);
      index[0][0] = parts.whole - 1;
      index[0][1] = 2;
      const at::Tensor g = normal({4, 3, 5}).to(type);
      at::Tensor sum = at::zeros({4, 3, 5}, type), expected = at::zeros({parts.whole, 5}, type);
      Tensors gradients;
      for (int64_t p = 0; p < parts.places; ++p) {
        const std::vector<Attr> attrs{
            {"padding_idx", int64_t{2}}, {"scale_grad_by_freq", false}, {"whole", parts.whole}};
        at::Tensor own = at::full({4, 3, 5}, 9, type), gradient = at::full({parts.each(), 5}, 9, type);
        REQUIRE(run_kernel("embedding", {own}, {part_of(table, parts, p, 0, 1e4), index, place_number(p)}, attrs).ok());
        sum.add_(own);
        std::vector<Attr> backward{{"shape", std::vector<int64_t>{parts.each(), 5}}};
        backward.insert(backward.end(), attrs.begin(), attrs.end());
        REQUIRE(run_kernel("embedding_backward", {gradient}, {g, index, place_number(p)}, backward).ok());
        gradients.push_back(gradient);
      }
      CHECK(at::equal(sum, table.index_select(0, index.view({-1})).view({4, 3, 5})));
      REQUIRE(run_kernel("embedding_backward", {expected}, {g, index},
                         {{"shape", std::vector<int64_t>{parts.whole, 5}},
                          {"padding_idx", int64_t{2}},
                          {"scale_grad_by_freq", false}})
                  .ok());
      CHECK(at::allclose(joined(gradients, parts, 0).to(at::kFloat), expected.to(at::kFloat), 1e-2, 1e-2));
      CHECK(at::equal(joined(gradients, parts, 0)[2], at::zeros({5}, type)));
    }
}

TEST_CASE_METHOD(Fixture, "a number past the whole is named at every place, one of another part at none") {
  const std::vector<Attr> rows{{"padding_idx", int64_t{-1}}, {"scale_grad_by_freq", false}, {"whole", int64_t{7}}};
  for (int64_t place = 0; place < 2; ++place) {
    at::Tensor y = at::zeros({2, 3});
    CHECK(run_kernel("embedding", {y}, {at::ones({4, 3}), at::tensor({int64_t{0}, int64_t{6}}), place_number(place)},
                     rows)
              .ok());
    CHECK_THROWS_WITH(run_kernel("embedding", {y},
                                 {at::ones({4, 3}), at::tensor({int64_t{0}, int64_t{7}}), place_number(place)}, rows)
                          .ok(),
                      Catch::Contains("index 7"));
    at::Tensor stats = at::zeros({1, 2, 2});
    CHECK_THROWS_WITH(
        run_kernel("row_lse", {stats}, {at::ones({1, 4}), at::full({1}, 7, at::kLong), place_number(place)},
                   {{"ignore_index", kIgnored}, {"whole", int64_t{7}}, {"places", int64_t{2}}})
            .ok(),
        Catch::Contains("target 7"));
  }
}

}  // namespace piper::kernels::testing
