// Cases of factorisations. Matrices have well separated eigenvalues or singular values, so that what is made of them is
// smooth; those of which a kernel reads one triangle are made symmetric first.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "tests/numeric/rule_cases.h"

namespace piper::numeric {

using ir::OpKind;
using ir::ValueId;

namespace {

ValueId transposed(CaseBuilder& c, ValueId x) { return c.b.transpose(x, -1, -2); }

// A random matrix with 2, 3, 4, .. added to its diagonal.
ValueId apart(CaseBuilder& c, std::vector<int64_t> shape) {
  const int64_t m = shape[shape.size() - 2], n = shape.back();
  ir::WeightSource source;
  std::vector<std::byte> bytes(static_cast<size_t>(m * n) * sizeof(double));
  for (int64_t i = 0; i < m && i < n; ++i) {
    const double number = static_cast<double>(2 + i);
    std::memcpy(bytes.data() + static_cast<size_t>(i * n + i) * sizeof number, &number, sizeof number);
  }
  source.bytes = static_cast<int64_t>(bytes.size());
  source.data = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const ValueId diagonal = c.b.graph().add_constant("", {DType::kF64, {m, n}}, std::move(source));
  return c.b.add1(OpKind::kAdd, {c.parameter(std::move(shape), -0.4, 0.4), c.b.cast(diagonal, c.dtype())});
}
ValueId symmetric(CaseBuilder& c, std::vector<int64_t> shape) {
  const ValueId x = apart(c, std::move(shape));
  return c.b.add1(OpKind::kAdd, {x, transposed(c, x)});
}

using Shape = std::vector<int64_t>;

}  // namespace

void add_factor_cases(std::vector<RuleCase>& cases) {
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 1, 4, 4}}) {
    const std::string of = shape.size() == 2 ? "" : " of several";
    cases.push_back({"cholesky" + of, [=](CaseBuilder& c) {
                       return c.loss_of({c.b.add1(OpKind::kCholesky, {symmetric(c, shape)}, ir::CheckAttrs{true})});
                     }});
    cases.push_back({"eigh, values and vectors" + of,
                     [=](CaseBuilder& c) { return c.loss_of(c.b.add(OpKind::kEigh, {symmetric(c, shape)})); }});
    cases.push_back({"eigh, values" + of,
                     [=](CaseBuilder& c) { return c.loss_of({c.b.add(OpKind::kEigh, {symmetric(c, shape)})[0]}); }});
    cases.push_back({"eigh, vectors" + of,
                     [=](CaseBuilder& c) { return c.loss_of({c.b.add(OpKind::kEigh, {symmetric(c, shape)})[1]}); }});
    cases.push_back(
        {"det" + of, [=](CaseBuilder& c) { return c.loss_of({c.b.add(OpKind::kDet, {apart(c, shape)})[0]}); }});
    cases.push_back(
        {"slogdet" + of, [=](CaseBuilder& c) { return c.loss_of(c.b.add(OpKind::kSlogdet, {apart(c, shape)})); }});
    cases.push_back({"matrix_exp" + of,
                     [=](CaseBuilder& c) { return c.loss_of({c.b.add1(OpKind::kMatrixExp, {c.parameter(shape)})}); }});
    cases.push_back({"pinv, symmetric" + of, [=](CaseBuilder& c) {
                       return c.loss_of({c.b.add1(OpKind::kPinv, {symmetric(c, shape)}, ir::PinvAttrs{0, 1e-5, true})});
                     }});
  }
  // A matrix that is not symmetric: PyTorch gives half of the gradient to each triangle.
  const std::string one_triangle = "a step into the other triangle changes nothing; PyTorch's gradient is symmetric";
  cases.push_back({"cholesky of one triangle", [](CaseBuilder& c) {
                     return c.loss_of({c.b.add1(OpKind::kCholesky, {apart(c, {3, 3})}, ir::CheckAttrs{true})});
                   }});
  cases.back().no_differences = one_triangle;
  cases.push_back({"eigh of one triangle",
                   [](CaseBuilder& c) { return c.loss_of(c.b.add(OpKind::kEigh, {apart(c, {2, 3, 3})})); }});
  cases.back().no_differences = one_triangle;
  // The sum of equal singular values has a derivative, of which the vectors' is no part.
  cases.push_back({"svd, equal values", [](CaseBuilder& c) {
                     const ValueId zeros = c.parameter_of({3, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 0});
                     return c.b.sum(c.b.add(OpKind::kSvd, {zeros}, ir::SvdAttrs{false})[1], {0}, false);
                   }});
  cases.back().no_differences = "a norm is not smooth at zero";
  for (const Shape& shape : {Shape{3, 3}, Shape{4, 2}, Shape{2, 4}, Shape{2, 3, 2}, Shape{2, 2, 3}}) {
    const std::string of = " " + std::to_string(shape[shape.size() - 2]) + " x " + std::to_string(shape.back()) +
                           (shape.size() == 2 ? "" : " of several");
    const int64_t m = shape[shape.size() - 2], n = shape.back();
    cases.push_back({"lu_factor" + of, [=](CaseBuilder& c) {
                       return c.loss_of({c.b.add(OpKind::kLuFactor, {apart(c, shape)}, ir::CheckAttrs{true})[0]});
                     }});
    cases.push_back({"lu_factor with exchanges" + of, [=](CaseBuilder& c) {
                       return c.loss_of({c.b.add(OpKind::kLuFactor, {c.spaced(shape)}, ir::CheckAttrs{true})[0]});
                     }});
    cases.push_back({"pinv" + of, [=](CaseBuilder& c) {
                       return c.loss_of({c.b.add1(OpKind::kPinv, {apart(c, shape)}, ir::PinvAttrs{0, 1e-5, false})});
                     }});
    cases.push_back({"svd" + of, [=](CaseBuilder& c) {
                       return c.loss_of(c.b.add(OpKind::kSvd, {apart(c, shape)}, ir::SvdAttrs{false}));
                     }});
    for (const size_t result : {0, 1, 2})
      cases.push_back({"svd, result " + std::to_string(result) + of, [=](CaseBuilder& c) {
                         return c.loss_of({c.b.add(OpKind::kSvd, {apart(c, shape)}, ir::SvdAttrs{false})[result]});
                       }});
    if (m != n)
      cases.push_back({"svd in full" + of, [=](CaseBuilder& c) {
                         std::vector<ValueId> all = c.b.add(OpKind::kSvd, {apart(c, shape)}, ir::SvdAttrs{true});
                         const auto axes = static_cast<int64_t>(shape.size());
                         all[0] = c.b.slice(all[0], axes - 1, 0, std::min(m, n));
                         all[2] = c.b.slice(all[2], axes - 2, 0, std::min(m, n));
                         return c.loss_of(all);
                       }});
    if (m < n) continue;
    cases.push_back({"qr" + of, [=](CaseBuilder& c) { return c.loss_of(c.b.add(OpKind::kQr, {apart(c, shape)})); }});
    for (const size_t result : {0, 1})
      cases.push_back({"qr, result " + std::to_string(result) + of,
                       [=](CaseBuilder& c) { return c.loss_of({c.b.add(OpKind::kQr, {apart(c, shape)})[result]}); }});
  }
  for (const auto& [a, b] : {std::pair(Shape{3, 3}, Shape{3, 2}), std::pair(Shape{3, 3}, Shape{2, 3, 1}),
                             std::pair(Shape{2, 3, 3}, Shape{3, 2}), std::pair(Shape{2, 1, 3, 3}, Shape{4, 3, 2})}) {
    const std::string of = " of " + std::to_string(a.size()) + " and " + std::to_string(b.size()) + " axes";
    cases.push_back({"solve" + of, [a = a, b = b](CaseBuilder& c) {
                       return c.loss_of(
                           {c.b.add1(OpKind::kSolve, {apart(c, a), c.parameter(b)}, ir::CheckAttrs{true})});
                     }});
    for (const bool upper : {false, true})
      for (const bool unit : {false, true})
        cases.push_back(
            {std::string("triangular_solve") + (upper ? ", upper" : ", lower") + (unit ? ", unit" : "") + of,
             [a = a, b = b, upper, unit](CaseBuilder& c) {
               return c.loss_of({c.b.add1(OpKind::kTriangularSolve, {apart(c, a), c.parameter(b)},
                                          ir::TriangularAttrs{upper, unit})});
             }});
  }
}

}  // namespace piper::numeric
