#include "schemas/verify/numbers/linear_shares.h"

#include <algorithm>

#include "schemas/plan/kernels.h"
#include "schemas/plan/signature.h"

namespace piper::verify {

namespace {

class LinearShares {
 public:
  explicit LinearShares(SpreadCall& call) : call_(call) {}

  // f(a + b) = f(a) + f(b) in the operands that are shares; all others are the same on every rank.
  std::string shares_are_linear() {
    std::vector<size_t> shares;
    for (size_t i = 0; i < call_.where.size(); ++i)
      if (call_.present(i) && call_.where[i].spread.share) shares.push_back(i);
    if (shares.empty()) return "";
    std::string why = call_.of_cut() ? "no linear function of a place's share of a sum"
                                     : "no linear function of a rank's share of a sum over experts";
    if (call_.whole.part >= 0 || call_.whole.spread.share) return why;
    call_.whole.spread.share = true;
    switch (is_linear_in(shares)) {
      case Linear::kYes: return "";
      case Linear::kNo: return call_.wrong(why);
      case Linear::kOpen: break;
    }
    return why;
  }

  // The same of what is summed over the ranks' samples.
  std::string sums_are_linear() {
    size_t sums = 0, others = 0;
    for (size_t i = 0; i < call_.where.size(); ++i) {
      if (!call_.present(i)) continue;
      if (const Spread& spread = call_.where[i].spread; spread.summed) {
        if (sums > 0 && spread.order.cut != call_.whole.spread.order.cut) return "sums over samples of different ranks";
        call_.whole.spread.order.cut = spread.order.cut;
        ++sums;
      } else if (call_.table[call_.whole.operands[i].number].over == Over::kNothing) ++others;
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

 private:
  enum class Linear : uint8_t { kYes, kNo, kOpen };

  Linear is_linear_in(const std::vector<size_t>& shares) const {
    const auto yes = [](bool linear) { return linear ? Linear::kYes : Linear::kNo; };
    const size_t operands = call_.whole.operands.size();
    const auto only = [&](size_t i) { return yes(shares == std::vector<size_t>{i}); };
    switch (call_.row->form) {
      case RowForm::kElementwise:
        if (call_.whole.call.kernel == Kernel::kWhere) return together(shares, {1, 2});
        return Linear::kNo;
      case RowForm::kAdd: return together(shares, {0, 1});
      case RowForm::kLinear: return only(0);
      case RowForm::kMultiply:
      case RowForm::kMatmul:
      case RowForm::kSumOfRowProducts:
      case RowForm::kSumOverAxes: return yes(shares.size() == 1);
      case RowForm::kRowsByMatrix: return yes(shares.size() == 1 && (operands < 3 || !call_.present(2)));
      case RowForm::kSelect: return only(0);
      case RowForm::kAlongAxes:
      case RowForm::kMatrices:
      case RowForm::kBySample: break;
    }
    // A derivative in what it is the derivative of.
    const plan::KernelInfo* const info = plan::find_kernel(call_.whole.call.kernel);
    if (plan::signature_of(*info).inputs[0].name == "g") return only(0);
    switch (call_.whole.call.kernel.id()) {
      case Kernel::kMean:
      case Kernel::kCumsum:
      case Kernel::kGather:
      case Kernel::kSliceBackward:
      case Kernel::kEmbedding:
      case Kernel::kRotary:
      case Kernel::kAvgPool2d:
      case Kernel::kNllSum: return only(0);
      case Kernel::kTriangularSolve:
      case Kernel::kSolve: return only(1);
      case Kernel::kConvolution: return yes(shares.size() == 1 && !call_.present(2));
      case Kernel::kScatter:
      case Kernel::kScatterAdd:
      case Kernel::kIndexAdd: return together(shares, {0, 2});
      case Kernel::kCat: return yes(shares.size() == operands);
      case Kernel::kAmax:
      case Kernel::kMaxDim:
      case Kernel::kTopk:
      case Kernel::kSoftmax:
      case Kernel::kLogSoftmax:
      case Kernel::kLayerNorm:
      case Kernel::kRmsNorm:
      case Kernel::kGroupNorm:
      case Kernel::kMaxPool2d:
      case Kernel::kCrossEntropySum:
      case Kernel::kRowLse: return Linear::kNo;
      default: return Linear::kOpen;  // attention is in its values, but has results that are not; a pad in zeros
    }
  }
  // Linear in all of `addends` at once: others of them are zero.
  Linear together(const std::vector<size_t>& shares, const std::vector<size_t>& addends) const {
    for (const size_t share : shares)
      if (std::find(addends.begin(), addends.end(), share) == addends.end()) return Linear::kNo;
    for (const size_t addend : addends) {
      if (std::find(shares.begin(), shares.end(), addend) != shares.end()) continue;
      const Number& number = call_.table[call_.whole.operands[addend].number];
      if (number.value && *number.value == 0) continue;
      const bool known =
          (number.value && number.bytes == sizeof(float)) || !number.constant || call_.row->form == RowForm::kAdd;
      return known ? Linear::kNo : Linear::kOpen;
    }
    return Linear::kYes;
  }

  SpreadCall& call_;
};

}  // namespace

std::string shares_are_linear(SpreadCall& call) { return LinearShares(call).shares_are_linear(); }
std::string sums_are_linear(SpreadCall& call) { return LinearShares(call).sums_are_linear(); }

}  // namespace piper::verify
