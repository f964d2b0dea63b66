#include "schemas/verify/numbers/sums.h"

#include <algorithm>
#include <cmath>

#include "schemas/plan/dtype.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/names.h"
#include "schemas/verify/numbers/shares.h"

namespace piper::verify {
namespace {

bool less(const Term& a, const Term& b) { return a.key < b.key; }

// A copy is what was copied, in the order of the copy.
void through_whole_copy(View& view, const NumberTable& table) {
  const Number& number = table[view.number];
  if (number.by != Kernel::kCopy || !is_whole(view, table)) return;
  const View& source = number.operands[0];
  int64_t bytes = dtype_bytes(source.dtype);
  for (const ViewAxis& axis : source.axes) bytes *= axis.extent;
  if (source.dtype != view.dtype || bytes != number.bytes || table[source.number].over == Over::kEach) return;
  view = source;
  view.axes = joined_axes(source.axes);
}

void append(const Contribution& contribution, View view, int32_t program, const NumberTable& table, Terms& terms) {
  through_whole_copy(view, table);
  Term term{std::move(view), contribution.begin, contribution.end, program, contribution.call, ""};
  append_key(term.key, term.view);
  term.key += std::to_string(term.begin) + ":" + std::to_string(term.end);
  terms.push_back(std::move(term));
}

// Shares of one value are one share, of all their factors together, up to rounding.
void drop_equal_shares(Terms& terms, Terms& others, const NumberTable& table) {
  constexpr double kRounding = 1e-6;
  for (size_t i = 0; i < terms.size();) {
    const Term of = terms[i];
    const auto is_same = [&](const Term& term) {
      return term.begin == of.begin && term.end == of.end && same_value(of.view.number, term.view.number, table);
    };
    double difference = 0, size = 0;
    for (const Terms* side : {&terms, &others})
      for (const Term& term : *side) {
        if (!is_same(term)) continue;
        const double times = table[term.view.number].times;
        difference += side == &terms ? times : -times;
        size += std::abs(times);
      }
    if (size == 0 || std::abs(difference) > kRounding * size) {
      ++i;
      continue;
    }
    std::erase_if(terms, is_same);
    std::erase_if(others, is_same);
  }
}

}  // namespace

void append_terms(const Contribution& contribution, int32_t program, const NumberTable& table, Terms& terms) {
  const Number& number = table[contribution.view.number];
  if ((number.over != Over::kSum && number.over != Over::kPiece) || number.addends.empty()) {
    append(contribution, contribution.view, program, table, terms);
    return;
  }
  for (const int32_t addend : number.addends) {
    View view = contribution.view;  // the elements of a sum are those of its addends, in one order
    view.number = addend;
    append(contribution, std::move(view), program, table, terms);
  }
}

void differences(Terms wanted, Terms found, const NumberTable& table, Terms& missing, Terms& foreign) {
  std::sort(wanted.begin(), wanted.end(), less);
  std::sort(found.begin(), found.end(), less);
  std::set_difference(wanted.begin(), wanted.end(), found.begin(), found.end(), std::back_inserter(missing), less);
  std::set_difference(found.begin(), found.end(), wanted.begin(), wanted.end(), std::back_inserter(foreign), less);
  drop_equal_shares(missing, foreign, table);
  drop_equal_shares(foreign, missing, table);
}

namespace {

// The one sum that terms are, each of which is all of a value; -1: none.
int32_t one_sum(const Terms& terms, int64_t bytes, NumberTable& table) {
  NumberTable::Made made;
  for (const Term& term : terms) {
    const Number& number = table[term.view.number];
    if (number.over != Over::kSum || number.bytes != bytes || term.begin != 0 || term.end != bytes ||
        !is_whole(term.view, table))
      return -1;
    made.addends.push_back(term.view.number);
  }
  if (made.addends.size() == 1) return made.addends[0];
  made.by = Kernel::kAdd;
  made.over = Over::kSum;
  made.bytes = bytes;
  std::sort(made.addends.begin(), made.addends.end());
  return table.result(std::move(made));
}

}  // namespace

int32_t total_of(Terms terms, int64_t bytes, NumberTable& table) {
  std::sort(terms.begin(), terms.end(), less);
  std::string key = "total of";
  bool counts = true;  // of the terms of a loss that is one kernel, which every plan divides by in one way
  for (const Term& term : terms) {
    const Number& number = table[term.view.number];
    if (number.over == Over::kUnknown) return table.unknown(number.why);
    counts = counts && number.by == Kernel::kCrossEntropyCount;
    key += '\n' + term.key;
  }
  return terms.empty() ? table.unknown("a sum over the step that nothing is added to")
                       : table.total(key, bytes, one_sum(terms, bytes, table), !counts);
}

void take_total(View& view, NumberTable& table) {
  const Number& number = table[view.number];
  if (number.over != Over::kSum) return;
  const int64_t bytes = number.bytes, elements = bytes / dtype_bytes(view.dtype);
  Contribution contribution;
  contribution.end = bytes;
  contribution.view = {view.number, view.dtype, 0, {}};
  if (elements != 1) contribution.view.axes.push_back({elements, 1, false});
  Terms terms;
  append_terms(contribution, -1, table, terms);
  view.number = total_of(std::move(terms), bytes, table);
}

bool take_shares(const plan::KernelCall& call, double pieces, std::vector<View>& operands, NumberTable& table) {
  const int64_t bytes = plan::elements(call.outputs[0]) * dtype_bytes(call.outputs[0].dtype);
  bool sum = false;
  for (const View& view : operands) {
    if (view.number < 0) return false;
    const Number& number = table[view.number];
    sum = sum || number.over == Over::kSum;
    if (number.over == Over::kSum) continue;
    if (number.over != Over::kNothing || !is_whole(view, table) || number.bytes != bytes) return false;
  }
  const auto share = [&](View view) {
    view.number = share_of(view, bytes, pieces, table);
    return view;
  };
  for (View& view : operands)
    if (sum && table[view.number].over == Over::kNothing) view = share(view);
  return sum;
}

bool take_sums_of_totals(const Row& row, const plan::KernelCall& call, NumberTable& table, int64_t samples,
                         std::vector<View>& operands) {
  const plan::Operand& out = call.outputs[0];
  if (call.outputs.size() != 1 || out.strides != plan::contiguous_strides(out.shape)) return false;
  std::vector<size_t> totals;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].number < 0) continue;
    if (!is_whole(operands[i], table)) return false;
    if (table[operands[i].number].sum >= 0) totals.push_back(i);
  }
  const auto with_sums = [&](const std::vector<size_t>& of) {
    std::vector<View> by_sum = operands;
    for (const size_t i : of) by_sum[i].number = table[operands[i].number].sum;
    if (row.form == RowForm::kAdd) take_shares(call, 1, by_sum, table);
    const std::vector<RowResult> results = apply_row(row, call, table, samples, by_sum);
    if (results.size() != 1 || results[0].over != Over::kSum) return false;
    operands = std::move(by_sum);
    return true;
  };
  if (totals.empty() || with_sums(totals)) return !totals.empty();
  return totals.size() > 1 && std::any_of(totals.begin(), totals.end(), [&](size_t i) { return with_sums({i}); });
}

bool take_back_cast(const plan::KernelCall& call, View& operand, NumberTable& table) {
  const DType to = call.outputs[0].dtype;
  if (call.kernel != Kernel::kCast || is_floating(to) || operand.number < 0 || !is_whole(operand, table)) return false;
  const int32_t sum = table[operand.number].sum;
  if (sum < 0 || table[sum].by != Kernel::kCast) return false;
  const View& whole_numbers = table[sum].operands[0];
  if (whole_numbers.dtype != to || !is_whole(whole_numbers, table)) return false;
  View total = whole_numbers;
  take_total(total, table);
  operand.number = total.number;
  return true;
}

bool same_terms(Terms a, Terms b, const NumberTable& table) {
  Terms missing, foreign;
  differences(std::move(a), std::move(b), table, missing, foreign);
  return missing.empty() && foreign.empty();
}

}  // namespace piper::verify
