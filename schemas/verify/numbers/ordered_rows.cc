#include "schemas/verify/numbers/ordered_rows.h"

#include <algorithm>
#include <utility>

#include "schemas/plan/attrs.h"
#include "schemas/plan/dtype.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/names.h"
#include "schemas/verify/numbers/rows.h"

namespace piper::verify {

using plan::find_attr;
using plan::KernelCall;
using plan::Operand;
using RowKind = RowOrder::Kind;

namespace {

bool is_contiguous(const Operand& operand) { return operand.strides == plan::contiguous_strides(operand.shape); }

void reshape(Operand& operand, std::vector<int64_t> shape) {
  operand.strides = plan::contiguous_strides(shape);
  operand.shape = std::move(shape);
}

constexpr const char* kOtherOrder = "rows in the order of one router that are taken by that of another";
constexpr const char* kOtherCounts = "rows in the order of one router by the counts of another";
constexpr const char* kOtherRows = "rows of the experts of one rank by what belongs to those of all";

class Ordered {
 public:
  Ordered(const KernelCall& call, const std::vector<View>& operands, const std::vector<SpreadView>& where,
          NumberTable& table)
      : local_(call), where_(where), table_(table) {
    whole().call = call;
    whole().operands = operands;
  }

  OrderedCall make() {
    whole().why = check();
    return std::move(result_);
  }

 private:
  WholeCall& whole() { return result_.whole; }
  bool present(size_t i) const { return i < where_.size() && result_.whole.operands[i].number >= 0; }
  const RowOrder& order(size_t i) const { return where_[i].spread.order; }
  RowKind kind(size_t i) const { return present(i) ? order(i).kind : RowKind::kNone; }
  bool is_plain(size_t i) const { return kind(i) == RowKind::kNone && !where_[i].spread.is_spread(); }
  bool received(size_t i) const { return where_[i].spread.sources; }
  // Whole values of a rank's own, to any kernel.
  bool is_own_count(size_t i) const {
    return order(i).cut < 0 && (kind(i) == RowKind::kCounts || kind(i) == RowKind::kTotals) && !received(i);
  }
  std::string wrong(const char* why) {
    result_.wrong = true;
    return why;
  }

  std::string check() {
    const Kernel kernel = local_.kernel.id();
    if (kernel == Kernel::kSum && kind(0) == RowKind::kCounts && is_sum_of_segments()) return totals();
    if (kernel == Kernel::kTakeRows && local_.inputs.size() == 3) return take_rows();
    if (kernel == Kernel::kGroupedMatmul && local_.inputs.size() == 3) return product();
    if (kernel == Kernel::kGroupedExpand && local_.inputs.size() == 2) return expand();
    if (kernel == Kernel::kGroupedMatmulWeight && local_.inputs.size() == 3) return sum_of_rows(2);
    if (kernel == Kernel::kGroupedSum && local_.inputs.size() == 2) return sum_of_rows(1);
    bool rows = false, own_counts_alone = true;
    for (size_t i = 0; i < where_.size(); ++i) {
      rows = rows || kind(i) == RowKind::kRows;
      own_counts_alone = own_counts_alone && (is_own_count(i) || !present(i) || is_plain(i));
    }
    result_.plain = own_counts_alone;
    if (own_counts_alone) return "";
    return rows ? row_by_row() : "what is known of an order of rows, read by " + local_.kernel.text();
  }

  // ---------------------------------------------------------------- counts

  bool is_sum_of_segments() const {
    const auto* dims = find_attr<std::vector<int64_t>>(local_, "dims");
    const auto* keep = find_attr<bool>(local_, "keepdim");
    const Operand &in = local_.inputs[0], &out = local_.outputs[0];
    return local_.outputs.size() == 1 && !local_.accumulate && dims != nullptr && *dims == std::vector<int64_t>{1} &&
           (keep == nullptr || !*keep) && in.shape.size() == 2 && in.shape[0] == order(0).segments &&
           is_contiguous(in) && is_contiguous(out);
  }
  std::string totals() {
    whole().spread = where_[0].spread;
    whole().spread.order.kind = RowKind::kTotals;
    return "";
  }

  // [segments, experts of a segment], as they lie in memory.
  bool are_in_order(size_t i) const {
    const Operand& counts = local_.inputs[i];
    const std::vector<int64_t> dense = plan::contiguous_strides(counts.shape);
    bool in_order =
        counts.shape.size() == 2 && counts.shape[0] == order(i).segments && result_.whole.operands[i].offset == 0;
    for (size_t axis = 0; axis < counts.shape.size(); ++axis)
      in_order = in_order && (counts.shape[axis] == 1 || counts.strides[axis] == dense[axis]);
    return in_order;
  }
  // "" where operand `i` is what a kernel takes for the counts of `rows`' order.
  std::string counted_by(size_t rows, size_t i) {
    if (kind(i) != RowKind::kCounts) return "rows in an order by what are no counts";
    if (order(i).counts != order(rows).counts || !are_in_order(i)) return wrong(kOtherCounts);
    if (received(i) != received(rows)) return wrong(kOtherRows);
    return received(i) ? "" : "rows of experts of other ranks";
  }

  // ---------------------------------------------------------------- rows in and out

  std::string take_rows() {
    if (kind(1) == RowKind::kRows && (is_plain(0) || order(1).cut >= 0)) return enter();
    if (kind(1) == RowKind::kPositions && kind(0) == RowKind::kRows) return leave();
    return "rows that are taken by what is no order of theirs";
  }
  // Whether rows of operand 0, of which so many of the order's are one, are those of the places' parts that are
  // ordered: all of them, where these are not divided.
  bool has_own_rows(const RowOrder& order, int64_t repeat) const {
    if (order.cut < 0) return is_plain(0);
    const SpreadView& where = where_[0];
    const Spread& spread = where.spread;
    if (kind(0) != RowKind::kNone || spread.cut != order.cut || spread.devices != order.parts || spread.share ||
        where.part != 0 || where.surplus > 0 || !where.extents.empty())
      return false;
    return result_.whole.operands[0].axes[0].extent / (where.segments * order.parts) * repeat == order.run;
  }
  std::string enter() {
    if (kind(2) != RowKind::kPositions) return "rows that are taken by what is no order of theirs";
    if (order(1).counts != order(2).counts) return wrong(kOtherOrder);
    const auto* const repeat = find_attr<int64_t>(local_, "repeat");
    if (!has_own_rows(order(1), repeat == nullptr ? 1 : *repeat))
      return "rows of other parts than those that are ordered";
    if (received(1)) return "rows that are taken by an order of several ranks";
    return in_rows(where_[1].spread);
  }
  std::string leave() {
    if (order(0).counts != order(1).counts) return wrong(kOtherOrder);
    if (kind(2) == RowKind::kRows && order(2).counts != order(1).counts) return wrong(kOtherOrder);
    if (kind(2) != RowKind::kRows || received(2)) return "rows that are taken by what is no order of theirs";
    if (received(0)) return wrong(kOtherRows);
    return order(1).cut < 0 ? "" : leave_to_part(order(1));
  }
  // The model's rows of the place's part.
  std::string leave_to_part(const RowOrder& order) {
    Operand& out = whole().call.outputs[0];
    const int64_t rows = whole().operands[1].axes[0].extent;  // as positions of all places
    if (out.shape.empty() || out.shape[0] < 1 || out.shape[0] * order.parts != rows || !is_contiguous(out))
      return "rows of a part that lie in another order";
    std::vector<int64_t> shape = out.shape;
    const int64_t row = plan::elements(out) / shape[0];
    shape[0] = rows;
    reshape(out, std::move(shape));
    whole().spread = {.devices = order.parts, .part = order.run * row, .cut = order.cut};
    return "";
  }

  // The results are rows in the order that `spread` says.
  std::string in_rows(const Spread& spread) {
    const RowOrder& order = spread.order;
    for (Operand& out : whole().call.outputs) {
      if (out.slot == Operand::kAbsent) continue;
      if (out.shape.empty() || out.shape[0] % order.places != 0 || !is_contiguous(out))
        return "rows in an order that lie in another";
      std::vector<int64_t> shape = out.shape;
      shape[0] = shape[0] / order.places * order.rows;
      if (auto* attr = find_attr<std::vector<int64_t>>(whole().call, "shape"); attr != nullptr && *attr == out.shape)
        *attr = shape;
      reshape(out, std::move(shape));
    }
    whole().spread = spread;
    return "";
  }

  // ---------------------------------------------------------------- by groups

  // Whether operand `i` is a rank's part of something of which each expert has one along axis 0.
  bool is_of_experts(size_t i) const {
    return present(i) && where_[i].spread.is_spread() && where_[i].part == 0 && !where_[i].spread.share &&
           !where_[i].spread.summed && table_[result_.whole.operands[i].number].over == Over::kNothing;
  }
  std::string product() {
    if (kind(0) != RowKind::kRows) return "a product by groups of what is not in their order";
    if (std::string why = counted_by(0, 2); !why.empty()) return why;
    if (!is_of_experts(1) || where_[1].spread.devices != order(0).segments)
      return "rows of experts by what is not a rank's part of them";
    take_counts(2);
    return in_rows(where_[0].spread);
  }
  std::string expand() {
    if (kind(1) != RowKind::kCounts || !received(1)) return "rows of experts of other ranks";
    if (!are_in_order(1)) return wrong(kOtherCounts);
    if (!is_of_experts(0) || where_[0].spread.devices != order(1).segments)
      return "rows of experts by what is not a rank's part of them";
    auto* rows = find_attr<int64_t>(whole().call, "rows");
    if (rows == nullptr || *rows != order(1).places) return "rows of another order";
    *rows = order(1).rows;
    take_counts(1);
    Spread spread = where_[1].spread;
    spread.order.kind = RowKind::kRows;
    return in_rows(spread);
  }
  // For each expert the sum over its rows, those of all ranks.
  std::string sum_of_rows(size_t counts) {
    for (size_t i = 0; i < counts; ++i) {
      if (kind(i) != RowKind::kRows) return "a sum by groups of what is not in their order";
      if (std::string why = counted_by(i, counts); !why.empty()) return why;
    }
    const int64_t devices = order(0).segments;
    Operand& out = whole().call.outputs[0];
    if (out.shape.empty() || !is_contiguous(out))
      return "a sum over the rows of each expert that lies in another order";
    std::vector<int64_t> shape = out.shape;
    shape[0] *= devices;
    reshape(out, std::move(shape));
    take_counts(counts);
    whole().part = 0;
    whole().spread.devices = devices;
    whole().spread.summed = true;
    whole().spread.order.cut = order(0).cut;
    return "";
  }
  // For one device: [1, experts].
  void take_counts(size_t i) {
    View& view = whole().operands[i];
    const int64_t experts = table_[view.number].bytes / dtype_bytes(view.dtype);
    view.offset = 0;
    view.axes = {{1, 0, false}, {experts, experts == 1 ? 0 : 1, false}};
  }

  // ---------------------------------------------------------------- row by row

  std::string row_by_row() {
    const Row* const row = find_row(local_.kernel == Kernel::kAddInto ? Kernel::kCopy : local_.kernel.id());
    if (row == nullptr) return "kernel " + local_.kernel.text() + " has no row";
    // A mask is drawn for each place by itself.
    if (local_.kernel == Kernel::kDropout) return "a mask for rows in an order";
    size_t first = where_.size();
    for (size_t i = 0; i < where_.size(); ++i) {
      if (!present(i)) continue;
      if (kind(i) == RowKind::kRows) {
        if (first == where_.size()) first = i;
        if (order(i).counts != order(first).counts)
          return wrong("rows in the order of one router together with those of another");
        if (where_[i].spread != where_[first].spread) return "rows of experts of one rank together with those of all";
      } else if (!is_plain(i) || table_[whole().operands[i].number].over != Over::kNothing) {
        return "rows in an order together with what is not";
      }
    }
    std::vector<View> posed = as_samples(first);
    const std::vector<RowResult> results = apply_row(*row, local_, table_, order(first).places, posed);
    for (const RowResult& result : results) {
      if (result.over == Over::kUnknown) return "rows in an order: " + result.why;
      if (result.over != Over::kEach || result.sample_axis != 0)
        return "what " + local_.kernel.text() + " makes of rows in an order";
    }
    // What is the same for all rows is repeated as often as there are.
    for (size_t i = 0; i < where_.size(); ++i)
      for (size_t axis = 0; axis < posed[i].axes.size() && present(i) && kind(i) != RowKind::kRows; ++axis)
        if (ViewAxis& repeated = whole().operands[i].axes[axis];
            posed[i].axes[axis].extent == 0 && repeated.extent % order(first).places == 0)
          repeated.extent = repeated.extent / order(first).places * order(first).rows;
    return in_rows(where_[first].spread);
  }

  // Operands as a row's argument takes them, each of the rows for a sample.
  std::vector<View> as_samples(size_t first) {
    const int32_t apart = table_.leaf("rows of experts", Over::kEach, 0);
    const int32_t alike = table_.leaf("what is the same for all rows of experts", Over::kNothing, 0);
    std::vector<View> posed = whole().operands;
    for (size_t i = 0; i < where_.size(); ++i) {
      if (!present(i)) continue;
      posed[i].number = kind(i) == RowKind::kRows ? apart : alike;
      if (kind(i) != RowKind::kRows) continue;
      ViewAxis& rows = posed[i].axes[static_cast<size_t>(where_[i].rows)];
      rows.samples = true;
      rows.extent /= order(first).rows;
      if (rows.extent == 1) rows.stride = 0;
    }
    return posed;
  }

  const KernelCall& local_;
  const std::vector<SpreadView>& where_;
  NumberTable& table_;
  OrderedCall result_;
};

}  // namespace

std::string view_of_ordered(const StridedElements& elements, const HeldValue& value, int64_t size, View& view,
                            SpreadView& where) {
  const RowOrder& order = value.spread.order;
  where.spread = value.spread;
  if (order.kind == RowKind::kPositions && order.cut >= 0) {
    if (elements.offset != 0 || elements.shape != std::vector<int64_t>{size / order.parts} || elements.strides[0] != 1)
      return "places of rows of a part that are not read as they are";
    view.axes = {{size, 1, false}};
    return "";
  }
  const bool rows = order.kind == RowKind::kRows;
  const int64_t row = rows ? size / order.rows : 0;
  if (std::string why = view_of(elements, Over::kPiece, rows ? row * order.places : size, 1, view); !why.empty())
    return why;
  if (!rows) return "";
  int64_t last = view.offset;
  for (size_t i = 0; i < view.axes.size(); ++i) {
    ViewAxis& axis = view.axes[i];
    const int64_t of_each = axis.extent / order.places;
    if (where.rows < 0 && axis.extent % order.places == 0 && of_each * axis.stride == row) {
      where.rows = static_cast<int32_t>(i);
      last += (of_each - 1) * axis.stride;
      axis.extent = of_each * order.rows;
      if (axis.extent == 1) axis.stride = 0;
    } else {
      last += (axis.extent - 1) * axis.stride;
    }
  }
  return where.rows >= 0 && last < row ? "" : "rows in an order that are not read one by one";
}

std::optional<WholeOrder> whole_order(const KernelCall& call, const View& view, const SpreadView& ids,
                                      int64_t samples) {
  const auto* segments = find_attr<int64_t>(call, "segments");
  if (call.kernel != Kernel::kExpertOrder || segments == nullptr || *segments < 2) return std::nullopt;
  WholeOrder whole;
  whole.call = call;
  whole.why = "an order of rows in a form of its own";
  const auto* experts = find_attr<int64_t>(call, "experts");
  const auto* capacity = find_attr<int64_t>(call, "capacity");
  if (call.inputs.size() != 1 || call.outputs.size() != 4 || experts == nullptr || capacity == nullptr ||
      *experts < *segments || *experts % *segments != 0 || *capacity < 1 || call.inputs[0].shape.size() != 1 ||
      call.inputs[0].shape[0] < 1)
    return whole;
  const int64_t rows = call.inputs[0].shape[0];
  if (const Spread& spread = ids.spread; spread.is_spread()) {
    const int64_t segments = ids.segments * (ids.part == 0 && view.axes[0].samples ? samples : 1);
    if (spread.cut < 0 || spread.share || ids.part != 0 || ids.surplus > 0 || !ids.extents.empty() ||
        rows % segments != 0) {
      whole.why = "an order of rows of which a rank has no part along their axis";
      return whole;
    }
    whole.order.cut = spread.cut;
    whole.order.parts = spread.devices;
    whole.order.run = rows / segments;
    // A capacity of the rows of each place is one of the rows of each part.
    if (*capacity < rows) {
      whole.call.attrs.push_back({plan::kPartsOfRows, whole.order.parts});
      whole.call.attrs.push_back({plan::kRowsOfPart, whole.order.run});
    }
  }
  const auto places = [&](int64_t of_experts) {  // so many that they overflow are more than there are rows
    int64_t all = 0;
    return __builtin_mul_overflow(*capacity, of_experts, &all) ? rows : std::min(rows, all);
  };
  whole.order.segments = *segments;
  whole.order.rows = places(*experts);
  int64_t counted = 0;
  if (__builtin_mul_overflow(*segments, places(*experts / *segments), &whole.order.places) ||
      __builtin_mul_overflow(*experts, dtype_bytes(DType::kI64), &counted))
    return whole;
  *find_attr<int64_t>(whole.call, "segments") = 1;
  int64_t all = 0;
  int64_t& capacities = *find_attr<int64_t>(whole.call, "capacity");
  if (__builtin_mul_overflow(rows, whole.order.parts, &all) ||
      __builtin_mul_overflow(*capacity, whole.order.parts, &capacities))
    return whole;
  whole.order.rows *= whole.order.parts;
  reshape(whole.call.inputs[0], {all});
  const std::vector<int64_t> here[] = {{whole.order.places}, {rows}, {*segments, *experts / *segments}, {}};
  const std::vector<int64_t> shapes[] = {{whole.order.rows}, {all}, {1, *experts}, {}};
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const Operand& made = call.outputs[i];
    if (made.slot != Operand::kAbsent && made.shape != here[i]) {
      whole.wrong = true;
      whole.why = "an order of rows that has not the places of its capacity";
      return whole;
    }
    if (made.slot != Operand::kAbsent && !is_contiguous(made)) return whole;
    Operand& out = whole.call.outputs[i];
    out.dtype = DType::kI64;
    reshape(out, shapes[i]);
  }
  whole.why.clear();
  return whole;
}

OrderedCall ordered_call(const KernelCall& call, const std::vector<View>& operands,
                         const std::vector<SpreadView>& where, NumberTable& table) {
  return Ordered(call, operands, where, table).make();
}

MovedRows exchanged_rows(const HeldValue& sent, const Exchange& exchange, const std::vector<CountedBy>& counts,
                         int64_t bytes, const NumberTable& table) {
  const RowOrder& order = sent.spread.order;
  const bool back = sent.spread.sources;
  MovedRows moved;
  moved.value = sent;
  moved.value.spread.devices = exchange.devices;
  moved.value.spread.sources = !back;
  const auto open = [&](const char* why) {
    moved.why = why;
    return moved;
  };
  const auto wrong = [&](const char* why) {
    moved.wrong = true;
    return open(why);
  };
  if (exchange.across != order.cut) return open("an exchange of rows of a part among other ranks than the places");
  if (exchange.devices != order.segments || sent.first != 0 || sent.end > bytes)
    return open("an exchange of a part of an order");
  if (order.kind == RowKind::kCounts)
    return back || exchange.counted ? open("an exchange of counts of rows that others sent") : moved;
  if (order.kind != RowKind::kRows) return open("an exchange of what is known of an order");
  if (!exchange.counted) return moved;
  if (exchange.row * order.rows != sent.elements_of(table[sent.number].bytes / dtype_bytes(exchange.dtype)))
    return wrong("an exchange of rows of another length");
  for (const CountedBy& by : counts)
    for (const HeldValue* const rows : {by.sent, by.received}) {
      if (rows == nullptr || rows->spread.order.kind != RowKind::kTotals)
        return open("an exchange of as many rows as the data say");
      if (rows->spread.order.counts != order.counts) return wrong(kOtherCounts);
      if (rows->spread.sources != (rows == by.sent ? back : !back)) return wrong(kOtherRows);
    }
  return moved;
}

}  // namespace piper::verify
