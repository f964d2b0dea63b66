// Cases of views, reductions and scans, and indexing.
#include "tests/numeric/rule_cases.h"

namespace piper::numeric {

using ir::OpKind;
using ir::ValueId;

namespace {

void add_view_cases(std::vector<RuleCase>& cases) {
  // A view alone is linear; the tanh makes its gradient depend on the place.
  const auto add = [&](const std::string& name, const std::function<ValueId(CaseBuilder&, ValueId)>& view) {
    cases.push_back({name, [=](CaseBuilder& c) {
                       return c.loss_of({c.b.add1(OpKind::kTanh, {view(c, c.parameter({2, 3, 4}))})});
                     }});
  };
  add("reshape", [](CaseBuilder& c, ValueId x) { return c.b.reshape(x, {6, 4}); });
  add("permute", [](CaseBuilder& c, ValueId x) { return c.b.permute(x, {2, 0, 1}); });
  add("reshape of permute", [](CaseBuilder& c, ValueId x) { return c.b.reshape(c.b.permute(x, {1, 2, 0}), {24}); });
  add("expand", [](CaseBuilder& c, ValueId x) { return c.b.expand(c.b.reshape(x, {2, 1, 12}), {2, 2, 3, 12}); });
  add("slice", [](CaseBuilder& c, ValueId x) { return c.b.slice(x, 1, 1, 3); });
  add("slice with a step", [](CaseBuilder& c, ValueId x) { return c.b.slice(x, 2, 0, 4, 3); });
  add("pad",
      [](CaseBuilder& c, ValueId x) { return c.b.add1(OpKind::kPad, {x}, ir::PadAttrs{{0, 1, 2}, {1, 0, 1}, 0.5}); });
  add("pad that crops",
      [](CaseBuilder& c, ValueId x) { return c.b.add1(OpKind::kPad, {x}, ir::PadAttrs{{0, -1, 1}, {0, 2, -2}, 0.0}); });
  add("cat", [](CaseBuilder& c, ValueId x) {
    return c.b.add1(OpKind::kCat, {x, c.constant({2, 1, 4}), c.parameter({2, 2, 4})}, ir::DimAttrs{1});
  });
  add("cat of slices", [](CaseBuilder& c, ValueId x) {
    return c.b.add1(OpKind::kCat, {c.b.slice(x, 2, 2, 4), c.b.add1(OpKind::kNeg, {c.b.slice(x, 2, 0, 2)})},
                    ir::DimAttrs{2});
  });
  // The parts of a split, in another order and with a part that nothing reads.
  add("a split", [](CaseBuilder& c, ValueId x) {
    const ValueId last = c.b.add1(OpKind::kExp, {c.b.slice(x, 2, 3, 4)}), first = c.b.slice(x, 2, 0, 1);
    (void)c.b.slice(x, 2, 1, 3);  // no use
    return c.b.add1(OpKind::kMul, {first, last});
  });
  add("slices that overlap",
      [](CaseBuilder& c, ValueId x) { return c.b.add1(OpKind::kMul, {c.b.slice(x, 2, 0, 3), c.b.slice(x, 2, 1, 4)}); });
  add("detach beside a use",
      [](CaseBuilder& c, ValueId x) { return c.b.add1(OpKind::kMul, {x, c.b.add1(OpKind::kDetach, {x})}); });
  cases.back().no_differences = "the detached factor is not a constant to them";
}

void add_reduction_cases(std::vector<RuleCase>& cases) {
  for (OpKind kind : {OpKind::kSum, OpKind::kMean, OpKind::kAmax})
    for (bool keepdim : {false, true})
      for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {1}, {0, 2}, {0, 1, 2}}) {
        std::string name = std::string(op_name(kind)) + (keepdim ? " keepdim" : "") + " of";
        for (int64_t dim : dims) name += " " + std::to_string(dim);
        cases.push_back({name, [=](CaseBuilder& c) {
                           const ValueId x = c.spaced({2, 3, 4});
                           return c.loss_of({c.b.add1(kind, {x}, ir::ReduceAttrs{dims, keepdim})});
                         }});
      }
  cases.push_back({"amax with ties", [](CaseBuilder& c) {
                     const ValueId x = c.parameter_of({2, 3}, {1, 3, 3, 2, 0, 1});
                     return c.loss_of({c.b.add1(OpKind::kAmax, {x}, ir::ReduceAttrs{{1}, false})});
                   }});
  cases.back().no_differences = "not differentiable at ties; ATen splits the gradient evenly";
  for (int64_t dim : {0, 1, 2}) {
    const std::string along = " along " + std::to_string(dim);
    cases.push_back({"max_dim" + along, [=](CaseBuilder& c) {
                       const ValueId x = c.spaced({2, 3, 4});
                       return c.loss_of({c.b.add(OpKind::kMaxDim, {x}, ir::TopkAttrs{dim, 1})[0]});
                     }});
    cases.push_back({"topk" + along, [=](CaseBuilder& c) {
                       const ValueId x = c.spaced({2, 3, 4});
                       return c.loss_of({c.b.add(OpKind::kTopk, {x}, ir::TopkAttrs{dim, 2})[0]});
                     }});
    cases.push_back({"cumsum" + along, [=](CaseBuilder& c) {
                       const ValueId x = c.parameter({2, 3, 4});
                       return c.loss_of({c.b.add1(OpKind::kCumsum, {x}, ir::DimAttrs{dim})});
                     }});
    cases.push_back({"softmax" + along, [=](CaseBuilder& c) {
                       const ValueId x = c.parameter({2, 3, 4});
                       return c.loss_of({c.b.add1(OpKind::kSoftmax, {x}, ir::DimAttrs{dim})});
                     }});
    cases.push_back({"log_softmax" + along, [=](CaseBuilder& c) {
                       const ValueId x = c.parameter({2, 3, 4});
                       return c.loss_of({c.b.add1(OpKind::kLogSoftmax, {x}, ir::DimAttrs{dim})});
                     }});
  }
  cases.push_back({"all_to_all with itself", [](CaseBuilder& c) {
                     return c.loss_of({c.b.add1(OpKind::kAllToAll, {c.parameter({1, 3, 4})}, ir::ExchangeAttrs{})});
                   }});
  for (const OpKind kind : {OpKind::kEnter, OpKind::kAllReduce})
    cases.push_back({std::string(op_name(kind)) + " of one place",
                     [=](CaseBuilder& c) { return c.loss_of({c.b.add1(kind, {c.parameter({3, 4})})}); }});
  const ir::PartsAttrs one{1, 0};
  cases.push_back({"all_gather of one place, of what readers have in parts", [=](CaseBuilder& c) {
                     return c.loss_of({c.b.add1(OpKind::kAllGather, {c.parameter({3, 4})}, one)});
                   }});
  cases.push_back({"all_gather of one place", [=](CaseBuilder& c) {
                     return c.loss_of({c.b.add1(OpKind::kAllGather, {c.parameter({3, 4}), c.b.graph().place()}, one)});
                   }});
  cases.push_back({"reduce_scatter of one place", [=](CaseBuilder& c) {
                     return c.loss_of({c.b.add1(OpKind::kReduceScatter, {c.parameter({1, 3, 4})}, one)});
                   }});
  cases.push_back({"own_part of one place", [=](CaseBuilder& c) {
                     return c.loss_of({c.b.add1(OpKind::kOwnPart, {c.parameter({1, 3, 4}), c.b.graph().place()}, one)});
                   }});
  cases.push_back({"a loss that is a plain mean", [](CaseBuilder& c) {
                     const ValueId x = c.parameter({3, 4});
                     return c.b.add1(OpKind::kMean, {c.b.add1(OpKind::kExp, {x})}, ir::ReduceAttrs{{0, 1}, false});
                   }});
}

void add_indexing_cases(std::vector<RuleCase>& cases) {
  const auto embedding = [](ir::EmbeddingAttrs attrs) {
    return [=](CaseBuilder& c) {
      const ValueId table = c.parameter({5, 3});
      return c.loss_of({c.b.add1(OpKind::kEmbedding, {table, c.b.constant_i64({2, 3}, {1, 4, 1, 0, 2, 1})}, attrs)});
    };
  };
  cases.push_back({"embedding", embedding({-1, false})});
  cases.push_back({"embedding with padding_idx", embedding({1, false})});
  cases.back().no_differences = "the padding row gets no gradient by definition";
  cases.push_back({"embedding with scale_grad_by_freq", embedding({-1, true})});
  cases.back().no_differences = "gradients are divided by the count of their row by definition";
  for (int64_t dim : {0, 1}) {
    const std::string along = " along " + std::to_string(dim);
    cases.push_back({"gather" + along, [=](CaseBuilder& c) {
                       const ValueId x = c.parameter({3, 4});
                       return c.loss_of({c.b.add1(OpKind::kGather, {x, c.indices({3, 2}, 3)}, ir::DimAttrs{dim})});
                     }});
    // Distinct indices: which of two writes to one place wins is not defined.
    cases.push_back({"scatter" + along, [=](CaseBuilder& c) {
                       const ValueId x = c.parameter({3, 4}), src = c.parameter({3, 2});
                       const ValueId index =
                           c.b.constant_i64({3, 2}, dim == 0 ? std::vector<int64_t>{0, 1, 2, 0, 1, 2}
                                                             : std::vector<int64_t>{0, 1, 3, 0, 1, 2});
                       return c.loss_of({c.b.add1(OpKind::kScatter, {x, index, src}, ir::DimAttrs{dim})});
                     }});
    cases.push_back({"scatter_add" + along, [=](CaseBuilder& c) {
                       const ValueId x = c.parameter({3, 4}), src = c.parameter({3, 2});
                       return c.loss_of(
                           {c.b.add1(OpKind::kScatterAdd, {x, c.indices({3, 2}, 3), src}, ir::DimAttrs{dim})});
                     }});
    cases.push_back({"scatter_add of a part of src" + along, [=](CaseBuilder& c) {
                       const ValueId x = c.parameter({3, 4}), src = c.parameter({4, 3});
                       return c.loss_of(
                           {c.b.add1(OpKind::kScatterAdd, {x, c.indices({3, 2}, 3), src}, ir::DimAttrs{dim})});
                     }});
    cases.back().no_torch = "autograd refuses a src larger than its index";
    cases.push_back({"index_select" + along, [=](CaseBuilder& c) {
                       const ValueId x = c.parameter({3, 4});
                       return c.loss_of({c.b.add1(OpKind::kIndexSelect, {x, c.indices({5}, 3)}, ir::DimAttrs{dim})});
                     }});
    cases.push_back({"index_add" + along, [=](CaseBuilder& c) {
                       const ValueId x = c.parameter({3, 4});
                       const ValueId src =
                           c.parameter(dim == 0 ? std::vector<int64_t>{5, 4} : std::vector<int64_t>{3, 5});
                       return c.loss_of({c.b.add1(OpKind::kIndexAdd, {x, c.indices({5}, 3), src}, ir::DimAttrs{dim})});
                     }});
  }
}

}  // namespace

void add_shape_cases(std::vector<RuleCase>& cases) {
  add_view_cases(cases);
  add_reduction_cases(cases);
  add_indexing_cases(cases);
}

}  // namespace piper::numeric
