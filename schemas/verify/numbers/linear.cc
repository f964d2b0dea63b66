#include "schemas/verify/numbers/linear.h"

#include <algorithm>
#include <optional>

#include "schemas/verify/numbers/copies.h"
#include "schemas/verify/numbers/rows.h"

namespace piper::verify {
namespace {

// For a sum and its functions; a sum that is added to itself again and again would have 2^n.
constexpr size_t kMostAddends = 4096;

class Apart {
 public:
  Apart(const NumberTable::Made& made, NumberTable& table, std::vector<int32_t>& new_numbers)
      : made_(made), table_(table), new_numbers_(new_numbers) {}

  std::vector<int32_t> of_addition() {
    std::vector<int32_t> addends;
    for (const View& view : made_.operands)
      for (const int32_t addend : parts_of(view)) {
        // Another view of a sum is the sum of such views.
        if (addends.size() <= kMostAddends) addends.push_back(seen_by(view, addend));
      }
    return addends;
  }

  // `operand`: the sum.
  std::vector<int32_t> of_function(size_t operand) {
    std::vector<int32_t> addends;
    for (const int32_t addend : parts_of(made_.operands[operand])) {
      NumberTable::Made image = made_;
      image.operands[operand].number = addend;
      through_copies(image.operands[operand], table_);
      addends.push_back(number(std::move(image)));
    }
    return addends;
  }

 private:
  // A copy: numbering moves what is in the table.
  std::vector<int32_t> parts_of(const View& view) const {
    const std::vector<int32_t>& addends = table_[view.number].addends;
    return addends.empty() ? std::vector<int32_t>{view.number} : addends;
  }

  // What a view names of an addend, as a value of its own.
  int32_t seen_by(View view, int32_t addend) {
    view.number = addend;
    const Number& seen = table_[addend];
    if (seen.over == made_.over && seen.bytes == made_.bytes && is_whole(view, table_)) return addend;
    through_copies(view, table_);
    NumberTable::Made copy = made_;
    copy.by = Kernel::kCopy;
    copy.operands = {std::move(view)};
    return number(std::move(copy));
  }

  int32_t number(NumberTable::Made made) {
    new_numbers_.push_back(table_.result(std::move(made)));
    return new_numbers_.back();
  }

  const NumberTable::Made& made_;
  NumberTable& table_;
  std::vector<int32_t>& new_numbers_;
};

bool linear_in(const Maker& by, size_t operand) {
  const Row* const row = by.how == Maker::How::kCall ? find_row(by.kernel) : nullptr;
  return row != nullptr && ((row->form == RowForm::kLinear && operand == 0) || row->form == RowForm::kMultiply);
}

// The operand that is a sum which the call is a linear function of, where there is one: over samples, or of numbers of
// a piece, of which no row says what they are sums of.
std::optional<size_t> sum_taken_apart(const NumberTable::Made& made, const NumberTable& table) {
  std::vector<size_t> sums;
  for (size_t i = 0; i < made.operands.size(); ++i)
    if (made.operands[i].number >= 0 && table[made.operands[i].number].over == made.over) sums.push_back(i);
  if (sums.size() != 1 || table[made.operands[sums[0]].number].addends.empty()) return std::nullopt;
  const size_t sum = sums[0];
  const bool single = made.bytes == dtype_bytes(made.operands[sum].dtype);
  if (made.over == Over::kSum || (made.over == Over::kPiece && single && linear_in(made.by, sum))) return sum;
  return std::nullopt;
}

}  // namespace

bool take_apart(NumberTable::Made& made, NumberTable& table, std::vector<int32_t>& new_numbers) {
  const std::optional<size_t> sum = sum_taken_apart(made, table);
  Apart apart(made, table, new_numbers);
  if (made.by == Kernel::kAdd || (made.by == Kernel::kCopy && sum)) made.addends = apart.of_addition();
  else if (sum) made.addends = apart.of_function(*sum);
  std::sort(made.addends.begin(), made.addends.end());
  return made.addends.size() <= kMostAddends;
}

}  // namespace piper::verify
