// ATen calls that are losses. Reductions are ATen's numbers: 0 none, 1 mean, 2 sum.
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/frontend/aten/table.h"
#include "compiler/frontend/formulas.h"

namespace piper::frontend::aten {
namespace {

std::string reduction_name(Call& c) {
  const int64_t r = c.integer("reduction");
  if (r < 0 || r > 2) c.fail("an unknown reduction");
  return r == 0 ? "none" : r == 2 ? "sum" : "mean";
}

Item reduced(Call& c, ValueId terms, const std::string& r) {
  if (r == "none") return made(terms);
  return made(r == "sum" ? c.sum(terms, c.all_dims(terms), false) : c.mean(terms, c.all_dims(terms), false));
}
Item reduced(Call& c, ValueId terms) { return reduced(c, terms, reduction_name(c)); }

// target and prediction in one shape, as ATen's element-wise losses broadcast them.
ValueId difference(Call& c) { return c.binary(OpKind::kSub, c.tensor("self"), c.tensor("target")); }

// min(max(x, low), infinity)
ValueId at_least(Call& c, ValueId x, double low) {
  ir::ClampAttrs attrs;
  attrs.min = low;
  attrs.max = std::numeric_limits<double>::infinity();
  return c.op(OpKind::kClamp, {x}, attrs);
}

// Probabilities as targets: -sum over classes of target * log_softmax; the mean divides by the
// number of rows, whatever the class weights.
Item soft_cross_entropy(Call& c, ValueId logits, ValueId target, double smoothing, const std::string& reduction) {
  const int64_t axis = c.rank(logits) == 1 ? 0 : 1, classes = c.extent(logits, axis);
  ValueId t = c.cast(target, c.dtype(logits));
  if (smoothing > 0) {
    t = c.binary(OpKind::kMul, t, 1 - smoothing);
    t = c.binary(OpKind::kAdd, t, smoothing / static_cast<double>(classes));
  }
  ValueId terms = c.binary(OpKind::kMul, c.op(OpKind::kLogSoftmax, {logits}, ir::DimAttrs{axis}), t);
  if (c.has("weight")) {
    Extents shape(c.shape(logits).size(), 1);
    shape[static_cast<size_t>(axis)] = classes;
    terms = c.binary(OpKind::kMul, terms, c.reshape(c.tensor("weight"), std::move(shape)));
  }
  return reduced(c, c.op(OpKind::kNeg, {c.sum(terms, {axis}, false)}), reduction);
}

// The norm of order `p` along the last axis. Of infinity, each of several that are as great has the whole gradient.
ValueId norm_of_rows(Call& c, ValueId d, bool keepdim) {
  const int64_t last = c.rank(d) - 1;
  const double p = c.real("p");
  if (last < 0 || p < 0 || (p > 0 && p < 1)) return c.fail("a distance without axes, or of an order below 1"), d;
  if (p == 1) return c.sum(c.op(OpKind::kAbs, {d}), {last}, keepdim);
  if (p == 2) return root_of_squares(c.builder(), c.sum(c.binary(OpKind::kMul, d, d), {last}, keepdim));
  if (!std::isinf(p)) return norm_of_order(c.builder(), d, p, {last}, keepdim);
  const ValueId size = c.op(OpKind::kAbs, {d}), fixed = c.op(OpKind::kDetach, {size});
  const ValueId most = c.op(OpKind::kAmax, {fixed}, ir::ReduceAttrs{{last}, true});
  const ValueId nothing = c.op(OpKind::kWhere, {c.binary(OpKind::kEq, fixed, most), c.binary(OpKind::kSub, size, fixed),
                                                c.scalar(0, c.dtype(d))});
  return c.binary(OpKind::kAdd, keepdim ? most : c.squeeze(most, -1), c.sum(nothing, {last}, keepdim));
}

// |a - b + eps| of rows along the last axis.
ValueId distance(Call& c, ValueId a, ValueId b, bool keepdim) {
  if (c.real("p") != 1 && c.real("p") != 2) c.fail("distances are supported with p 1 and 2");
  return norm_of_rows(c, c.binary(OpKind::kAdd, c.binary(OpKind::kSub, a, b), c.real("eps")), keepdim);
}

// yes where the target is that, else 0.
ValueId where_target(Call& c, OpKind compared, double that, ValueId yes) {
  return c.op(OpKind::kWhere,
              {c.binary(compared, c.tensor("target"), that), yes, c.filled(c.shape(yes), 0, c.dtype(yes))});
}

// Losses on [C] take it as one row.
Item classified(Call& c, ValueId x, double smoothing, std::string reduction) {
  ValueId target = c.cast(c.tensor("target"), DType::kI64);
  const bool lone = c.rank(x) == 1;
  if (lone) {
    x = c.unsqueeze(x, 0);
    target = c.reshape(target, {1});
  }
  ir::CrossEntropyLossAttrs attrs;
  attrs.reduction = std::move(reduction);
  attrs.ignore_index = c.integer("ignore_index");
  attrs.label_smoothing = smoothing;
  std::vector<ValueId> operands{x, target};
  if (c.has("weight")) operands.push_back(c.tensor("weight"));
  ValueId y = c.op(c.kind(), std::move(operands), attrs);
  if (lone && attrs.reduction == "none") y = c.reshape(y, {});
  return made(y);
}

}  // namespace

Item cross_entropy(Call& c) {
  const ValueId logits = c.tensor("self"), target = c.tensor("target");
  const double smoothing = c.real("label_smoothing");
  if (is_floating(c.dtype(target))) return soft_cross_entropy(c, logits, target, smoothing, reduction_name(c));
  return classified(c, logits, smoothing, reduction_name(c));
}
Item nll_loss(Call& c) { return classified(c, c.tensor("self"), 0, reduction_name(c)); }
Item nll_loss_results(Call& c) { return Item::of_list({nll_loss(c), Item::none()}); }

namespace {
// Rows of a linear layer: what PyTorch computes a few rows at a time, with the gradients.
Item linear_cross_entropy_of(Call& c, double smoothing, const std::string& reduction) {
  const ValueId logits =
      c.op(OpKind::kLinear, {c.tensor("input"), c.tensor("linear_weight"), c.tensor_or_none("linear_bias")});
  const ValueId target = c.tensor("target");
  if (is_floating(c.dtype(target))) return soft_cross_entropy(c, logits, target, smoothing, reduction);
  return classified(c, logits, smoothing, reduction);
}
}  // namespace
Item linear_cross_entropy(Call& c) {
  Item loss = linear_cross_entropy_of(c, c.real("label_smoothing"), c.text("reduction"));
  return Item::of_list({std::move(loss), Item::none(), Item::none(), Item::none()});
}
Item linear_cross_entropies(Call& c) { return linear_cross_entropy_of(c, 0, "none"); }

Item mse_loss(Call& c) {
  const ValueId x = c.tensor("self"), target = c.tensor("target");
  if (c.shape(x) == c.shape(target) && c.dtype(x) == c.dtype(target))
    return made(c.op(OpKind::kMseLoss, {x, target}, ir::ReductionAttrs{reduction_name(c)}));
  const ValueId d = difference(c);
  return reduced(c, c.binary(OpKind::kMul, d, d));
}

Item l1_loss(Call& c) { return reduced(c, c.op(OpKind::kAbs, {difference(c)})); }

// |d| < beta ? d^2 / (2 beta) : |d| - beta / 2
Item smooth_l1_loss(Call& c) {
  const double beta = c.real("beta");
  const ValueId d = difference(c), a = c.op(OpKind::kAbs, {d});
  if (beta == 0) return reduced(c, a);
  const ValueId near = c.binary(OpKind::kMul, c.binary(OpKind::kMul, d, d), 0.5 / beta);
  const ValueId far = c.binary(OpKind::kSub, a, 0.5 * beta);
  return reduced(c, c.op(OpKind::kWhere, {c.binary(OpKind::kLt, a, beta), near, far}));
}

// |d| <= delta ? d^2 / 2 : delta (|d| - delta / 2)
Item huber_loss(Call& c) {
  const double delta = c.real("delta");
  const ValueId d = difference(c), a = c.op(OpKind::kAbs, {d});
  const ValueId near = c.binary(OpKind::kMul, c.binary(OpKind::kMul, d, d), 0.5);
  const ValueId far = c.binary(OpKind::kMul, c.binary(OpKind::kSub, a, 0.5 * delta), delta);
  return reduced(c, c.op(OpKind::kWhere, {c.binary(OpKind::kLe, a, delta), near, far}));
}

// (1 - t) x - (1 + (pos_weight - 1) t) log_sigmoid(x), as ATen computes it.
Item bce_with_logits(Call& c) {
  const ValueId x = c.tensor("self"), t = c.tensor("target");
  ValueId log = c.op(OpKind::kLogSigmoid, {x});
  if (c.has("pos_weight")) {
    const ValueId factor = c.binary(OpKind::kMul, c.binary(OpKind::kSub, c.tensor("pos_weight"), 1), t);
    log = c.binary(OpKind::kMul, c.binary(OpKind::kAdd, factor, 1), log);
  }
  const ValueId rest = c.binary(OpKind::kSub, c.scalar(1, c.dtype(t)), t);
  ValueId terms = c.binary(OpKind::kSub, c.binary(OpKind::kMul, rest, x), log);
  if (c.has("weight")) terms = c.binary(OpKind::kMul, terms, c.tensor("weight"));
  return reduced(c, terms);
}

// -(t max(log p, -100) + (1 - t) max(log(1 - p), -100)). The derivative by p is ATen's,
// (p - t) / max(p (1 - p), 1e-12): that of the logarithms is no number where p is 0 or 1. It multiplies p minus itself,
// which adds 0 to the value.
Item binary_cross_entropy(Call& c) {
  const ValueId p = c.tensor("self"), t = c.tensor("target");
  const ValueId one = c.scalar(1, c.dtype(p)), fixed = c.op(OpKind::kDetach, {p});
  const ValueId rest = c.binary(OpKind::kSub, one, fixed);
  const ValueId yes = at_least(c, c.op(OpKind::kLog, {fixed}), -100);
  const ValueId no = at_least(c, c.op(OpKind::kLog, {rest}), -100);
  ValueId terms = c.binary(OpKind::kMul, t, yes);
  terms = c.binary(OpKind::kAdd, terms, c.binary(OpKind::kMul, c.binary(OpKind::kSub, one, t), no));
  const ValueId spread = at_least(c, c.binary(OpKind::kMul, fixed, rest), 1e-12);
  const ValueId slope = c.binary(OpKind::kDiv, c.binary(OpKind::kSub, fixed, c.op(OpKind::kDetach, {t})), spread);
  terms = c.binary(OpKind::kSub, c.binary(OpKind::kMul, c.binary(OpKind::kSub, p, fixed), slope), terms);
  if (c.has("weight")) terms = c.binary(OpKind::kMul, terms, c.tensor("weight"));
  return reduced(c, terms);
}

// t (log t - x), 0 where t is 0; with log_target exp(t) (t - x).
Item kl_div(Call& c) {
  const ValueId x = c.tensor("self"), t = c.tensor("target");
  if (c.flag("log_target"))
    return reduced(c, c.binary(OpKind::kMul, c.op(OpKind::kExp, {t}), c.binary(OpKind::kSub, t, x)));
  const ValueId positive = c.binary(OpKind::kGt, t, 0);
  const ValueId safe = c.op(OpKind::kWhere, {positive, t, c.scalar(1, c.dtype(t))});
  const ValueId terms = c.binary(OpKind::kMul, t, c.binary(OpKind::kSub, c.op(OpKind::kLog, {safe}), x));
  return reduced(c, terms);
}

namespace {
// The norm of differences along the last axis. Each of the largest has all of the gradient where the order is infinite.
ValueId norm_of_differences(Call& c, ValueId x) {
  const double p = c.real("p");
  const int64_t last = c.rank(x) - 1;
  if (p == 1) return c.sum(c.op(OpKind::kAbs, {x}), {last}, false);
  if (p == 2) return root_of_squares(c.builder(), c.sum(c.binary(OpKind::kMul, x, x), {last}, false));
  if (p != 0 && p < 1) c.fail("distances of an order below 1 (but 0) are not supported");
  const ValueId y = norm_of_order(c.builder(), x, p, {last}, false);
  if (!std::isinf(p)) return y;
  const ValueId of_all = c.unsqueeze(c.op(OpKind::kDetach, {y}), last);
  const ValueId largest = c.binary(OpKind::kEq, c.op(OpKind::kAbs, {x}), of_all);
  const ValueId others = c.binary(OpKind::kAdd, c.sum(c.cast(largest, c.dtype(y)), {last}, false), -1);
  const ValueId more = c.binary(OpKind::kMul, others, c.binary(OpKind::kSub, y, c.op(OpKind::kDetach, {y})));
  return c.op(OpKind::kAdd,
              {y, c.op(OpKind::kWhere, {c.binary(OpKind::kGt, others, 0), more, c.scalar(0, c.dtype(y))})});
}
}  // namespace

// Distances of each row of one to each of the other.
Item cdist(Call& c) {
  const ValueId a = c.tensor("x1"), b = c.tensor("x2");
  if (c.rank(a) < 2 || c.rank(b) < 2) return c.fail("cdist wants rows");
  const ValueId x = c.binary(OpKind::kSub, c.unsqueeze(a, c.rank(a) - 1), c.unsqueeze(b, c.rank(b) - 2));
  return made(norm_of_differences(c, x));
}

// The distances of each two rows.
Item pdist(Call& c) {
  const ValueId x = c.tensor("self");
  if (c.rank(x) != 2) return c.fail("pdist wants a matrix");
  std::vector<int64_t> first, second;
  const int64_t n = c.extent(x, 0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) {
      first.push_back(i);
      second.push_back(j);
    }
  const auto pairs = static_cast<int64_t>(first.size());
  const ValueId a = c.op(OpKind::kIndexSelect, {x, c.builder().constant_i64({pairs}, first)}, ir::DimAttrs{0});
  const ValueId b = c.op(OpKind::kIndexSelect, {x, c.builder().constant_i64({pairs}, second)}, ir::DimAttrs{0});
  return made(norm_of_differences(c, c.binary(OpKind::kSub, a, b)));
}

Item pairwise_distance(Call& c) { return made(distance(c, c.tensor("x1"), c.tensor("x2"), c.flag("keepdim"))); }

// max(0, margin + |a - p| - |a - n|); with swap the negative is as near as it is to the anchor or to the positive.
Item triplet_margin_loss(Call& c) {
  const ValueId anchor = c.tensor("anchor"), positive = c.tensor("positive"), negative = c.tensor("negative");
  ValueId far = distance(c, anchor, negative, false);
  if (c.flag("swap")) far = c.binary(OpKind::kMinimum, far, distance(c, positive, negative, false));
  const ValueId near = c.binary(OpKind::kAdd, distance(c, anchor, positive, false), c.real("margin"));
  return reduced(c, at_least(c, c.binary(OpKind::kSub, near, far), 0));
}

// max(0, margin - target (a - b))
Item margin_ranking_loss(Call& c) {
  const ValueId d = c.binary(OpKind::kSub, c.tensor("input1"), c.tensor("input2"));
  const ValueId wrong = c.op(OpKind::kNeg, {c.binary(OpKind::kMul, c.tensor("target"), d)});
  return reduced(c, at_least(c, c.binary(OpKind::kAdd, wrong, c.real("margin")), 0));
}

// x of a target of 1, max(0, margin - x) of -1.
Item hinge_embedding_loss(Call& c) {
  const ValueId x = c.tensor("self");
  const ValueId below = c.binary(OpKind::kAdd, c.op(OpKind::kNeg, {x}), c.real("margin"));
  return reduced(c, c.binary(OpKind::kAdd, where_target(c, OpKind::kNe, 1, at_least(c, below, 0)),
                             where_target(c, OpKind::kNe, -1, x)));
}

// 1 - cos of a target of 1, max(0, cos - margin) of -1. Squares of norms are 1e-12 larger, as ATen has them.
Item cosine_embedding_loss(Call& c) {
  const ValueId a = c.tensor("input1"), b = c.tensor("input2");
  const int64_t axis = c.rank(c.tensor("target"));
  const auto product = [&](ValueId x, ValueId y) { return c.sum(c.binary(OpKind::kMul, x, y), {axis}, false); };
  const auto square = [&](ValueId x) { return c.binary(OpKind::kAdd, product(x, x), 1e-12); };
  if (axis + 1 != c.rank(a) || axis + 1 != c.rank(b)) return c.fail("a target of other axes than the rows");
  const ValueId norms = c.op(OpKind::kSqrt, {c.binary(OpKind::kMul, square(a), square(b))});
  const ValueId cosine = c.binary(OpKind::kDiv, product(a, b), norms);
  const ValueId alike = c.binary(OpKind::kSub, c.scalar(1, c.dtype(cosine)), cosine);
  const ValueId other = at_least(c, c.binary(OpKind::kSub, cosine, c.real("margin")), 0);
  return reduced(
      c, c.binary(OpKind::kAdd, where_target(c, OpKind::kEq, 1, alike), where_target(c, OpKind::kEq, -1, other)));
}

// log(1 + exp(-target x))
Item soft_margin_loss(Call& c) {
  const ValueId wrong = c.op(OpKind::kNeg, {c.binary(OpKind::kMul, c.tensor("target"), c.tensor("self"))});
  return reduced(c, c.op(OpKind::kSoftplus, {wrong}));
}

// exp(x) - t x, or x - t log(x + eps); full adds Stirling's t log t - t + log(2 pi t) / 2 where t > 1.
Item poisson_nll_loss(Call& c) {
  const ValueId x = c.tensor("input"), t = c.tensor("target");
  const ValueId log = c.flag("log_input") ? x : c.op(OpKind::kLog, {c.binary(OpKind::kAdd, x, c.real("eps"))});
  ValueId terms = c.flag("log_input") ? c.op(OpKind::kExp, {x}) : x;
  terms = c.binary(OpKind::kSub, terms, c.binary(OpKind::kMul, t, log));
  if (c.flag("full")) {
    const ValueId more = c.binary(OpKind::kGt, t, 1);
    const ValueId safe = c.op(OpKind::kWhere, {more, t, c.scalar(1, c.dtype(t))});
    const ValueId root =
        c.binary(OpKind::kMul, c.op(OpKind::kLog, {c.binary(OpKind::kMul, safe, 2 * std::numbers::pi)}), 0.5);
    const ValueId logs = c.binary(OpKind::kSub, c.binary(OpKind::kMul, safe, c.op(OpKind::kLog, {safe})), safe);
    const ValueId stirling = c.binary(OpKind::kAdd, logs, root);
    terms = c.binary(OpKind::kAdd, terms,
                     c.op(OpKind::kWhere, {more, stirling, c.filled(c.shape(stirling), 0, c.dtype(stirling))}));
  }
  return reduced(c, terms);
}

}  // namespace piper::frontend::aten
