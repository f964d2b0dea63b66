#include "schemas/verify/numbers/part_axes.h"

#include <algorithm>
#include <string_view>

#include "schemas/plan/attrs.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/signature.h"

namespace piper::verify {

namespace {

class PartAxes {
 public:
  explicit PartAxes(SpreadCall& call) : call_(call) {}

  // The axis of the results that has the experts, and whether these are shares of a sum over them.
  std::string find_part() {
    if (is_norm() && call_.of_cut()) return by_rows();
    int64_t from_end = 0;  // of operands that have experts
    bool any = false, one_place = true;
    for (size_t i = 0; i < call_.where.size(); ++i) {
      const int64_t here = call_.part_of(i);
      if (here == 0) continue;
      if (any && (call_.segments_of(i) != call_.whole.segments || call_.where[i].extents != call_.whole.extents))
        return call_.wrong_as_read("parts of different segments of an axis");
      call_.whole.segments = call_.segments_of(i);
      call_.whole.extents = call_.where[i].extents;
      one_place = one_place && (!any || here == from_end);
      from_end = here;
      any = true;
    }
    if (!any) return "";
    switch (call_.row->form) {
      case RowForm::kElementwise:
      case RowForm::kLinear:
      case RowForm::kAdd:
      case RowForm::kMultiply:
        if (!one_place || !call_.by_places()) return "operands that number " + call_.parts() + " by different axes";
        return at_end(from_end);
      case RowForm::kSumOverAxes:
      case RowForm::kAlongAxes: return along_axes(one_place, from_end);
      case RowForm::kRowsByMatrix: return rows_by_matrix();
      case RowForm::kSumOfRowProducts: return sum_of_row_products();
      case RowForm::kMatmul: return matmul();
      case RowForm::kMatrices: return matrices(one_place, from_end);
      case RowForm::kBySample:
        if (const int64_t heads = axis_of_heads(call_.whole.call.kernel.id(), from_end); heads > 0 && call_.of_cut())
          return by_heads(heads);
        if (call_.of_cut() && rotates(call_.whole.call.kernel.id()) && from_end == 2) return by_rotated_rows();
        if (call_.of_cut() && call_.whole.call.kernel == Kernel::kEmbedding && call_.part_of(0) == 0)
          return at_end(call_.part_of(1) + 1);
        if (call_.of_cut() && call_.whole.call.kernel == Kernel::kEmbeddingBackward && call_.part_of(1) > 0 &&
            call_.part_of(0) == call_.part_of(1) + 1)
          return in_share();
        break;
      case RowForm::kSelect: break;
    }
    return call_.parts() + " in what " + call_.whole.call.kernel.text() + " makes";
  }
  std::string at_end(int64_t from_end) {
    call_.whole.part = static_cast<int32_t>(static_cast<int64_t>(call_.rank()) - from_end);
    return call_.whole.part < 0 ? "a result without experts" : "";
  }
  // All operands have the part of their matrices that is here.
  std::string matrices(bool one_place, int64_t from_end) {
    int64_t axes = 0;
    for (size_t i = 0; i < call_.where.size(); ++i) {
      one_place = one_place && (!call_.present(i) || call_.part_of(i) == from_end);
      axes = std::max(axes, static_cast<int64_t>(call_.whole.operands[i].axes.size()));
    }
    if (!one_place || from_end < 3) return call_.parts() + " in what a factorisation reads as a whole";
    call_.whole.part = static_cast<int32_t>(axes - from_end);
    return "";
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
    for (size_t i = 0; i < call_.where.size(); ++i)
      if (call_.present(i) && (call_.part_of(i) != 2 || call_.where[i].segments != 1))
        return "rows together with tables of other rows";
    return at_end(2);
  }
  // All operands that have heads have a part of them, at one axis from the first on, or one head that all queries
  // share; masks and tables have none, or the same for all.
  std::string by_heads(int64_t from_end) {
    const auto heads = static_cast<int64_t>(call_.whole.operands[0].axes.size()) - from_end;
    const plan::KernelInfo* const info = plan::find_kernel(call_.whole.call.kernel);
    for (size_t i = 0; i < call_.where.size(); ++i) {
      if (!call_.present(i)) continue;
      const std::string_view name = plan::signature_of(*info).inputs[i].name;
      const bool table = name == "mask" || name == "cos" || name == "sin";
      const bool shared = (name == "k" || name == "v") && call_.where[i].part < 0 && !call_.where[i].spread.share;
      if (!table && !shared && (call_.where[i].part != heads || call_.where[i].segments != 1))
        return "operands that number heads by different axes";
      const auto axis = static_cast<int64_t>(call_.whole.operands[i].axes.size()) - from_end;
      if ((!table && !shared) || axis < 0) continue;
      ViewAxis& there = call_.whole.operands[i].axes[static_cast<size_t>(axis)];
      if (call_.where[i].part >= 0 || (there.extent != 1 && there.stride != 0)) return "a table of each head";
      if (there.extent == 1 && table) continue;
      if (there.extent == 1) there.stride = 0;
      there.extent *= call_.whole.spread.devices;
      call_.whole.call.inputs[i].shape[static_cast<size_t>(axis)] *= call_.whole.spread.devices;
    }
    call_.whole.part = static_cast<int32_t>(heads);
    return heads < 0 ? "a result without heads" : "";
  }
  bool is_norm() const {
    switch (call_.whole.call.kernel.id()) {
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
    const Kernel kernel = call_.whole.call.kernel.id();
    const auto* const axes = plan::find_attr<int64_t>(call_.whole.call, "axes");
    const int64_t from_end = call_.part_of(0);
    if (axes == nullptr || from_end <= *axes) return call_.parts() + " along an axis that is read as a whole";
    const std::vector<int64_t>& shape = call_.whole.call.inputs[0].shape;
    int64_t together = 1, rows = 1;  // rows of a part one after the other, and all that a place has
    for (size_t d = 0; d + static_cast<size_t>(*axes) < shape.size(); ++d) {
      rows *= shape[d];
      if (d + static_cast<size_t>(from_end) >= shape.size()) together *= shape[d];
    }
    const plan::KernelInfo* const info = plan::find_kernel(call_.whole.call.kernel);
    for (size_t i = 0; i < call_.where.size(); ++i) {
      if (!call_.present(i)) continue;
      const std::string_view name = plan::signature_of(*info).inputs[i].name;
      const std::vector<int64_t>& own = call_.whole.call.inputs[i].shape;
      if (name == "weight" || name == "bias") {
        if (call_.where[i].part >= 0) return call_.parts() + " in the weights of a norm";
      } else if (name == "mean" || name == "rstd") {
        const int64_t of_sample = call_.whole.operands[i].axes.at(0).extent;
        if (own != std::vector<int64_t>{rows} || call_.where[i].part != 0 ||
            call_.where[i].segments * together * call_.whole.spread.devices != of_sample)
          return "statistics of other rows";
      } else if (call_.part_of(i) != from_end || call_.where[i].segments != 1) {
        return "operands that number " + call_.parts() + " by different axes";
      }
    }
    if (kernel == Kernel::kLayerNormBackwardWeight || kernel == Kernel::kRmsNormBackwardWeight) return in_share();
    const bool each = call_.table[call_.whole.operands[0].number].over == Over::kEach;
    call_.whole.segments_of_rows = rows / (each ? call_.own_samples : 1) / together;
    return at_end(from_end);
  }
  std::string in_share() {
    call_.whole.spread.share = true;
    return "";
  }

  std::string along_axes(bool one_place, int64_t from_end) {
    std::vector<int64_t> dims;
    if (const auto* list = plan::find_attr<std::vector<int64_t>>(call_.whole.call, "dims")) dims = *list;
    if (const auto* one = plan::find_attr<int64_t>(call_.whole.call, "dim")) dims = {*one};
    const size_t from = call_.whole.operands[0].axes.size();
    const auto axis = static_cast<int64_t>(from) - from_end;
    if (!one_place || dims.empty() || axis < 0) return "operands that number " + call_.parts() + " by different axes";
    if (dims == std::vector<int64_t>{axis} && are_segments(from_end)) {
      call_.whole.segments = static_cast<int64_t>(call_.where.size());
      std::vector<int64_t>& extents = call_.whole.extents;
      for (const plan::Operand& in : call_.whole.call.inputs)
        extents.push_back(in.shape[static_cast<size_t>(axis)] * call_.whole.spread.devices);
      if (std::count(extents.begin(), extents.end(), extents[0]) == call_.whole.segments) extents.clear();
      call_.whole.part = static_cast<int32_t>(axis);
      return "";
    }
    if (std::find(dims.begin(), dims.end(), axis) != dims.end())
      return call_.row->form == RowForm::kSumOverAxes ? in_share()
                                                      : call_.parts() + " along an axis that is read as a whole";
    const auto gone =
        call_.rank() >= from ? 0 : std::count_if(dims.begin(), dims.end(), [&](int64_t d) { return d < axis; });
    call_.whole.part = static_cast<int32_t>(axis - gone);
    return "";
  }

  // Parts one after the other: a part of each segment of all of them.
  bool are_segments(int64_t from_end) const {
    if (call_.whole.call.kernel != Kernel::kCat || !call_.of_cut() || call_.whole.segments != 1) return false;
    for (size_t i = 0; i < call_.where.size(); ++i) {
      if (!call_.present(i) || call_.part_of(i) != from_end || call_.where[i].surplus > 0) return false;
    }
    return true;
  }

  // linear: [.., I] by [O, I]; linear_backward_input: [.., O] by [O, I].
  std::string rows_by_matrix() {
    const int64_t of_rows = call_.part_of(0), of_matrix = call_.part_of(1),
                  summed = call_.whole.call.kernel == Kernel::kLinear ? 1 : 2;
    const bool bias = call_.present(call_.whole.operands.size() - 1) && call_.whole.operands.size() > 2;
    if (of_rows > 1 && of_matrix == 0 && call_.part_of(2) == 0) return at_end(of_rows);
    if (of_rows == 1 && of_matrix == summed && !bias) return in_share();
    if (of_rows == 1 && of_matrix == summed && call_.is_leaf(2))
      return call_.wrong("a bias that each place adds to its share");
    const bool of_columns = of_rows == 0 && of_matrix == 3 - summed && (!bias || call_.part_of(2) == 1);
    return of_columns ? at_end(1) : call_.parts() + " in a product";
  }
  // [.., O] and [.., I] to [O, I], over all rows.
  std::string sum_of_row_products() {
    const int64_t a = call_.part_of(0), b = call_.part_of(1);
    if (a > 1 && a == b) return in_share();
    if (a == 1 && b == 0) return at_end(2);
    return a == 0 && b == 1 ? at_end(1) : call_.parts() + " in a product";
  }
  std::string matmul() {
    const int64_t a = call_.part_of(0), b = call_.part_of(1);
    if (a == 1 && b == 2) return in_share();
    if (a > 2 && (b == a || b == 0)) return at_end(a);
    if (b > 2 && a == 0) return at_end(b);
    if (a == 2 && b == 0) return at_end(2);
    return a == 0 && b == 1 ? at_end(1) : call_.parts() + " in a product";
  }

  // What a place has past the last of a value is no element of a result either. A sum over it needs zeros there, in all
  // that is multiplied; a function of them that is zero at zero keeps them.
  std::string take_surplus() {
    int64_t surplus = -1;
    bool zeros = true;
    for (size_t i = 0; i < call_.where.size(); ++i) {
      if (call_.where[i].part < 0) continue;
      if (surplus >= 0 && surplus != call_.where[i].surplus) return "parts of different size";
      surplus = call_.where[i].surplus;
      zeros = zeros && call_.where[i].spread.zeros;
    }
    if (surplus <= 0) return "";
    if (is_norm() || (call_.row->form == RowForm::kBySample && axis_of_heads(call_.whole.call.kernel.id(), 3) > 0))
      return "parts of unequal size in what " + call_.whole.call.kernel.text() + " makes";
    if (call_.whole.spread.share && !zeros) return "a sum of more than a place has of what is summed";
    const bool each_alone = call_.row->form == RowForm::kElementwise || call_.row->form == RowForm::kAlongAxes;
    const Kernel kernel = call_.whole.call.kernel.id();
    const bool keeps_zeros = !each_alone || kernel == Kernel::kSliceBackward || kernel == Kernel::kTanh;
    if (call_.whole.part >= 0) call_.whole.surplus = surplus;
    call_.whole.spread.zeros = call_.whole.part >= 0 && zeros && keeps_zeros;
    return "";
  }

  SpreadCall& call_;
};

}  // namespace

std::string find_part(SpreadCall& call) { return PartAxes(call).find_part(); }
std::string take_surplus(SpreadCall& call) { return PartAxes(call).take_surplus(); }

}  // namespace piper::verify
