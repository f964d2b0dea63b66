#include "schemas/verify/numbers/sums.h"

#include <algorithm>

namespace piper::verify {
namespace {

bool less(const Term& a, const Term& b) { return a.key < b.key; }

// A copy is what was copied, in the order of the copy.
void through_whole_copy(View& view, const NumberTable& table) {
  const Number& number = table[view.number];
  if (number.kernel != "copy" || !is_whole(view, table)) return;
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

void differences(Terms wanted, Terms found, Terms& missing, Terms& foreign) {
  std::sort(wanted.begin(), wanted.end(), less);
  std::sort(found.begin(), found.end(), less);
  std::set_difference(wanted.begin(), wanted.end(), found.begin(), found.end(), std::back_inserter(missing), less);
  std::set_difference(found.begin(), found.end(), wanted.begin(), wanted.end(), std::back_inserter(foreign), less);
}

int32_t total_of(Terms terms, int64_t bytes, NumberTable& table) {
  std::sort(terms.begin(), terms.end(), less);
  std::string key = "total of";
  bool counts = true;  // of the terms of a loss that is one kernel, which every plan divides by in one way
  for (const Term& term : terms) {
    const Number& number = table[term.view.number];
    if (number.over == Over::kUnknown) return table.unknown(number.why);
    counts = counts && number.kernel == "cross_entropy_count";
    key += '\n' + term.key;
  }
  return terms.empty() ? table.unknown("a sum over the step that nothing is added to")
                       : table.total(key, bytes, !counts);
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

bool same_terms(Terms a, Terms b) {
  Terms missing, foreign;
  differences(std::move(a), std::move(b), missing, foreign);
  return missing.empty() && foreign.empty();
}

}  // namespace piper::verify
