// Forms of constants against the bytes that the evaluator writes, on random programs of what masks are made of.
#include <catch2/catch.hpp>

#include <cstring>
#include <random>

#include "compiler/frontend/fold/form_of_op.h"
#include "compiler/frontend/fold/recognise_mask.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/shapes.h"
#include "schemas/forms/form_text.h"
#include "tests/unit/constant_tensor.h"

namespace piper::frontend {
namespace {

using ir::OpKind;

ConstantTensor range(std::vector<int64_t> shape, size_t axis, int64_t start, int64_t step) {
  std::vector<int64_t> data;
  for (int64_t i = 0; i < shape[axis]; ++i) data.push_back(start + step * i);
  return constant_tensor(DType::kI64, std::move(shape), data);
}

double element(const ConstantTensor& t, int64_t i) {
  const std::byte* at = t.data()->data();
  switch (t.type.dtype) {
    case DType::kI64: {
      int64_t v = 0;
      std::memcpy(&v, at + 8 * i, 8);
      return static_cast<double>(v);
    }
    case DType::kF32: {
      float v = 0;
      std::memcpy(&v, at + 4 * i, 4);
      return v;
    }
    default: return static_cast<double>(at[i]);
  }
}

// A value twice: written out, and, where it has one, as a form alone.
struct Both {
  ConstantTensor bytes, form;
  bool has_form() const { return form.form() != nullptr; }
};
Both both(ConstantTensor bytes) {
  Form form = form_of(bytes);
  return {bytes, form == nullptr ? bytes : ConstantTensor(bytes.type, std::move(form), nullptr)};
}
Both made(OpKind kind, const ir::Attrs& attrs, const std::vector<Both>& x) {
  std::vector<ConstantTensor> bytes, forms;
  bool have = true;
  for (const Both& operand : x) {
    bytes.push_back(operand.bytes);
    forms.push_back(operand.form);
    have = have && operand.has_form();
  }
  const auto results = evaluate(kind, attrs, bytes);
  REQUIRE(results);
  ConstantTensor result = (*results)[0];
  Form form = have ? form_of(kind, attrs, forms, result.type) : nullptr;
  if (form == nullptr) return {result, result};
  return {result, ConstantTensor(result.type, std::move(form), nullptr)};
}

void check_all_places(const Both& v) {
  if (!v.has_form()) return;
  const std::vector<int64_t>& shape = v.bytes.type.shape;
  std::vector<int64_t> at(shape.size(), 0);
  bool same = true;
  for (int64_t i = 0; i < v.bytes.type.elements(); ++i) {
    const double wanted = element(v.bytes, i), found = form::value_at(v.form.form(), at);
    same = same && std::memcmp(&wanted, &found, sizeof wanted) == 0;
    if (!v.form.form()->is_real())
      same = same && found >= static_cast<double>(v.form.form()->least) &&
             found <= static_cast<double>(v.form.form()->most);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
  CHECK(same);
}

class Programs {
 public:
  explicit Programs(uint32_t seed) : random_(seed) {}
  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }

  Both number() {
    const int64_t shape = below(3), axis = 2 + below(2);
    if (shape == 0) return both(constant_tensor(DType::kI64, {}, std::vector<int64_t>{below(9) - 4}));
    std::vector<int64_t> extents{batch_, 1, queries_, keys_};
    for (int64_t d = 2; d < 4; ++d)
      if (d != axis) extents[static_cast<size_t>(d)] = 1;
    extents[0] = 1;
    return both(range(extents, static_cast<size_t>(axis), below(5) - 2, 1 + (below(4) == 0 ? below(3) - 1 : 0)));
  }
  // What finds where documents begin: the difference to the place before, of which sums run along an axis.
  Both steps() {
    const int64_t axis = 2 + below(2);
    const auto dim = static_cast<size_t>(axis);
    Both x =
        made(OpKind::kAdd, {},
             {number(), both(range({1, 1, axis == 2 ? queries_ : 1, axis == 3 ? keys_ : 1}, dim, 0, below(3) - 1))});
    if (x.bytes.type.shape[dim] != (axis == 2 ? queries_ : keys_)) return x;
    const Both first = made(OpKind::kSlice, ir::SliceAttrs{axis, 0, 1, 1}, {x});
    const Both before =
        made(OpKind::kAdd, {}, {first, both(constant_tensor(DType::kI64, {}, std::vector<int64_t>{below(3) - 1}))});
    const Both all = made(OpKind::kCat, ir::DimAttrs{axis}, {before, x});
    const int64_t extent = x.bytes.type.shape[dim];
    const Both step = made(OpKind::kSub, {}, {x, made(OpKind::kSlice, ir::SliceAttrs{axis, 0, extent, 1}, {all})});
    return made(
        OpKind::kCumsum, ir::DimAttrs{axis},
        {below(2)
             ? step
             : made(OpKind::kCast, ir::CastAttrs{DType::kI64},
                    {made(OpKind::kNe, {}, {step, both(constant_tensor(DType::kI64, {}, std::vector<int64_t>{1}))})})});
  }
  Both integer(int depth) {
    if (depth <= 0 || below(3) == 0) return number();
    switch (below(6)) {
      case 5: return steps();
      case 0: return made(OpKind::kAdd, {}, {integer(depth - 1), integer(depth - 1)});
      case 1: return made(OpKind::kSub, {}, {integer(depth - 1), integer(depth - 1)});
      case 2: return made(OpKind::kMul, {}, {integer(depth - 1), number()});
      case 3: return made(OpKind::kCast, ir::CastAttrs{DType::kI64}, {predicate(depth - 1)});
      default: return made(OpKind::kWhere, {}, {predicate(depth - 1), integer(depth - 1), integer(depth - 1)});
    }
  }
  Both predicate(int depth) {
    static const OpKind compare[] = {OpKind::kEq, OpKind::kNe, OpKind::kLt, OpKind::kLe, OpKind::kGt, OpKind::kGe};
    if (depth <= 1 || below(3) == 0) return made(compare[below(6)], {}, {integer(depth - 1), integer(depth - 1)});
    switch (below(6)) {
      case 0: return made(OpKind::kLogicalNot, {}, {predicate(depth - 1)});
      case 1: return made(OpKind::kLogicalOr, {}, {predicate(depth - 1), predicate(depth - 1)});
      case 2: return made(OpKind::kCast, ir::CastAttrs{DType::kBool}, {integer(depth - 1)});
      case 3: return made(compare[below(6)], {}, {real(depth - 1), real(depth - 1)});
      case 4: return made(OpKind::kWhere, {}, {predicate(depth - 1), predicate(depth - 1), predicate(depth - 1)});
      default: return made(OpKind::kLogicalAnd, {}, {predicate(depth - 1), predicate(depth - 1)});
    }
  }
  Both real(int depth) {
    static const float given[] = {0.0F, -0.0F, 1.0F, -1e9F, -3.4e38F, -std::numeric_limits<float>::infinity(), 0.5F};
    if (depth <= 0 || below(4) == 0) return both(constant_tensor(DType::kF32, {}, std::vector<float>{given[below(7)]}));
    switch (below(3)) {
      case 0: return made(OpKind::kCast, ir::CastAttrs{DType::kF32}, {predicate(depth - 1)});
      case 1: return made(below(2) ? OpKind::kMul : OpKind::kSub, {}, {real(depth - 1), real(depth - 1)});
      default: return made(OpKind::kWhere, {}, {predicate(depth - 1), real(depth - 1), real(depth - 1)});
    }
  }
  // For the whole shape, seen from the side, or in part.
  Both viewed(Both x) {
    std::vector<int64_t> shape{batch_, 1, queries_, keys_};
    x = made(OpKind::kExpand, ir::ExpandAttrs{shape}, {x});
    switch (below(4)) {
      case 0: return made(OpKind::kPermute, ir::PermuteAttrs{{0, 3, 1, 2}}, {x});
      case 1: {
        const int64_t first = below(keys_), last = first + 1 + below(keys_ - first);
        return made(OpKind::kSlice, ir::SliceAttrs{3, first, last, 1 + below(2)}, {x});
      }
      case 2: return made(OpKind::kReshape, ir::ReshapeAttrs{{batch_, queries_, keys_, 1}}, {x});
      default: return x;
    }
  }

  int64_t batch_ = 2, queries_ = 5, keys_ = 5;

 private:
  std::mt19937 random_;
};

}  // namespace

TEST_CASE("a form is what the evaluator writes out") {
  int64_t forms = 0, total = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    Programs programs(seed);
    programs.batch_ = 1 + programs.below(3);
    programs.queries_ = 1 + programs.below(12);
    programs.keys_ = 1 + programs.below(12);
    INFO("seed " << seed);
    const Both x = programs.viewed(seed % 3 == 0   ? programs.integer(3)
                                   : seed % 3 == 1 ? programs.predicate(3)
                                                   : programs.real(3));
    check_all_places(x);
    ++total;
    forms += x.has_form() ? 1 : 0;
  }
  CHECK(forms > total * 3 / 4);  // NaN, products of two axes and floats of many values have none
}

TEST_CASE("the text of a form is parsed to the form") {
  int64_t parsed = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    Programs programs(seed);
    programs.batch_ = 1;
    programs.queries_ = 1 + programs.below(12);
    programs.keys_ = 1 + programs.below(12);
    const Both x = programs.viewed(programs.predicate(4));
    if (!x.has_form()) continue;
    const std::vector<int64_t>& shape = x.bytes.type.shape;
    const std::vector<form::NamedAxis> axes{{"a", shape[0]}, {"b", shape[1]}, {"c", shape[2]}, {"d", shape[3]}};
    const std::string text = form::to_text(x.form.form(), axes);
    INFO(text);
    const Result<Form> again = form::parse(text, axes);
    REQUIRE(again.ok());
    CHECK(form::equal(*again, x.form.form()));
    ++parsed;
  }
  CHECK(parsed > 2000);
}

TEST_CASE("texts that are no forms are refused") {
  const std::vector<form::NamedAxis> axes{{"q", 4}, {"k", 4}};
  for (const char* text : {"", "q", "q >= 1", "q - k", "q - k >= 0 &", "q - k >= 0 extra", "r[q] = 0", "r0[q", "x >= 0",
                           "floor(q / 0) = 0", "9223372036854775808 >= 0", "!(q - k >= 0", "if(q, k, k) >= 0"}) {
    INFO(text);
    const Result<Form> form = form::parse(text, axes);
    CHECK((!form.ok() || !(*form)->is_predicate()));
  }
}

TEST_CASE("a causal mask is one form in all of its writings") {
  const int64_t s = 300;  // of more elements than are written out
  const ConstantTensor query = range({1, 1, s, 1}, 2, 0, 1), key = range({1, 1, 1, s}, 3, 0, 1);
  const ConstantTensor one = constant_tensor(DType::kI64, {}, std::vector<int64_t>{1});
  const ConstantTensor never = constant_tensor(DType::kF32, {}, std::vector<float>{-3.4e38F}),
                       zero = constant_tensor(DType::kF32, {}, std::vector<float>{0});
  const auto of = [&](OpKind kind, const ir::Attrs& attrs, const std::vector<ConstantTensor>& x) {
    auto results = evaluate(kind, attrs, x);
    REQUIRE(results);
    return (*results)[0];
  };
  const ConstantTensor le = of(OpKind::kLe, {}, {key, query}), ge = of(OpKind::kGe, {}, {query, key});
  const ConstantTensor lt = of(OpKind::kLt, {}, {key, of(OpKind::kAdd, {}, {query, one})});
  const ConstantTensor above = of(OpKind::kGt, {}, {key, query});
  const ConstantTensor twice = of(OpKind::kLogicalAnd, {}, {le, of(OpKind::kLogicalNot, {}, {above})});
  const ConstantTensor wide = of(OpKind::kExpand, ir::ExpandAttrs{{1000, 1, s, s}}, {twice});
  CHECK_FALSE(wide.has_bytes());
  for (const ConstantTensor& mask : {ge, lt, twice}) CHECK(form::equal(mask.form(), le.form()));
  CHECK(form::equal(wide.form(), le.form()));
  for (const ConstantTensor& mask :
       {le, wide, of(OpKind::kWhere, {}, {le, zero, never}), of(OpKind::kWhere, {}, {above, never, zero})})
    CHECK(recognise_mask(mask, false, s, s) == MaskPattern::kCausal);
  // One place less is another mask, and so is one more.
  for (OpKind kind : {OpKind::kSub, OpKind::kAdd})
    CHECK(recognise_mask(of(OpKind::kLe, {}, {key, of(kind, {}, {query, one})}), false, s, s) == MaskPattern::kOther);
  CHECK(recognise_mask(of(OpKind::kEq, {}, {query, query}), false, s, s) == MaskPattern::kFull);
}

TEST_CASE("what samples repeat is written once") {
  const int64_t s = 300, samples = 3;
  const ConstantTensor query = range({1, 1, s, 1}, 2, 0, 1), key = range({1, 1, 1, s}, 3, 0, 1);
  const ConstantTensor sample = range({samples, 1, 1, 1}, 0, 0, 1);
  const ConstantTensor seven = constant_tensor(DType::kI64, {}, std::vector<int64_t>{7});
  const auto of = [&](OpKind kind, const std::vector<ConstantTensor>& x) { return (*evaluate(kind, {}, x))[0]; };
  const ConstantTensor window = of(OpKind::kGt, {of(OpKind::kAdd, {key, seven}), query});
  const ConstantTensor first = of(OpKind::kLt, {of(OpKind::kSub, {sample, sample}), of(OpKind::kAdd, {key, seven})});
  const ConstantTensor mask = of(OpKind::kLogicalAnd, {of(OpKind::kLogicalAnd, {of(OpKind::kLe, {key, query}), window}),
                                                       of(OpKind::kLe, {query, of(OpKind::kAdd, {query, sample})})});
  const std::optional<ConstantTensor> part = repeated_part(mask);
  REQUIRE(part);
  CHECK(part->type.shape == std::vector<int64_t>{1, 1, s, s});
  const std::vector<std::byte> once = *part->data();
  CHECK_FALSE(mask.has_bytes());
  std::vector<std::byte> repeated;
  for (int64_t i = 0; i < samples; ++i) repeated.insert(repeated.end(), once.begin(), once.end());
  CHECK(*mask.data() == repeated);
  CHECK_FALSE(repeated_part(first));                                                      // few elements are repeated
  CHECK_FALSE(repeated_part(of(OpKind::kLe, {of(OpKind::kAdd, {query, sample}), key})));  // each sample has its own
}

}  // namespace piper::frontend
