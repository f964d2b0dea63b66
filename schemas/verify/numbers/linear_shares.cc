#include "schemas/verify/numbers/linear_shares.h"

#include <algorithm>

#include "schemas/plan/kernels.h"

namespace piper::verify {

namespace {

class LinearShares {
 public:
  explicit LinearShares(SpreadCall& call) : call_(call) {}

  // f(a + b) = f(a) + f(b) in the operand that is a share; all others are the same on every rank.
  std::string shares_are_linear() {
    size_t shares = 0, others = 0, first = 0;
    for (size_t i = 0; i < call_.where.size(); ++i) {
      if (!call_.present(i)) continue;
      if (call_.where[i].spread.share) {
        if (shares++ == 0) first = i;
      } else {
        ++others;
      }
    }
    if (shares == 0) return "";
    std::string why = call_.of_cut() ? "no linear function of a place's share of a sum"
                                     : "no linear function of a rank's share of a sum over experts";
    if (call_.whole.part >= 0 || call_.whole.spread.share) return why;
    call_.whole.spread.share = true;
    if (call_.row->form == RowForm::kElementwise || (call_.row->form == RowForm::kAdd && others > 0))
      return call_.wrong(why);
    if (call_.row->form == RowForm::kAdd) return "";
    if (shares != 1) return why;
    if (call_.row->form == RowForm::kMultiply || call_.row->form == RowForm::kMatmul ||
        call_.row->form == RowForm::kSumOverAxes)
      return "";
    const Kernel kernel = call_.whole.call.kernel.id();
    const bool product = kernel == Kernel::kLinearBackwardInput ||
                         (kernel == Kernel::kLinear && (call_.whole.operands.size() < 3 || !call_.present(2)));
    const bool of_first =
        call_.row->form == RowForm::kLinear || product || kernel == Kernel::kMean || kernel == Kernel::kSliceBackward;
    return of_first && first == 0 ? "" : why;
  }

  // The same of what is summed over the ranks' samples.
  std::string sums_are_linear() {
    size_t sums = 0, others = 0;
    for (size_t i = 0; i < call_.where.size(); ++i) {
      if (!call_.present(i)) continue;
      if (call_.where[i].spread.summed) ++sums;
      else if (call_.table[call_.whole.operands[i].number].over == Over::kNothing) ++others;
    }
    if (sums == 0) return "";
    call_.whole.spread.summed = true;
    const size_t operands = sums + others;
    const bool all = static_cast<size_t>(std::count_if(call_.whole.operands.begin(), call_.whole.operands.end(),
                                                       [](const View& view) { return view.number >= 0; })) == operands;
    const bool linear = call_.row->form == RowForm::kAdd      ? others == 0
                        : call_.row->form == RowForm::kLinear ? sums == 1 && call_.where[0].spread.summed
                                                              : false;
    return all && linear && !call_.whole.spread.share ? ""
                                                      : "no linear function of a sum over the samples of several ranks";
  }

  SpreadCall& call_;
};

}  // namespace

std::string shares_are_linear(SpreadCall& call) { return LinearShares(call).shares_are_linear(); }
std::string sums_are_linear(SpreadCall& call) { return LinearShares(call).sums_are_linear(); }

}  // namespace piper::verify
