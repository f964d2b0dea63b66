// Cases of rows in groups of experts: one segment without padding, and several with padding.
#include "tests/numeric/rule_cases.h"

namespace piper::numeric {

using ir::OpKind;
using ir::ValueId;

namespace {

// Counts of `experts` experts over segments of seven rows: an expert without rows, a segment without
// padding and one with.
ValueId counts(CaseBuilder& c, int64_t segments) {
  return segments == 1 ? c.b.constant_i64({1, 4}, {2, 0, 4, 1}) : c.b.constant_i64({2, 4}, {1, 0, 3, 1, 0, 2, 0, 5});
}

void add_of_segments(std::vector<RuleCase>& cases, int64_t segments) {
  const std::string where = segments == 1 ? "" : " with padding";
  for (bool transposed : {false, true})
    cases.push_back({std::string("grouped_matmul") + (transposed ? " transposed" : "") + where, [=](CaseBuilder& c) {
                       const ValueId x = c.parameter({7 * segments, 3});
                       const ValueId w =
                           c.parameter(transposed ? std::vector<int64_t>{4, 5, 3} : std::vector<int64_t>{4, 3, 5});
                       return c.loss_of({c.b.add1(OpKind::kGroupedMatmul, {x, w, counts(c, segments)},
                                                  ir::GroupedMatmulAttrs{transposed})});
                     }});
  cases.push_back({"grouped_expand" + where, [=](CaseBuilder& c) {
                     return c.loss_of({c.b.add1(OpKind::kGroupedExpand, {c.parameter({4, 2, 3}), counts(c, segments)},
                                                ir::RowsAttrs{7 * segments})});
                   }});
}

}  // namespace

void add_expert_cases(std::vector<RuleCase>& cases) {
  add_of_segments(cases, 1);
  add_of_segments(cases, 2);
  // A row that is not taken has no gradient; a place without a row is zero.
  cases.push_back(
      {"take_rows", [](CaseBuilder& c) {
         const ValueId index = c.b.constant_i64({5}, {3, -1, 0, 1, -1}), inverse = c.b.constant_i64({4}, {2, 3, -1, 0});
         return c.loss_of({c.b.add1(OpKind::kTakeRows, {c.parameter({4, 3}), index, inverse}, ir::TakeRowsAttrs{1})});
       }});
  cases.push_back({"take_rows with repeat", [](CaseBuilder& c) {
                     const ValueId index = c.b.constant_i64({5}, {3, -1, 0, 1, 5}),
                                   inverse = c.b.constant_i64({6}, {2, 3, -1, 0, -1, 4});
                     return c.loss_of(
                         {c.b.add1(OpKind::kTakeRows, {c.parameter({3, 2, 2}), index, inverse}, ir::TakeRowsAttrs{2})});
                   }});
  // Two choices for each of five tokens, there and back.
  cases.push_back(
      {"a layer of experts", [](CaseBuilder& c) {
         const ValueId ids = c.b.constant_i64({10}, {2, 0, 1, 2, 2, 3, 0, 2, 1, 0});
         const auto routed = c.b.add(OpKind::kExpertOrder, {ids}, ir::ExpertOrderAttrs{4, 1, 10});
         const ValueId x =
             c.b.add1(OpKind::kTakeRows, {c.parameter({5, 3}), routed[0], routed[1]}, ir::TakeRowsAttrs{2});
         ValueId y = c.b.add1(OpKind::kGroupedMatmul, {x, c.parameter({4, 3, 6}), routed[2]}, ir::GroupedMatmulAttrs{});
         y = c.b.add1(OpKind::kAdd,
                      {y, c.b.add1(OpKind::kGroupedExpand, {c.parameter({4, 6}), routed[2]}, ir::RowsAttrs{10})});
         y = c.b.add1(OpKind::kSilu, {y});
         y = c.b.add1(OpKind::kGroupedMatmul, {y, c.parameter({4, 2, 6}), routed[2]}, ir::GroupedMatmulAttrs{true});
         y = c.b.add1(OpKind::kTakeRows, {y, routed[1], routed[0]}, ir::TakeRowsAttrs{1});
         return c.loss_of({c.b.sum(c.b.reshape(y, {5, 2, 2}), {1}, false)});
       }});
}

}  // namespace piper::numeric
