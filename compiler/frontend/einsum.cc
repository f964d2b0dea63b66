#include "compiler/frontend/einsum.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

namespace piper::frontend {
namespace {

// Letters are themselves; the axes of an ellipsis are kEllipsis + position from the right.
using Label = int;
constexpr Label kEllipsis = 1000;
using Labels = std::vector<Label>;

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

bool contains(const Labels& labels, Label l) { return std::find(labels.begin(), labels.end(), l) != labels.end(); }

Status misfit(std::string_view equation, const std::string& what) {
  return Status::failure("P0306", "the einsum equation '" + std::string(equation.substr(0, 200)) + "' " + what);
}

// One term; `ellipsis_rank` = the axes that "..." stands for.
Result<Labels> parse_term(std::string_view equation, std::string_view term, size_t ellipsis_rank) {
  Labels out;
  bool ellipsis = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      if (contains(out, term[i]))
        return misfit(equation, "repeats a label within one operand, which piper does not support");
      out.push_back(term[i]);
    } else if (term.substr(i, 3) == "..." && !ellipsis) {
      ellipsis = true;
      i += 2;
      for (size_t k = ellipsis_rank; k-- > 0;) out.push_back(kEllipsis + static_cast<Label>(k));
    } else {
      return misfit(equation, "is malformed");
    }
  }
  return out;
}

Result<Equation> parse(std::string_view equation, const std::vector<std::vector<int64_t>>& shapes) {
  std::string text;
  for (const char c : equation)
    if (c != ' ') text += c;
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  std::vector<std::string> terms(1);
  for (const char c : left) {
    if (c == ',') terms.emplace_back();
    else terms.back() += c;
  }
  if (terms.size() != shapes.size())
    return misfit(equation, "names " + std::to_string(terms.size()) + " operands where there are " +
                                std::to_string(shapes.size()));
  Equation out;
  size_t widest = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const size_t letters = static_cast<size_t>(
        std::count_if(terms[i].begin(), terms[i].end(), [](unsigned char c) { return std::isalpha(c) != 0; }));
    const size_t rank = shapes[i].size();
    const size_t rest = rank > letters ? rank - letters : 0;
    PIPER_ASSIGN(Labels labels, parse_term(equation, terms[i], rest));
    if (labels.size() != rank)
      return misfit(equation, "names " + std::to_string(labels.size()) + " axes of operand " + std::to_string(i) +
                                  ", which has " + std::to_string(rank));
    if (terms[i].find('.') != std::string::npos) widest = std::max(widest, rest);
    out.inputs.push_back(std::move(labels));
  }
  if (arrow != std::string::npos) {
    PIPER_ASSIGN(out.output, parse_term(equation, std::string_view(text).substr(arrow + 2), widest));
    for (const Label l : out.output)
      if (std::none_of(out.inputs.begin(), out.inputs.end(), [&](const Labels& in) { return contains(in, l); }))
        return misfit(equation, "has a label on the right that is not on the left");
    return out;
  }
  std::map<Label, int> count;
  for (const Labels& in : out.inputs)
    for (const Label l : in) ++count[l];
  for (size_t k = widest; k-- > 0;) out.output.push_back(kEllipsis + static_cast<Label>(k));
  for (const auto& [l, n] : count)
    if (l < kEllipsis && n == 1) out.output.push_back(l);
  return out;
}

struct Term {
  ir::ValueId value;
  Labels labels;
};

class Contractor {
 public:
  explicit Contractor(ir::GraphBuilder& builder) : b_(builder) {}

  int64_t extent(const Term& t, Label l) const {
    const auto at = static_cast<size_t>(std::find(t.labels.begin(), t.labels.end(), l) - t.labels.begin());
    const std::vector<int64_t>& shape = b_.type(t.value).shape;
    // After a misfit (operands of different element types), which the builder keeps, a value has no axes.
    return at < t.labels.size() && at < shape.size() ? shape[at] : 1;
  }

  // Axes in this order; labels that the term lacks become extents of 1.
  Term arrange(const Term& t, const Labels& order) {
    std::vector<int64_t> dims, shape;
    for (const Label l : order) {
      shape.push_back(extent(t, l));
      const auto at = std::find(t.labels.begin(), t.labels.end(), l);
      if (at != t.labels.end()) dims.push_back(at - t.labels.begin());
    }
    return {b_.reshape(b_.permute(t.value, dims), shape), order};
  }

  Term sum_out(const Term& t, const Labels& keep) {
    std::vector<int64_t> dims;
    Term out{t.value, {}};
    for (size_t i = 0; i < t.labels.size(); ++i) {
      if (contains(keep, t.labels[i])) out.labels.push_back(t.labels[i]);
      else dims.push_back(static_cast<int64_t>(i));
    }
    out.value = b_.sum(t.value, dims, false);
    return out;
  }

  // The product of two terms, summed over what `keep` does not name.
  Term contract(Term a, Term b, const Labels& keep) {
    const auto with = [](Labels x, const Labels& y) {
      x.insert(x.end(), y.begin(), y.end());
      return x;
    };
    a = sum_out(a, with(keep, b.labels));
    b = sum_out(b, with(keep, a.labels));
    // An axis of extent 1 broadcasts: it is no partner for a sum.
    drop_ones(a, b, keep);
    drop_ones(b, a, keep);
    Labels batch, only_a, only_b, summed;
    for (const Label l : a.labels) {
      if (!contains(b.labels, l)) only_a.push_back(l);
      else (contains(keep, l) ? batch : summed).push_back(l);
    }
    for (const Label l : b.labels)
      if (!contains(a.labels, l)) only_b.push_back(l);
    if (summed.empty()) return multiply(a, b, batch, only_a, only_b);
    return product(a, b, batch, only_a, only_b, summed);
  }

 private:
  void drop_ones(Term& t, const Term& other, const Labels& keep) {
    Labels left;
    for (const Label l : t.labels)
      if (!(extent(t, l) == 1 && contains(other.labels, l) && extent(other, l) != 1 && !contains(keep, l)))
        left.push_back(l);
    if (left.size() == t.labels.size()) return;
    std::vector<int64_t> shape;
    for (const Label l : left) shape.push_back(extent(t, l));
    t = {b_.reshape(t.value, shape), left};
  }

  Term multiply(const Term& a, const Term& b, Labels order, const Labels& only_a, const Labels& only_b) {
    order.insert(order.end(), only_a.begin(), only_a.end());
    order.insert(order.end(), only_b.begin(), only_b.end());
    return {b_.add1(ir::OpKind::kMul, {arrange(a, order).value, arrange(b, order).value}), order};
  }

  Term product(const Term& a, const Term& b, const Labels& batch, const Labels& only_a, const Labels& only_b,
               const Labels& summed) {
    std::vector<int64_t> shape_a, shape_b, shape;
    Labels order;
    int64_t rows = 1, columns = 1, inner = 1;
    for (const Label l : batch) {
      shape_a.push_back(extent(a, l));
      shape_b.push_back(extent(b, l));
      shape.push_back(std::max(extent(a, l), extent(b, l)));
      order.push_back(l);
    }
    for (const Label l : only_a) {
      rows *= extent(a, l);
      shape.push_back(extent(a, l));
      order.push_back(l);
    }
    for (const Label l : only_b) {
      columns *= extent(b, l);
      shape.push_back(extent(b, l));
      order.push_back(l);
    }
    for (const Label l : summed) inner *= extent(a, l);
    shape_a.insert(shape_a.end(), {rows, inner});
    shape_b.insert(shape_b.end(), {inner, columns});
    const ir::ValueId left = b_.reshape(arrange(a, joined(batch, only_a, summed)).value, shape_a);
    const ir::ValueId right = b_.reshape(arrange(b, joined(batch, summed, only_b)).value, shape_b);
    return {b_.reshape(b_.add1(ir::OpKind::kMatmul, {left, right}), shape), order};
  }

  static Labels joined(const Labels& x, const Labels& y, const Labels& z) {
    Labels out = x;
    out.insert(out.end(), y.begin(), y.end());
    out.insert(out.end(), z.begin(), z.end());
    return out;
  }

  ir::GraphBuilder& b_;
};

}  // namespace

Status check_einsum(std::string_view equation, const std::vector<std::vector<int64_t>>& shapes) {
  if (shapes.empty()) return misfit(equation, "has no operand");
  PIPER_ASSIGN(const Equation parsed, parse(equation, shapes));
  std::map<Label, int64_t> extents;
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (size_t k = 0; k < shapes[i].size(); ++k) {
      int64_t& known = extents.try_emplace(parsed.inputs[i][k], 1).first->second;
      if (known != 1 && shapes[i][k] != 1 && known != shapes[i][k])
        return misfit(equation,
                      "gives one label the extents " + std::to_string(known) + " and " + std::to_string(shapes[i][k]));
      if (shapes[i][k] != 1) known = shapes[i][k];
    }
  }
  return Status();
}

ir::ValueId einsum(ir::GraphBuilder& builder, std::string_view equation, const std::vector<ir::ValueId>& operands) {
  std::vector<std::vector<int64_t>> shapes;
  for (const ir::ValueId v : operands) shapes.push_back(builder.type(v).shape);
  Result<Equation> parsed = parse(equation, shapes);
  PIPER_CHECK(parsed.ok() && !operands.empty(), "einsum without check_einsum: ", equation);
  const Equation& e = *parsed;
  Contractor contractor(builder);
  Term acc{operands[0], e.inputs[0]};
  for (size_t i = 1; i < operands.size(); ++i) {
    Labels keep = e.output;
    for (size_t k = i + 1; k < operands.size(); ++k) keep.insert(keep.end(), e.inputs[k].begin(), e.inputs[k].end());
    acc = contractor.contract(acc, {operands[i], e.inputs[i]}, keep);
  }
  acc = contractor.sum_out(acc, e.output);
  return contractor.arrange(acc, e.output).value;
}

}  // namespace piper::frontend
