#include "schemas/verify/numbers/rows.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "schemas/plan/attrs.h"
#include "schemas/plan/kernels.h"

namespace piper::verify {

using plan::find_attr;
using plan::KernelCall;

namespace {

constexpr Row kRows[] = {
#define PIPER_ROW(kernel, form, shared, sums) {Kernel::kernel, RowForm::form, shared, sums},
#include "schemas/verify/numbers/rows.def"
#undef PIPER_ROW
};

// Where an operand has its samples; -1: nowhere.
int32_t sample_axis(const View& view) {
  for (size_t axis = 0; axis < view.axes.size(); ++axis)
    if (view.axes[axis].samples) return static_cast<int32_t>(axis);
  return -1;
}

constexpr const char* kByFrequency = "gradients that are scaled by how often an index occurs in the batch";
constexpr const char* kNumbersForEach = "an operand without samples together with one that has them";

RowResult unknown(std::string why) { return {Over::kUnknown, -1, std::move(why)}; }
RowResult by_each(int64_t axis) { return {Over::kEach, static_cast<int32_t>(axis), ""}; }

class Applied {
 public:
  Applied(const Row& row, const KernelCall& call, const NumberTable& table, int64_t samples,
          std::vector<View>& operands)
      : row_(row), call_(call), table_(table), samples_(samples), operands_(operands) {}

  std::vector<RowResult> make() {
    for (const View& view : operands_) {
      counts_[static_cast<size_t>(over(view))] += view.number >= 0;
      present_ += view.number >= 0;
    }
    switch (row_.form) {
      case RowForm::kElementwise: return {elementwise()};
      case RowForm::kLinear: return {linear(1, false)};
      case RowForm::kAdd: return {linear(3, true)};
      case RowForm::kMultiply: return {linear(3, false)};
      case RowForm::kSumOverAxes: return {sum_over_axes()};
      case RowForm::kAlongAxes: return {along_axes()};
      case RowForm::kSelect: return {select()};
      case RowForm::kRowsByMatrix: return {rows_by_matrix()};
      case RowForm::kSumOfRowProducts: return {sum_of_row_products()};
      case RowForm::kMatmul: return {matmul()};
      case RowForm::kMatrices: return {matrices()};
      case RowForm::kBySample: return by_sample();
    }
    return {};
  }

 private:
  Over over(const View& view) const { return view.number < 0 ? Over::kNothing : table_[view.number].over; }
  size_t count(Over what) const { return counts_[static_cast<size_t>(what)]; }
  bool is_shared(size_t operand) const { return (row_.shared >> operand & 1) != 0; }
  // One that has samples anyway; operands_.size() where there is none.
  size_t shared_with_samples() const {
    size_t i = 0;
    while (i < operands_.size() && !(is_shared(i) && over(operands_[i]) != Over::kNothing)) ++i;
    return i;
  }
  size_t rank() const { return call_.outputs[0].shape.size(); }

  // Operands that have samples have them at one place, counted from the last axis; the others are repeated along it.
  // 0: no operand has samples.
  std::string align(int64_t& from_end) {
    from_end = 0;
    int64_t rows = 1;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const View& view = operands_[i];
      if (over(view) != Over::kEach || is_shared(i)) continue;
      if (sample_axis(view) < 0) return "an operand that does not name all samples";
      const auto axis = static_cast<size_t>(sample_axis(view));
      const auto here = static_cast<int64_t>(view.axes.size() - axis);
      if (from_end > 0 && (here != from_end || view.axes[axis].extent != rows))
        return "operands that number their samples by different axes";
      from_end = here;
      rows = view.axes[axis].extent;
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
      View& view = operands_[i];
      const auto axis = static_cast<int64_t>(view.axes.size()) - from_end;
      if (is_shared(i) || from_end == 0 || view.number < 0 || axis < 0 || over(view) == Over::kEach) continue;
      if (!repeat(view.axes[static_cast<size_t>(axis)])) return kNumbersForEach;
    }
    return "";
  }
  // An axis along which an operand is the same for every sample takes its extent from the result.
  static bool repeat(ViewAxis& axis) {
    if (axis.stride != 0) return false;
    axis.extent = 0;
    return true;
  }

  // Element by element: what has no samples is the same for all, so the result depends on one sample alone.
  RowResult elementwise() {
    for (const View& view : operands_)
      if (view.axes.size() > rank()) return unknown("an operand of more axes than the result");
    if (count(Over::kSum) > 0) return unknown("no linear function of a sum over samples");
    if (shared_with_samples() < operands_.size()) return unknown("a factor with samples");
    if (auto why = wrong_mask(); !why.empty()) return unknown(std::move(why));
    int64_t from_end = 0;
    if (auto why = align(from_end); !why.empty()) {
      RowResult result = unknown(std::move(why));
      result.numbers_for_each = result.why == kNumbersForEach;
      return result;
    }
    return from_end == 0 ? RowResult() : by_each(static_cast<int64_t>(rank()) - from_end);
  }

  // A mask is drawn by the place of an element in its sample, and the sample's in the step, of which the call says how
  // they are found; what has no samples has one mask, by a constant in the place of the sample's.
  std::string wrong_mask() const {
    const auto *outer = find_attr<int64_t>(call_, "outer"), *batch = find_attr<int64_t>(call_, "batch"),
               *inner = find_attr<int64_t>(call_, "inner");
    if (outer == nullptr || inner == nullptr || operands_.size() < 3) return "";
    const View& x = operands_[0];
    const bool by_constant = operands_[2].number >= 0 && table_[operands_[2].number].constant;
    if (over(x) == Over::kNothing || over(x) == Over::kSum)
      return by_constant && (batch == nullptr || *batch == 1) ? "" : "a mask for each sample of what has none";
    if (by_constant) return "one mask for samples that have their own";
    const auto axis = static_cast<size_t>(std::max(sample_axis(x), 0));
    int64_t in_front = 1, from_there = 1;
    for (size_t i = 0; i < x.axes.size(); ++i) (i < axis ? in_front : from_there) *= x.axes[i].extent;
    const bool fits = *outer == in_front && *inner == from_there && (batch == nullptr || *batch == samples_);
    return fits ? "" : "a mask whose samples are not those of its operand";
  }

  // The same, but operands may be sums over the samples: f(a + b) = f(a) + f(b) in each of `in`, where the others have
  // no samples; `together`: where all of them are sums.
  RowResult linear(uint32_t in, bool together) {
    if (count(Over::kSum) == 0) return elementwise();
    if (auto why = wrong_mask(); !why.empty()) return unknown(std::move(why));
    if ((call_.kernel == Kernel::kCast || call_.kernel == Kernel::kDiv) && !is_floating(call_.outputs[0].dtype))
      return unknown("a sum over samples that is rounded to integers");
    for (size_t i = 0; i < operands_.size(); ++i)
      if (over(operands_[i]) == Over::kSum && (in >> i & 1) == 0) return unknown("no linear function of a sum");
    const bool all = count(Over::kSum) == present_;
    const bool one = count(Over::kSum) == 1 && count(Over::kNothing) + 1 == present_;
    return (together ? all : one) ? RowResult{Over::kSum, -1, ""} : unknown("no linear function of a sum");
  }

  std::vector<int64_t> dims() const {
    if (const auto* list = find_attr<std::vector<int64_t>>(call_, "dims")) return *list;
    if (const auto* one = find_attr<int64_t>(call_, "dim")) return {*one};
    return {};
  }
  // The place in the result of an axis of operand 0, where `dims` may be gone.
  RowResult behind(int32_t samples, const std::vector<int64_t>& dims) const {
    if (rank() >= operands_[0].axes.size()) return by_each(samples);
    return by_each(samples - std::count_if(dims.begin(), dims.end(), [&](int64_t dim) { return dim < samples; }));
  }

  // A sum over axes of each sample is made of that sample; one over the samples' axis as well is a sum over the
  // samples; a sum of sums is one.
  RowResult sum_over_axes() {
    const View& view = operands_[0];
    const std::vector<int64_t> summed = dims();
    for (const int64_t dim : summed) {
      if (dim < 0 || static_cast<size_t>(dim) >= view.axes.size()) return unknown("an axis that does not exist");
      const ViewAxis& axis = view.axes[static_cast<size_t>(dim)];
      if (!axis.samples && axis.extent != 1 && axis.stride == 0) return unknown("a sum of repetitions");
    }
    if (over(view) != Over::kEach) return {over(view), -1, ""};
    const int32_t samples = sample_axis(view);
    if (std::find(summed.begin(), summed.end(), samples) != summed.end()) return {Over::kSum, -1, ""};
    return behind(samples, summed);
  }

  // Along axes that do not number samples each sample is by itself.
  RowResult along_axes() {
    if (shared_with_samples() < operands_.size()) return unknown("places that depend on samples");
    if (count(Over::kSum) > 0) {
      const bool linear_here = call_.kernel == Kernel::kSliceBackward || call_.kernel == Kernel::kMean;
      return linear_here && present_ == 1 ? RowResult{Over::kSum, -1, ""} : unknown("no linear function of a sum");
    }
    int64_t from_end = 0;
    if (auto why = align(from_end); !why.empty()) return unknown(std::move(why));
    if (from_end == 0) return {};
    const auto samples = static_cast<int32_t>(static_cast<int64_t>(operands_[0].axes.size()) - from_end);
    const std::vector<int64_t> along = dims();
    const bool named = !along.empty() && std::all_of(along.begin(), along.end(), [](int64_t dim) { return dim >= 0; });
    if (!named || std::find(along.begin(), along.end(), samples) != along.end())
      return unknown("samples along an axis that is read as a whole");
    return behind(samples, along);
  }

  // Along another axis than the samples' each sample is by itself, and so is each place that a sample names in what has
  // none. What is named is linear in what there is.
  RowResult select() {
    const View &from = operands_[0], &index = operands_[1];
    const std::vector<int64_t> along = dims();
    if (along.size() != 1 || along[0] < 0) return unknown("an axis that does not exist");
    if (over(from) == Over::kNothing && over(index) == Over::kEach && index.axes.size() == 1) return by_each(along[0]);
    if (over(index) != Over::kNothing) return unknown("places that depend on samples");
    if (over(from) != Over::kEach) return {over(from), -1, ""};
    const int32_t samples = sample_axis(from);
    return samples == along[0] ? unknown("samples along an axis that is read as a whole") : by_each(samples);
  }

  // Each row by itself. What is multiplied by, and added to, each row has no samples; samples are not along the row.
  RowResult rows_by_matrix() {
    for (size_t i = 1; i < operands_.size(); ++i)
      if (over(operands_[i]) != Over::kNothing) return unknown("a matrix that depends on samples");
    const View& rows = operands_[0];
    // The kernel without a bias is linear in its rows.
    if (over(rows) == Over::kSum)
      return call_.kernel == Kernel::kLinearBackwardInput ? RowResult{Over::kSum, -1, ""}
                                                          : unknown("no linear function of a sum");
    if (over(rows) != Over::kEach) return {};
    const int32_t samples = sample_axis(rows);
    if (static_cast<size_t>(samples) + 1 == rows.axes.size()) return unknown("samples along a row");
    return rank() == rows.axes.size() ? by_each(samples) : unknown("a result of another rank");
  }

  // The sum over the rows of a piece is, for two pieces, the sum of both: each row is a sample's own.
  RowResult sum_of_row_products() {
    if (operands_[0].axes.size() != operands_[1].axes.size()) return unknown("operands of different rank");
    if (count(Over::kSum) > 0)  // linear in each of the two
      return count(Over::kNothing) == 1 ? RowResult{Over::kSum, -1, ""} : unknown("no linear function of a sum");
    int64_t from_end = 0;
    if (auto why = align(from_end); !why.empty()) return unknown(std::move(why));
    if (from_end == 0) return {};
    return from_end == 1 ? unknown("samples along a row") : RowResult{Over::kSum, -1, ""};
  }

  // Samples number the matrices, or the rows of the first where the second is the same for all; along the axis that is
  // summed over, in both, the product is a sum over the samples.
  RowResult matmul() {
    if (count(Over::kSum) > 0)  // linear in each of the two
      return count(Over::kNothing) == 1 ? RowResult{Over::kSum, -1, ""} : unknown("no linear function of a sum");
    const View &a = operands_[0], &b = operands_[1];
    if (over(a) == Over::kNothing && over(b) == Over::kNothing) return {};
    const auto place = [&](const View& view) {  // from the end
      return over(view) == Over::kEach ? static_cast<int64_t>(view.axes.size()) - sample_axis(view) : 0;
    };
    const int64_t of_a = place(a), of_b = place(b);
    if (of_a == 1 && of_b == 2 &&
        a.axes[static_cast<size_t>(sample_axis(a))].extent == b.axes[static_cast<size_t>(sample_axis(b))].extent)
      return {Over::kSum, -1, ""};
    if (of_b == 0 && of_a == 2) return by_each(static_cast<int64_t>(rank()) - 2);
    if (of_a < 3 && of_b < 3) return unknown("samples that are neither matrices nor rows of the first");
    int64_t from_end = 0;
    if (auto why = align(from_end); !why.empty()) return unknown(std::move(why));
    return by_each(static_cast<int64_t>(rank()) - from_end);
  }

  // Samples number the matrices, or the columns of a right side. What solves for one is linear in it, and a derivative
  // in the gradient.
  RowResult matrices() {
    const bool solves = call_.kernel == Kernel::kTriangularSolve || call_.kernel == Kernel::kSolve;
    if (count(Over::kSum) > 0) {
      const size_t in = solves ? 1 : 0;
      const bool linear_here = solves || call_.kernel == Kernel::kMatrixExpBackward;
      return linear_here && operands_.size() == 2 && over(operands_[in]) == Over::kSum &&
                     over(operands_[1 - in]) == Over::kNothing
                 ? RowResult{Over::kSum, -1, ""}
                 : unknown("no linear function of a sum");
    }
    if (solves && over(operands_[0]) == Over::kNothing && over(operands_[1]) == Over::kEach &&
        static_cast<size_t>(sample_axis(operands_[1])) + 1 == operands_[1].axes.size())
      return by_each(static_cast<int64_t>(rank()) - 1);
    int64_t from_end = 0, axes = 0;
    if (auto why = align(from_end); !why.empty()) return unknown(std::move(why));
    if (from_end == 0) return {};
    if (from_end < 3) return unknown("samples along an axis of a matrix");
    for (const View& view : operands_) axes = std::max(axes, static_cast<int64_t>(view.axes.size()));
    return by_each(axes - from_end);
  }

  // Whatever a sample's part of the operands is, its part of the results is made of that, in the order of the samples;
  // a result that is a sum is one of such parts. Holds for sums over a vocabulary, rows, heads, windows, ... of one
  // sample, and for rows of which each sample has as many.
  std::vector<RowResult> by_sample() {
    const std::string why = by_sample_alone();
    if (!why.empty()) {
      RowResult result = unknown(why);
      result.mixes = why == kByFrequency;
      return {result};
    }
    if (count(Over::kSum) > 0) {
      const bool of_first = over(operands_[0]) == Over::kSum && count(Over::kNothing) + 1 == present_;
      return {of_first && is_lookup() ? RowResult{Over::kSum, -1, ""} : unknown("no linear function of a sum")};
    }
    std::vector<RowResult> results(call_.outputs.size());
    if (count(Over::kEach) == 0) return results;
    for (size_t i = 0; i < results.size(); ++i)
      results[i] = (row_.sums >> i & 1) != 0 ? RowResult{Over::kSum, -1, ""} : by_each(0);
    for (size_t i = 0; i < operands_.size(); ++i) {
      View& view = operands_[i];
      if (view.number < 0) continue;
      if ((row_.shared >> i & 1) != 0) {
        if (over(view) != Over::kNothing) return {unknown("a table or a factor with samples")};
        continue;
      }
      if (over(view) == Over::kEach) {
        if (sample_axis(view) != 0) return {unknown("samples that are not the first axis")};
        continue;
      }
      // The same for every sample: repeated along the first axis, or without it. Axes correspond from the last on,
      // those of indices from the first on.
      const bool has_first = !view.axes.empty() && (is_lookup() || view.axes.size() >= operands_[0].axes.size());
      if (has_first && !repeat(view.axes[0]))
        return {unknown("an operand without samples together with one that has them")};
    }
    return results;
  }

  bool is_lookup() const { return call_.kernel == Kernel::kEmbeddingBackward; }

  // What a row's form does not say: attributes by which a kernel would look across samples.
  std::string by_sample_alone() const {
    const bool is_backward = call_.kernel.name().find("backward") != std::string_view::npos;
    if (const auto* axes = find_attr<int64_t>(call_, "axes");
        axes != nullptr && call_.inputs.size() > 1 &&
        static_cast<size_t>(*axes) >= operands_[is_backward ? 1 : 0].axes.size())
      return "samples along an axis that is normalised";
    for (const char* side : {"low", "high"})
      if (const auto* added = find_attr<std::vector<int64_t>>(call_, side);
          added != nullptr && (added->empty() || added->front() != 0))
        return "samples that are added or left out";
    if (const auto* by_frequency = find_attr<bool>(call_, "scale_grad_by_freq");
        by_frequency != nullptr && *by_frequency && is_lookup())
      return kByFrequency;
    return "";
  }

  const Row& row_;
  const KernelCall& call_;
  const NumberTable& table_;
  const int64_t samples_;
  std::vector<View>& operands_;
  size_t counts_[5] = {};  // [Over] operands
  size_t present_ = 0;
};

}  // namespace

const Row* find_row(Kernel kernel) {
  static constexpr auto kRowOf = [] {
    std::array<const Row*, plan::kNumKernels> rows{};
    for (const Row& row : kRows) rows[static_cast<size_t>(row.kernel)] = &row;
    return rows;
  }();
  return kRowOf[static_cast<size_t>(kernel)];
}

std::vector<RowResult> apply_row(const Row& row, const KernelCall& call, const NumberTable& table, int64_t samples,
                                 std::vector<View>& operands) {
  return Applied(row, call, table, samples, operands).make();
}

}  // namespace piper::verify
