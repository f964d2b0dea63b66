#include "schemas/verify/numbers/experts.h"

#include <algorithm>
#include <numeric>

#include "schemas/plan/attrs.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/names.h"
#include "schemas/plan/signature.h"
#include "schemas/verify/numbers/leaves.h"
#include "schemas/verify/numbers/rows.h"
#include "schemas/verify/numbers/vocabulary.h"

namespace piper::verify {

using plan::KernelCall;
using plan::Operand;

namespace {

bool is_each(const View& view, const NumberTable& table) {
  return view.number >= 0 && table[view.number].over == Over::kEach;
}

class Whole {
 public:
  Whole(const KernelCall& call, const std::vector<View>& operands, const std::vector<SpreadView>& where,
        const NumberTable& table, int64_t samples, const std::vector<int32_t>& places)
      : where_(where),
        places_(places),
        table_(table),
        own_samples_(samples),
        row_(find_row(call.kernel == Kernel::kAddInto ? Kernel::kCopy : call.kernel.id())) {
    result_.call = call;
    result_.operands = operands;
    result_.samples = samples;
  }

  WholeCall make() {
    result_.why = check();
    return std::move(result_);
  }

 private:
  std::string check() {
    Spread& spread = result_.spread;
    for (const SpreadView& operand : where_) {
      if (!operand.spread.is_spread()) continue;
      if (spread.is_spread() && spread.cut != operand.spread.cut) return "values of groups of different kinds";
      if (spread.is_spread() && spread.devices != operand.spread.devices) return "values of groups of different size";
      spread.devices = operand.spread.devices;
      spread.cut = operand.spread.cut;
    }
    if (std::any_of(where_.begin(), where_.end(), [](const SpreadView& w) { return w.shares >= 0; }))
      return add_shares();
    if (row_ == nullptr) return "kernel " + result_.call.kernel.text() + " has no row";
    if (std::string why = one_order_of_samples(); !why.empty()) return why;
    if (std::string why = leave_out_ranks(); !why.empty()) return why;
    if (const auto why = without_place(result_, where_, table_)) {
      if (!why->empty()) return wrong(*why);
      widen();
      return "";
    }
    if (std::any_of(result_.operands.begin(), result_.operands.end(),
                    [&](const View& view) { return view.number >= 0 && view.number == known_place_of_rank(table_); }))
      return wrong("a place in what " + result_.call.kernel.text() + " makes");
    if (std::string why = find_part(); !why.empty()) return why;
    if (std::string why = take_surplus(); !why.empty()) return wrong(why);
    if (std::string why = shares_are_linear(); !why.empty()) return why;
    if (std::string why = sums_are_linear(); !why.empty()) return why;
    widen();
    return "";
  }

  // What a place has past the last of a value is no element of a result either. A sum over it needs zeros there, in all
  // that is multiplied; a function of them that is zero at zero keeps them.
  std::string take_surplus() {
    int64_t surplus = -1;
    bool zeros = true;
    for (size_t i = 0; i < where_.size(); ++i) {
      if (where_[i].part < 0) continue;
      if (surplus >= 0 && surplus != where_[i].surplus) return "parts of different size";
      surplus = where_[i].surplus;
      zeros = zeros && where_[i].spread.zeros;
    }
    if (surplus <= 0) return "";
    if (is_norm() || (row_->form == RowForm::kBySample && axis_of_heads(result_.call.kernel.id(), 3) > 0))
      return "parts of unequal size in what " + result_.call.kernel.text() + " makes";
    if (result_.spread.share && !zeros) return "a sum of more than a place has of what is summed";
    const bool each_alone = row_->form == RowForm::kElementwise || row_->form == RowForm::kAlongAxes;
    const bool keeps_zeros =
        !each_alone || result_.call.kernel == Kernel::kSliceBackward || result_.call.kernel == Kernel::kTanh;
    if (result_.part >= 0) result_.surplus = surplus;
    result_.spread.zeros = result_.part >= 0 && zeros && keeps_zeros;
    return "";
  }

  bool of_cut() const { return result_.spread.cut >= 0; }
  std::string parts() const { return of_cut() ? "parts of a cut" : "experts"; }
  std::string wrong(std::string why) {
    result_.wrong = of_cut();
    return why;
  }

  bool by_places() const {
    return (row_->form == RowForm::kElementwise || row_->form == RowForm::kLinear || row_->form == RowForm::kAdd ||
            row_->form == RowForm::kMultiply) &&
           result_.call.kernel != Kernel::kDropout;
  }
  size_t rank() const { return result_.call.outputs[0].shape.size(); }
  bool is_leaf(size_t i) const { return table_[result_.operands[i].number].by.how == Maker::How::kLeaf; }
  bool present(size_t i) const { return result_.operands[i].number >= 0; }
  // Of the axis of experts, counted from the last; 0: there is none.
  int64_t part_of(size_t i) const {
    return i >= where_.size() || where_[i].part < 0
               ? 0
               : static_cast<int64_t>(result_.operands[i].axes.size()) - where_[i].part;
  }

  // The sum of all ranks' shares is the sum over all experts.
  std::string add_shares() {
    KernelCall& call = result_.call;
    if (call.kernel != Kernel::kSum || call.outputs.size() != 1) return "shares of a sum that are not added up";
    const auto axis = static_cast<int64_t>(where_[0].shares);
    auto* const dims = plan::find_attr<std::vector<int64_t>>(call, "dims");
    if (dims == nullptr || std::count(dims->begin(), dims->end(), axis) != 1)
      return "shares of a sum that are not added up";
    Operand &in = call.inputs[0], &out = call.outputs[0];
    if (out.shape.size() == in.shape.size()) erase(out, axis);
    erase(in, axis);
    View& view = result_.operands[0];
    view.axes.erase(view.axes.begin() + axis);
    std::erase(*dims, axis);
    for (int64_t& dim : *dims) dim -= dim > axis ? 1 : 0;
    if (dims->empty()) {
      call.kernel = Kernel::kCopy;
      call.attrs.clear();
    }
    result_.spread = {};
    return "";
  }
  static void erase(Operand& operand, int64_t axis) {
    operand.shape.erase(operand.shape.begin() + axis);
    operand.strides.erase(operand.strides.begin() + axis);
  }

  std::string one_order_of_samples() {
    for (size_t i = 0; i < where_.size(); ++i) {
      if (!is_each(result_.operands[i], table_)) continue;
      if (where_[i].spread.sources) result_.spread.sources = true;
    }
    for (size_t i = 0; i < where_.size(); ++i)
      if (is_each(result_.operands[i], table_) && where_[i].spread.sources != result_.spread.sources)
        return "samples of a rank beside those of its group";
    if (result_.spread.sources) result_.samples = own_samples_ * result_.spread.devices;
    return "";
  }

  // Ranks and samples by two axes: the call on the samples of each rank by itself.
  std::string leave_out_ranks() {
    int64_t from_end = 0;
    for (size_t i = 0; i < where_.size(); ++i) {
      if (!is_each(result_.operands[i], table_)) continue;
      const int64_t here =
          where_[i].sources < 0 ? 0 : static_cast<int64_t>(result_.operands[i].axes.size()) - where_[i].sources;
      if (i > 0 && from_end != here && from_end > 0) return "operands that number ranks by different axes";
      if (here == 0 && from_end > 0) return "operands that number ranks by different axes";
      from_end = here;
    }
    if (from_end == 0) return "";
    if (!by_places() || result_.call.outputs.size() != 1) return "ranks by an axis of their own";
    const auto take_out = [&](Operand& operand) {
      const auto axis = static_cast<int64_t>(operand.shape.size()) - from_end;
      if (axis >= 0) erase(operand, axis);
    };
    for (size_t i = 0; i < where_.size(); ++i) {
      View& view = result_.operands[i];
      const auto axis = static_cast<int64_t>(view.axes.size()) - from_end;
      if (axis < 0 || !present(i)) continue;
      if (view.axes[static_cast<size_t>(axis)].stride != 0) return "an operand that is not the same for all ranks";
      view.axes.erase(view.axes.begin() + axis);
      take_out(result_.call.inputs[i]);
      SpreadView& operand = where_[i];
      if (operand.part > axis) --operand.part;
    }
    result_.sources = static_cast<int32_t>(static_cast<int64_t>(rank()) - from_end);
    take_out(result_.call.outputs[0]);
    result_.samples = own_samples_;
    return "";
  }

  // The axis of the results that has the experts, and whether these are shares of a sum over them.
  std::string find_part() {
    if (is_norm() && of_cut()) return by_rows();
    int64_t from_end = 0;  // of operands that have experts
    bool any = false, one_place = true;
    for (size_t i = 0; i < where_.size(); ++i) {
      const int64_t here = part_of(i);
      if (here == 0) continue;
      if (any && where_[i].segments != result_.segments) return "parts of different segments of an axis";
      result_.segments = where_[i].segments;
      one_place = one_place && (!any || here == from_end);
      from_end = here;
      any = true;
    }
    if (!any) return "";
    switch (row_->form) {
      case RowForm::kElementwise:
      case RowForm::kLinear:
      case RowForm::kAdd:
      case RowForm::kMultiply:
        if (!one_place || !by_places()) return "operands that number " + parts() + " by different axes";
        return at_end(from_end);
      case RowForm::kSumOverAxes:
      case RowForm::kAlongAxes: return along_axes(one_place, from_end);
      case RowForm::kRowsByMatrix: return rows_by_matrix();
      case RowForm::kSumOfRowProducts: return sum_of_row_products();
      case RowForm::kMatmul: return matmul();
      case RowForm::kBySample:
        if (const int64_t heads = axis_of_heads(result_.call.kernel.id(), from_end); heads > 0 && of_cut())
          return by_heads(heads);
        if (of_cut() && rotates(result_.call.kernel.id()) && from_end == 2) return by_rotated_rows();
        if (of_cut() && result_.call.kernel == Kernel::kEmbedding && part_of(0) == 0) return at_end(part_of(1) + 1);
        if (of_cut() && result_.call.kernel == Kernel::kEmbeddingBackward && part_of(1) > 0 &&
            part_of(0) == part_of(1) + 1)
          return in_share();
        break;
      case RowForm::kSelect: break;
    }
    return parts() + " in what " + result_.call.kernel.text() + " makes";
  }
  std::string at_end(int64_t from_end) {
    result_.part = static_cast<int32_t>(static_cast<int64_t>(rank()) - from_end);
    return result_.part < 0 ? "a result without experts" : "";
  }
  // Attention computes each head by itself, and those of several queries' heads by the keys' and values' head that they
  // share; a rotation each row.
  static int64_t axis_of_heads(Kernel kernel, int64_t from_end) {
    if (kernel == Kernel::kScaledDotProductAttention || kernel == Kernel::kScaledDotProductAttentionBackward) return 3;
    return rotates(kernel) && from_end > 2 ? from_end : 0;
  }
  static bool rotates(Kernel kernel) { return kernel == Kernel::kRotary || kernel == Kernel::kRotaryBackward; }
  // Each row by the same row of the tables.
  std::string by_rotated_rows() {
    for (size_t i = 0; i < where_.size(); ++i)
      if (present(i) && (part_of(i) != 2 || where_[i].segments != 1)) return "rows beside tables of other rows";
    return at_end(2);
  }
  // All operands that have heads have a part of them, at one axis from the first on; masks and tables have none, or the
  // same for all.
  std::string by_heads(int64_t from_end) {
    const auto heads = static_cast<int64_t>(result_.operands[0].axes.size()) - from_end;
    const plan::KernelInfo* const info = plan::find_kernel(result_.call.kernel);
    for (size_t i = 0; i < where_.size(); ++i) {
      if (!present(i)) continue;
      const std::string_view name = plan::signature_of(*info).inputs[i].name;
      const bool table = name == "mask" || name == "cos" || name == "sin";
      if (!table && (where_[i].part != heads || where_[i].segments != 1))
        return "operands that number heads by different axes";
      const auto axis = static_cast<int64_t>(result_.operands[i].axes.size()) - from_end;
      if (!table || axis < 0) continue;
      ViewAxis& there = result_.operands[i].axes[static_cast<size_t>(axis)];
      if (where_[i].part >= 0 || (there.extent != 1 && there.stride != 0)) return "a table of each head";
      if (there.extent == 1) continue;
      there.extent *= result_.spread.devices;
      result_.call.inputs[i].shape[static_cast<size_t>(axis)] *= result_.spread.devices;
    }
    result_.part = static_cast<int32_t>(heads);
    return heads < 0 ? "a result without heads" : "";
  }
  bool is_norm() const {
    switch (result_.call.kernel.id()) {
      case Kernel::kLayerNorm:
      case Kernel::kLayerNormBackwardInput:
      case Kernel::kLayerNormBackwardWeight:
      case Kernel::kRmsNorm:
      case Kernel::kRmsNormBackwardInput:
      case Kernel::kRmsNormBackwardWeight: return true;
      default: return false;
    }
  }
  // Each row by itself: rows of heads, say, of which a place has its part, and their statistics, a number for each row.
  // What is summed over all rows is a share.
  std::string by_rows() {
    const Kernel kernel = result_.call.kernel.id();
    const auto* const axes = plan::find_attr<int64_t>(result_.call, "axes");
    const int64_t from_end = part_of(0);
    if (axes == nullptr || from_end <= *axes) return parts() + " along an axis that is read as a whole";
    const std::vector<int64_t>& shape = result_.call.inputs[0].shape;
    int64_t together = 1, rows = 1;  // rows of a part one after the other, and all that a place has
    for (size_t d = 0; d + static_cast<size_t>(*axes) < shape.size(); ++d) {
      rows *= shape[d];
      if (d + static_cast<size_t>(from_end) >= shape.size()) together *= shape[d];
    }
    const plan::KernelInfo* const info = plan::find_kernel(result_.call.kernel);
    for (size_t i = 0; i < where_.size(); ++i) {
      if (!present(i)) continue;
      const std::string_view name = plan::signature_of(*info).inputs[i].name;
      const std::vector<int64_t>& own = result_.call.inputs[i].shape;
      if (name == "weight" || name == "bias") {
        if (where_[i].part >= 0) return parts() + " in the weights of a norm";
      } else if (name == "mean" || name == "rstd") {
        const int64_t of_sample = result_.operands[i].axes.at(0).extent;
        if (own != std::vector<int64_t>{rows} || where_[i].part != 0 ||
            where_[i].segments * together * result_.spread.devices != of_sample)
          return "statistics of other rows";
      } else if (part_of(i) != from_end || where_[i].segments != 1) {
        return "operands that number " + parts() + " by different axes";
      }
    }
    if (kernel == Kernel::kLayerNormBackwardWeight || kernel == Kernel::kRmsNormBackwardWeight) return in_share();
    result_.segments_of_rows = rows / own_samples_ / together;
    return at_end(from_end);
  }
  std::string in_share() {
    result_.spread.share = true;
    return "";
  }

  std::string along_axes(bool one_place, int64_t from_end) {
    std::vector<int64_t> dims;
    if (const auto* list = plan::find_attr<std::vector<int64_t>>(result_.call, "dims")) dims = *list;
    if (const auto* one = plan::find_attr<int64_t>(result_.call, "dim")) dims = {*one};
    const size_t from = result_.operands[0].axes.size();
    const auto axis = static_cast<int64_t>(from) - from_end;
    if (!one_place || dims.empty() || axis < 0) return "operands that number " + parts() + " by different axes";
    if (dims == std::vector<int64_t>{axis} && are_segments(from_end)) {
      result_.segments = static_cast<int64_t>(where_.size());
      result_.part = static_cast<int32_t>(axis);
      return "";
    }
    if (std::find(dims.begin(), dims.end(), axis) != dims.end())
      return row_->form == RowForm::kSumOverAxes ? in_share() : parts() + " along an axis that is read as a whole";
    const auto gone = rank() >= from ? 0 : std::count_if(dims.begin(), dims.end(), [&](int64_t d) { return d < axis; });
    result_.part = static_cast<int32_t>(axis - gone);
    return "";
  }

  // Parts of equal extents, one after the other: a part of each segment of all of them.
  bool are_segments(int64_t from_end) const {
    if (result_.call.kernel != Kernel::kCat || !of_cut() || result_.segments != 1) return false;
    for (size_t i = 0; i < where_.size(); ++i) {
      const std::vector<int64_t>&here = result_.call.inputs[i].shape, &first = result_.call.inputs[0].shape;
      if (!present(i) || part_of(i) != from_end || here != first) return false;
    }
    return true;
  }

  // linear: [.., I] by [O, I]; linear_backward_input: [.., O] by [O, I].
  std::string rows_by_matrix() {
    const int64_t of_rows = part_of(0), of_matrix = part_of(1), summed = result_.call.kernel == Kernel::kLinear ? 1 : 2;
    const bool bias = present(result_.operands.size() - 1) && result_.operands.size() > 2;
    if (of_rows > 1 && of_matrix == 0 && part_of(2) == 0) return at_end(of_rows);
    if (of_rows == 1 && of_matrix == summed && !bias) return in_share();
    if (of_rows == 1 && of_matrix == summed && is_leaf(2)) return wrong("a bias that each place adds to its share");
    const bool of_columns = of_rows == 0 && of_matrix == 3 - summed && (!bias || part_of(2) == 1);
    return of_columns ? at_end(1) : parts() + " in a product";
  }
  // [.., O] and [.., I] to [O, I], over all rows.
  std::string sum_of_row_products() {
    const int64_t a = part_of(0), b = part_of(1);
    if (a > 1 && a == b) return in_share();
    if (a == 1 && b == 0) return at_end(2);
    return a == 0 && b == 1 ? at_end(1) : parts() + " in a product";
  }
  std::string matmul() {
    const int64_t a = part_of(0), b = part_of(1);
    if (a == 1 && b == 2) return in_share();
    if (a > 2 && (b == a || b == 0)) return at_end(a);
    if (b > 2 && a == 0) return at_end(b);
    if (a == 2 && b == 0) return at_end(2);
    return a == 0 && b == 1 ? at_end(1) : parts() + " in a product";
  }

  // f(a + b) = f(a) + f(b) in the operand that is a share; all others are the same on every rank.
  std::string shares_are_linear() {
    size_t shares = 0, others = 0, first = 0;
    for (size_t i = 0; i < where_.size(); ++i) {
      if (!present(i)) continue;
      if (where_[i].spread.share) {
        if (shares++ == 0) first = i;
      } else {
        ++others;
      }
    }
    if (shares == 0) return "";
    std::string why = of_cut() ? "no linear function of a place's share of a sum"
                               : "no linear function of a rank's share of a sum over experts";
    if (result_.part >= 0 || result_.spread.share) return why;
    result_.spread.share = true;
    if (row_->form == RowForm::kElementwise || (row_->form == RowForm::kAdd && others > 0)) return wrong(why);
    if (row_->form == RowForm::kAdd) return "";
    if (shares != 1) return why;
    if (row_->form == RowForm::kMultiply || row_->form == RowForm::kMatmul || row_->form == RowForm::kSumOverAxes)
      return "";
    const Kernel kernel = result_.call.kernel.id();
    const bool product = kernel == Kernel::kLinearBackwardInput ||
                         (kernel == Kernel::kLinear && (result_.operands.size() < 3 || !present(2)));
    const bool of_first =
        row_->form == RowForm::kLinear || product || kernel == Kernel::kMean || kernel == Kernel::kSliceBackward;
    return of_first && first == 0 ? "" : why;
  }

  // The same of what is summed over the ranks' samples.
  std::string sums_are_linear() {
    size_t sums = 0, others = 0;
    for (size_t i = 0; i < where_.size(); ++i) {
      if (!present(i)) continue;
      if (where_[i].spread.summed) ++sums;
      else if (table_[result_.operands[i].number].over == Over::kNothing) ++others;
    }
    if (sums == 0) return "";
    result_.spread.summed = true;
    const size_t operands = sums + others;
    const bool all = static_cast<size_t>(std::count_if(result_.operands.begin(), result_.operands.end(),
                                                       [](const View& view) { return view.number >= 0; })) == operands;
    const bool linear = row_->form == RowForm::kAdd      ? others == 0
                        : row_->form == RowForm::kLinear ? sums == 1 && where_[0].spread.summed
                                                         : false;
    return all && linear && !result_.spread.share ? ""
                                                  : "no linear function of a sum over the samples of several ranks";
  }

  // All experts' extents.
  void widen() {
    const int64_t devices = result_.spread.devices;
    const int64_t from_end = result_.part < 0 ? 0 : static_cast<int64_t>(rank()) - result_.part;
    for (size_t i = 0; i < where_.size(); ++i) {
      View& view = result_.operands[i];
      Operand& operand = result_.call.inputs[i];
      if (!present(i)) continue;
      if (where_[i].part >= 0) {
        int64_t& extent = operand.shape[static_cast<size_t>(where_[i].part)];
        extent = extent * devices - where_[i].surplus;
      } else if (const auto axis = static_cast<int64_t>(view.axes.size()) - from_end;
                 from_end > 0 && axis >= 0 && is_repeated(i, axis)) {
        for (int64_t* extent :
             {&operand.shape[static_cast<size_t>(axis)], &view.axes[static_cast<size_t>(axis)].extent})
          *extent = *extent * devices - result_.surplus;
      }
    }
    if (result_.part < 0) return;
    for (Operand& out : result_.call.outputs) {
      const std::vector<int64_t> local = out.shape;
      if (out.slot == Operand::kAbsent) continue;
      if (result_.segments_of_rows > 0 && &out != &result_.call.outputs[0]) {
        out.shape[0] *= devices;
        continue;
      }
      widen(out, place_of(out));
      for (plan::Attr& attr : result_.call.attrs)
        if (auto* shape = std::get_if<std::vector<int64_t>>(&attr.value); attr.name == "shape" && *shape == local)
          *shape = out.shape;
    }
  }
  // Axes at one place correspond, apart from products' last two.
  bool is_repeated(size_t i, int64_t axis) const {
    const bool batch =
        row_->form != RowForm::kMatmul || static_cast<int64_t>(result_.operands[i].axes.size()) - axis > 2;
    const ViewAxis& there = result_.operands[i].axes[static_cast<size_t>(axis)];
    return batch && (by_places() || row_->form == RowForm::kMatmul) && there.extent > 1 && there.stride == 0;
  }
  // Strides of the whole in the order of the part's memory.
  int32_t place_of(const Operand& out) const {
    const auto i = static_cast<size_t>(&out - result_.call.outputs.data());
    return i < places_.size() ? places_[i] : -1;
  }
  void widen(Operand& out, int32_t place) const {
    std::vector<size_t> order(out.shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return out.strides[a] > out.strides[b]; });
    const auto part = static_cast<size_t>(result_.part);
    if (place >= 0 && out.shape[part] == 1) {
      std::erase(order, part);
      order.insert(order.begin() + std::min<std::ptrdiff_t>(place, std::ssize(order)), part);
    }
    out.shape[part] = out.shape[part] * result_.spread.devices - result_.surplus;
    int64_t next = 1;
    for (size_t k = order.size(); k-- > 0;) {
      out.strides[order[k]] = next;
      next *= out.shape[order[k]];
    }
  }

  std::vector<SpreadView> where_;
  const std::vector<int32_t>& places_;
  const NumberTable& table_;
  const int64_t own_samples_;
  const Row* const row_;
  WholeCall result_;
};

}  // namespace

WholeCall whole_call(const KernelCall& call, const std::vector<View>& operands, const std::vector<SpreadView>& where,
                     const NumberTable& table, int64_t samples, const std::vector<int32_t>& places) {
  return Whole(call, operands, where, table, samples, places).make();
}

std::string lay_out(const WholeCall& whole, const Operand& out, size_t i, int32_t sample_axis, int64_t samples,
                    HeldValue& held) {
  const Operand& all = whole.call.outputs[i];
  held.spread = whole.spread;
  if (sample_axis < 0) held.spread.sources = false;
  std::vector<size_t> order(all.shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return all.strides[a] > all.strides[b]; });
  const auto each = [&](size_t axis) {  // of one sample
    return static_cast<int32_t>(axis) == sample_axis ? all.shape[axis] / samples : all.shape[axis];
  };
  int64_t inside = 1, block = 0, size = 1;  // block: elements of a sample in a row
  const bool of_rows = whole.segments_of_rows > 0 && i > 0;
  const int32_t part = of_rows ? 0 : whole.part;
  const int64_t segments = of_rows ? whole.segments_of_rows : whole.segments;
  for (size_t k = order.size(); k-- > 0;) {
    const size_t axis = order[k];
    inside *= each(axis);
    if (static_cast<int32_t>(axis) == part) {
      if (held.period > 0) return "a repeated value of experts";
      const int64_t surplus = inside / all.shape[axis] * whole.surplus;
      held.spread.part = (inside + surplus) / (whole.spread.devices * segments);
      held.spread.surplus = surplus;
      inside = (inside + surplus) / whole.spread.devices;
    }
    if (static_cast<int32_t>(axis) == sample_axis) block = inside;
    size = inside;
  }
  if (held.block > 0) held.block = block;
  if (whole.sources < 0 || sample_axis < 0) return "";
  // A rank after the other: right in front of the samples, or of all axes.
  if (out.strides != plan::contiguous_strides(out.shape)) return "ranks by an axis of a result in another order";
  const auto has_places = [&](int32_t from, int32_t to) {
    return std::any_of(out.shape.begin() + from, out.shape.begin() + to, [](int64_t extent) { return extent != 1; });
  };
  held.block = block == size ? 0 : block;
  const int32_t behind = sample_axis < whole.sources ? sample_axis : sample_axis + 1;  // the samples' axis in `out`
  if (behind < whole.sources) return "ranks by an axis after their samples";
  if (!has_places(whole.sources + 1, behind)) return "";
  if (has_places(0, whole.sources)) return "ranks by an axis between others";
  held.spread.apart = true;
  return "";
}

}  // namespace piper::verify
