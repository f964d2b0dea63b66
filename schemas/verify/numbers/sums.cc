#include "schemas/verify/numbers/sums.h"

#include <algorithm>

namespace piper::verify {
namespace {

bool less(const Term& a, const Term& b) { return a.key < b.key; }

// A sum of n terms is taken apart into n at most; a doubling chain would be 2^n.
constexpr size_t kMostTerms = 4096;

void append(const View& view, const Contribution& contribution, int32_t program, const NumberTable& table,
            Terms& terms) {
  const Number& number = table[view.number];
  if (number.kernel == "add" && terms.size() < kMostTerms && is_whole(view, table)) {
    const auto& parts = number.operands;
    const bool apart = std::all_of(parts.begin(), parts.end(), [&](const View& part) {
      return part.dtype == view.dtype && table[part.number].bytes == number.bytes &&
             table[part.number].over == Over::kSum && is_whole(part, table);
    });
    if (apart) {
      for (const View& part : parts) {
        View flat = view;  // both are whole: the elements in their order
        flat.number = part.number;
        append(flat, contribution, program, table, terms);
      }
      return;
    }
  }
  Term term{view, contribution.begin, contribution.end, program, contribution.call, ""};
  append_key(term.key, view);
  term.key += std::to_string(term.begin) + ":" + std::to_string(term.end);
  terms.push_back(std::move(term));
}

}  // namespace

std::vector<int32_t> addends_of(const std::vector<View>& operands, Over over, int64_t bytes, const NumberTable& table) {
  constexpr size_t kMostAddends = 64;
  std::vector<int32_t> addends;
  for (const View& view : operands) {
    if (view.number < 0 || view.dtype != operands[0].dtype) return {};
    const Number& number = table[view.number];
    if (number.over != over || number.bytes != bytes || !is_whole(view, table)) return {};
    if (number.addends.empty()) addends.push_back(view.number);
    else addends.insert(addends.end(), number.addends.begin(), number.addends.end());
  }
  if (addends.size() > kMostAddends) return {};
  std::sort(addends.begin(), addends.end());
  return addends;
}

void append_terms(const Contribution& contribution, int32_t program, const NumberTable& table, Terms& terms) {
  append(contribution.view, contribution, program, table, terms);
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
  for (const Term& term : terms) {
    if (const Number& number = table[term.view.number]; number.over == Over::kUnknown) return table.unknown(number.why);
    key += '\n' + term.key;
  }
  return terms.empty() ? table.unknown("a sum over the step that nothing is added to")
                       : table.leaf(key, Over::kNothing, bytes);
}

void take_total(View& view, NumberTable& table) {
  const Number& number = table[view.number];
  if (number.over != Over::kSum || !is_whole(view, table)) return;
  const int64_t bytes = number.bytes;
  Contribution contribution;
  contribution.end = bytes;
  contribution.view = view;
  std::vector<ViewAxis>& axes = contribution.view.axes;
  const int64_t elements = bytes / dtype_bytes(view.dtype);
  axes.clear();
  if (elements != 1) axes.push_back({elements, 1, false});
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
