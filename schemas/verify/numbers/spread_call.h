// A call of a program of ranks that share experts or a cut, and what is known of its operands (experts.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "schemas/verify/numbers/experts.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/rows.h"
#include "schemas/verify/numbers/spread_views.h"

namespace piper::verify {

struct SpreadCall {
  WholeCall whole;  // as far as it is made
  std::vector<SpreadView> where;
  const NumberTable& table;
  const int64_t own_samples;
  const Row* const row;  // null: the kernel has none

  bool of_cut() const { return whole.spread.cut >= 0; }
  std::string parts() const { return of_cut() ? "parts of a cut" : "experts"; }
  std::string wrong(std::string why) {
    whole.wrong = of_cut();
    return why;
  }

  std::string wrong_as_read(std::string why) {
    whole.wrong_as_read = of_cut();
    return why;
  }

  bool by_places() const {
    return (row->form == RowForm::kElementwise || row->form == RowForm::kLinear || row->form == RowForm::kAdd ||
            row->form == RowForm::kMultiply) &&
           whole.call.kernel != Kernel::kDropout;
  }
  size_t rank() const { return whole.call.outputs[0].shape.size(); }
  bool is_leaf(size_t i) const { return table[whole.operands[i].number].by.how == Maker::How::kLeaf; }
  bool present(size_t i) const { return whole.operands[i].number >= 0; }
  // For the axis of experts, counted from the last; 0: there is none.
  int64_t part_of(size_t i) const {
    return i >= where.size() || where[i].part < 0 ? 0
                                                  : static_cast<int64_t>(whole.operands[i].axes.size()) - where[i].part;
  }
  // For the axis that has parts. Beside values of pieces those of all samples, where the axis has their rows.
  int64_t segments_of(size_t i) const {
    const bool of_piece = std::any_of(whole.operands.begin(), whole.operands.end(), [&](const View& view) {
      return view.number >= 0 && table[view.number].over == Over::kPiece;
    });
    const bool of_samples = where[i].part >= 0 && whole.operands[i].axes[static_cast<size_t>(where[i].part)].samples;
    return where[i].segments * (of_piece && of_samples ? own_samples : 1);
  }
};

}  // namespace piper::verify
