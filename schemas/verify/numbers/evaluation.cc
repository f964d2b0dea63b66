#include "schemas/verify/numbers/evaluation.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "schemas/plan/attrs.h"
#include "schemas/plan/dtype.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/names.h"
#include "schemas/verify/numbers/constants.h"
#include "schemas/verify/numbers/copies.h"
#include "schemas/verify/numbers/leaves.h"
#include "schemas/verify/numbers/linear.h"
#include "schemas/verify/numbers/memory_order.h"
#include "schemas/verify/numbers/ordered_rows.h"
#include "schemas/verify/numbers/part_of_gradient.h"
#include "schemas/verify/numbers/pieces.h"
#include "schemas/verify/numbers/repetitions.h"
#include "schemas/verify/numbers/shares.h"
#include "schemas/verify/numbers/sums.h"

namespace piper::verify {

using plan::KernelCall;
using plan::Operand;

namespace {

// Attributes that repeat extents of the call: they have the number of samples in them, or are those of a mask, which
// rows.cc holds to its operand.
bool is_of_samples(const KernelCall& call, const plan::Attr& attr) {
  const bool mask = call.kernel == Kernel::kDropout && (attr.name == "outer" || attr.name == "inner");
  return mask || attr.name == "shape" || attr.name == "batch";
}

int64_t product(const std::vector<int64_t>& extents, size_t from) {
  return std::accumulate(extents.begin() + static_cast<std::ptrdiff_t>(from), extents.end(), int64_t{1},
                         std::multiplies<>());
}

// A sum as one whose operand lacks the axes of one place: the same elements, added up alike, and where nothing is
// summed over, a copy. Samples keep their axis. False: there are none.
bool leave_out_places(KernelCall& call, std::vector<View>& operands, RowResult& result) {
  auto* const dims = call.kernel == Kernel::kSum ? plan::find_attr<std::vector<int64_t>>(call, "dims") : nullptr;
  if (dims == nullptr || call.inputs.size() != 1 || call.outputs.size() != 1 || result.total) return false;
  Operand &in = call.inputs[0], &out = call.outputs[0];
  std::vector<ViewAxis>& axes = operands[0].axes;
  const auto is_summed = [&](size_t axis) {
    return std::find(dims->begin(), dims->end(), static_cast<int64_t>(axis)) != dims->end();
  };
  size_t summed = 0;
  for (size_t axis = 0; axis < axes.size(); ++axis) summed += is_summed(axis) ? 1 : 0;
  if (axes.size() != in.shape.size() || summed != dims->size() || out.shape.size() + summed != in.shape.size() ||
      in.dtype != out.dtype || out.strides != plan::contiguous_strides(out.shape))
    return false;
  const auto erase = [](auto& list, size_t place) { list.erase(list.begin() + static_cast<std::ptrdiff_t>(place)); };
  bool any = false;
  for (size_t axis = axes.size(), left = out.shape.size(); axis-- > 0;) {
    const bool sums = is_summed(axis);
    left -= sums ? 0 : 1;
    if (axes[axis].extent != 1 || axes[axis].samples || in.shape[axis] != 1) continue;
    erase(axes, axis), erase(in.shape, axis), erase(in.strides, axis);
    if (!sums) {
      erase(out.shape, left), erase(out.strides, left);
      result.sample_axis -= result.sample_axis > static_cast<int32_t>(left) ? 1 : 0;
    }
    std::erase(*dims, static_cast<int64_t>(axis));
    for (int64_t& dim : *dims) dim -= dim > static_cast<int64_t>(axis) ? 1 : 0;
    any = true;
  }
  if (any && dims->empty()) {
    call.kernel = Kernel::kCopy;
    call.attrs.clear();
  }
  return any;
}

std::vector<RowResult> of_piece() { return {{Over::kPiece, -1, ""}}; }
bool is_unknown(const RowResult& result) { return result.over == Over::kUnknown; }

}  // namespace

std::string attrs_text(const KernelCall& call, bool with_samples) {
  struct Text {
    std::string operator()(int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const {  // to the bit
      return std::string(reinterpret_cast<const char*>(&value), sizeof value);
    }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(const std::string& value) const { return value; }
    std::string operator()(const std::vector<int64_t>& values) const {
      std::string text = "[";
      for (const int64_t value : values) text += std::to_string(value) + ",";
      return text + "]";
    }
  };
  std::string text;
  for (const auto& attr : call.attrs)
    if (with_samples || !is_of_samples(call, attr)) text += attr.name + "=" + std::visit(Text(), attr.value) + ";";
  return text;
}

View as_rows(const Operand& out, int32_t number) {
  View view;
  view.number = number;
  view.dtype = out.dtype;
  const auto strides = plan::contiguous_strides(out.shape);
  for (size_t axis = 0; axis < out.shape.size(); ++axis)
    view.axes.push_back({out.shape[axis], out.shape[axis] == 1 ? 0 : strides[axis], false});
  return view;
}

View repeated_rows(const Operand& out, int32_t number, int64_t period) {
  View view = as_rows(out, number);
  for (ViewAxis& axis : view.axes)
    if (period > 0 && axis.stride % period == 0) axis.stride = 0;
  return view;
}

int32_t unknown_among(const std::vector<View>& operands, const NumberTable& table) {
  for (const View& view : operands)
    if (view.number >= 0 && table[view.number].over == Over::kUnknown) return view.number;
  return -1;
}

bool adds_operand(const KernelCall& call) {
  return call.accumulate && (call.kernel == Kernel::kAddInto || call.kernel == Kernel::kCopy) &&
         call.inputs.size() == 1;
}

std::vector<OperandRead> Evaluation::read(const KernelCall& call) {
  std::vector<OperandRead> operands;
  for (const Operand& operand : call.inputs) operands.push_back(read(operand));
  return operands;
}

const HeldValue* Evaluation::held(const Operand& operand) {
  int64_t begin = 0;
  return slot(operand.slot).find(operand.offset, operand.offset + span_bytes(operand), begin);
}

OperandRead Evaluation::read(const Operand& operand) {
  OperandRead result;
  View& view = result.view;
  view.dtype = operand.dtype;
  if (operand.slot == Operand::kAbsent) return result;
  const auto unknown = [&](int32_t number) {
    view.number = number;
    view.axes.clear();
    return result;
  };
  const auto misfit = [&](const std::string& why) { return unknown(unfit(why)); };
  int64_t begin = 0;
  const HeldValue* const value = slot(operand.slot).find(operand.offset, operand.offset + span_bytes(operand), begin);
  if (value == nullptr) {
    if (!is_sum(operand)) return misfit("bytes that are no value of their own");
    view.number = total(operand.slot);
    if (table_[view.number].over != Over::kUnknown) view.axes.assign(operand.shape.size(), {});
    return result;
  }
  view.number = value->number;
  const Number& number = table_[value->number];
  if (number.over == Over::kUnknown) return result;
  const int64_t size = dtype_bytes(operand.dtype);
  StridedElements elements{value->first + (operand.offset - begin) / size, operand.shape, operand.strides};
  if (value->spread.is_spread()) return read_shared(elements, *value, view);
  result.where.spread = value->spread;  // of an order: a rank's own counts, which are one device's
  std::string why = value->period > 0 ? within_period(elements, value->period) : "";
  if (why.empty())
    why = value->block > 0 ? view_between(elements, number.bytes / size, value->block, run_.samples, view)
                           : view_of(elements, number.over, number.bytes / size, run_.samples, view);
  if (!why.empty()) return value->period > 0 || value->block > 0 ? unknown(table_.unknown(why)) : misfit(why);
  through_copies(view, table_);
  return result;
}

OperandRead Evaluation::read_shared(const StridedElements& elements, const HeldValue& value, View view) {
  OperandRead result{std::move(view), {value.spread}, {value.places}, {}};
  std::string why;
  if (result.is_ordered()) {
    why = view_of_rows(elements, value, result);
    if (why.empty()) return result;
  } else {
    std::vector<int32_t> copies = table_.copies_of(value.number);
    std::erase_if(copies, [&](int32_t copy) { return copy >= run_.known; });
    result.ways = ways_to_read(elements, value, result.view.dtype, run_.samples, copies, table_, why);
    if (!result.ways.empty()) {
      result.view = result.ways.front().view;
      result.where = result.ways.front().where;
      result.places = result.ways.front().places;
      return result;
    }
  }
  result.view.number = table_.unknown(why);
  result.view.axes.clear();
  return result;
}

// Rows in the order of their experts; where a place has a part of each, in all ways in which that can be read.
std::string Evaluation::view_of_rows(const StridedElements& elements, const HeldValue& value, OperandRead& result) {
  const int64_t size = value.elements_of(table_[value.number].bytes / dtype_bytes(result.view.dtype));
  View rows = result.view;
  if (std::string why = view_of_ordered(elements, value, size, rows, result.where); !why.empty()) return why;
  std::string why;
  for (size_t choice = 0;; ++choice) {
    WayToRead way{rows, result.where, {}};
    const std::string wrong = view_of_places(elements, value, way.view, way.places, choice);
    if (choice == 0) why = wrong;
    const bool last = way.places.part < 0;
    if (wrong.empty()) through_copies(way.view, table_);
    if (wrong.empty() && last) result.view = std::move(way.view);
    else if (wrong.empty()) result.ways.push_back(std::move(way));
    if (last) break;
  }
  if (result.ways.empty()) return why;
  result.view = result.ways.front().view;
  result.places = result.ways.front().places;
  return "";
}

bool Evaluation::is_sum(const Operand& operand) const {
  return operand.slot >= 0 && run_.program->slots[static_cast<size_t>(operand.slot)].role == plan::SlotRole::kGradient;
}

// What a step has added up in a slot; of a reference, what it has added so far.
int32_t Evaluation::total(int32_t slot) {
  if (run_.index == kReferenceProgram) {
    Terms terms;
    for (const Contribution& contribution : run_.contributions)
      if (contribution.slot == slot) append_terms(contribution, -1, table_, terms);
    return total_of(std::move(terms), run_.program->slots[static_cast<size_t>(slot)].bytes, table_);
  }
  const int32_t known = run_.totals.empty() ? -1 : run_.totals[static_cast<size_t>(slot)];
  return known >= 0 ? known : table_.unknown("a sum over the step");
}

// What every piece, and of each so many places, adds alike.
View Evaluation::shared(const View& view, double places) {
  int64_t elements = 1;
  for (const ViewAxis& axis : view.axes) elements *= axis.extent;
  View all{-1, view.dtype, 0, {}};
  if (elements != 1) all.axes.push_back({elements, 1, false});
  all.number = share_of(view, elements * dtype_bytes(view.dtype), pieces() * places, table_);
  return all;
}

// A sum over samples, or of a piece, that so many places add alike: once, times their number.
View Evaluation::times(View sum, Over over, double places) {
  const Number& number = table_[sum.number];
  if (number.by == Kernel::kMul && is_whole(sum, table_))
    for (size_t i = 0; i < 2; ++i) {
      const View by = number.operands[i], other = number.operands[1 - i];
      if (!table_[by.number].constant || !table_[by.number].value || by.dtype != DType::kF32) continue;
      places *= *table_[by.number].value;
      sum.number = other.number, sum.offset = other.offset, sum.axes = other.axes;
      break;
    }
  KernelCall product;
  product.kernel = Kernel::kMul;
  product.accumulate = true;
  product.outputs.resize(1);
  product.outputs[0].dtype = sum.dtype;
  for (const ViewAxis& axis : sum.axes) product.outputs[0].shape.push_back(axis.extent);
  View factor;
  factor.number = constant_of(static_cast<float>(places), table_);
  HeldValue held;
  const RowResult result{over, -1, ""};
  const int32_t number_of_it = made(product, {std::move(sum), std::move(factor)}, result, 0, run_.samples, held);
  return repeated_rows(product.outputs[0], number_of_it, held.period);
}

void Evaluation::clear(const Operand& out) {
  const auto slot = static_cast<size_t>(out.slot);
  if (run_.totals.empty() || run_.totals[slot] < 0) return put(out, unfit("an accumulator that is cleared in between"));
  run_.totals[slot] = unfit("a sum that was cleared before");
}

void Evaluation::put(const Operand& out, int32_t number, HeldValue value) {
  value.end = out.offset + span_bytes(out);
  if (is_sum(out)) {  // to which others have added
    View replaced;
    replaced.number = unfit("an accumulator that is written over");
    run_.contributions.push_back({out.slot, out.offset, value.end, std::move(replaced), call_});
    return;
  }
  value.number = number;
  slot(out.slot).put(out.offset, value);
}

void Evaluation::add(const Operand& out, View view, int32_t share_over) {
  if (!is_sum(out))  // what was there is there no more
    return put(out,
               out.slot < 0 ? table_.unknown("a sum in the workspace") : unfit("a value that is added to in place"));
  Contribution contribution{out.slot, out.offset, out.offset + span_bytes(out), std::move(view), call_};
  View& added = contribution.view;
  const auto refuse = [&](const std::string& why) {
    added = {};
    added.number = unfit(why);
  };
  const Over over = table_[added.number].over;
  // Rule 8 adds up what a slot says is shares, over places as well as samples.
  const plan::Slot& sum = run_.program->slots[static_cast<size_t>(out.slot)];
  const int32_t shares = sum.spread == plan::Spread::kShare ? sum.cut : -1;
  if (over != Over::kUnknown && share_over >= 0 && shares != share_over) {
    refuse("a place's share of a sum, added to one over samples alone");
    run_.contributions.push_back(std::move(contribution));
    return;
  }
  const bool alike = shares >= 0 && share_over < 0 && static_cast<size_t>(shares) < run_.places.size();
  const double places = alike ? static_cast<double>(run_.places[static_cast<size_t>(shares)]) : 1;
  if (over == Over::kEach) refuse("an accumulator of values that are separate for each sample");
  if (over == Over::kNothing || over == Over::kSum || over == Over::kPiece) {
    auto axes = in_memory_order(out, added.axes);
    if (axes) added.axes = std::move(*axes);
    else refuse("an accumulator that is added to in parts");
    if (over == Over::kNothing && axes) added = shared(added, places);
    else if (alike && axes) added = times(std::move(added), over, places);
  }
  run_.contributions.push_back(std::move(contribution));
}

void Evaluation::keep(const KernelCall& call, const Operand& out, int32_t number, const HeldValue& held) {
  if (!call.accumulate) return put(out, number, held);
  View added = repeated_rows(out, number, held.period);
  if (table_[number].over != Over::kUnknown) through_copies(added, table_);  // a sum over one place is a copy
  add_alike(out, std::move(added));
}

void Evaluation::add_alike(const Operand& out, View view) {
  if (table_[view.number].over != Over::kUnknown && is_sum(out))
    if (auto all = alike_at_all_places(run_, out, view)) return add(all->first, std::move(all->second));
  add(out, std::move(view));
}

std::vector<RowResult> Evaluation::apply(const KernelCall& call, std::vector<View>& operands, int64_t samples,
                                         int32_t& none) {
  none = unknown_among(operands, table_);
  if (none >= 0) return {};
  if (call.kernel == Kernel::kCopy && call.inputs[0].shape != call.outputs[0].shape) {
    none = unfit("a copy of another shape");
    return {};
  }
  const Row* const row = find_row(call.kernel.id());
  if (row == nullptr && run_.by_pieces) return of_piece();
  if (row == nullptr) {
    none = table_.unknown("kernel " + call.kernel.text() + " has no row");
    return {};
  }
  for (const auto& attr : call.attrs)
    if (const auto* shape = std::get_if<std::vector<int64_t>>(&attr.value);
        attr.name == "shape" && shape != nullptr && *shape != call.outputs[0].shape)
      none = unfit("a shape that is not its result's");
  if (call.kernel == Kernel::kDropout && samples == plan::Reference::kSamples) take_mask(operands);
  std::vector<View> as_read;
  if (run_.by_pieces) as_read = operands;
  std::vector<RowResult> results = apply_row(*row, call, table_, samples, operands);
  if (is_unknown(results[0]) && row->form == RowForm::kAdd && take_shares(call, pieces(), operands, table_))
    results = apply_row(*row, call, table_, samples, operands);
  if (run_.whole && std::any_of(results.begin(), results.end(), is_unknown))
    results = apply_to_totals(*row, call, operands, samples, std::move(results));
  if (run_.whole && !run_.by_pieces && results[0].mixes) results = {{}};
  if (std::all_of(results.begin(), results.end(), [](const RowResult& r) { return r.over == Over::kNothing; }) &&
      take_sums_of_totals(*row, call, table_, samples, operands))
    results = {{Over::kSum, -1, "", false, false, true}};
  if (run_.by_pieces && is_of_piece(as_read, results, table_)) {
    operands = as_read;
    return of_piece();
  }
  for (const RowResult& result : results)
    if (none < 0 && result.over == Over::kUnknown)
      none = run_.whole && result.numbers_for_each ? table_.unknown(result.why) : unfit(result.why);
  return results;
}

// What a mask of the model is drawn by is not the reference's to say: each sample has its own, and what has no samples
// has one.
void Evaluation::take_mask(std::vector<View>& operands) {
  if (operands.size() < 3 || operands[0].number < 0) return;
  const int64_t zero = 0;
  const std::string bytes(reinterpret_cast<const char*>(&zero), sizeof zero);
  operands[2].number = table_[operands[0].number].over == Over::kEach
                           ? sample_offset(table_)
                           : table_.constant("constant " + plan::sha256(bytes), sizeof zero);
}

double Evaluation::pieces() const {
  return run_.samples == plan::Reference::kSamples
             ? 1
             : static_cast<double>(run_.batch) / static_cast<double>(run_.samples);
}

// Where a sum over the samples of a run that is the step is no operand: with the step's sum in its place.
std::vector<RowResult> Evaluation::apply_to_totals(const Row& row, const KernelCall& call, std::vector<View>& operands,
                                                   int64_t samples, std::vector<RowResult> results) {
  const auto sum = [&](const View& view) { return view.number >= 0 && table_[view.number].over == Over::kSum; };
  const auto early = [&](const View& view) { return sum(view) && !table_[view.number].late; };
  const auto divisor = [&](const View& view) { return sum(view) && &view == &operands[1]; };
  // A sum by a total is the sum of its addends by that total, as pieces add it up: they have those before the first
  // forward of which no parameter is a part.
  const auto with_totals = [&](const auto& is) {
    std::vector<View> by_total = operands;
    for (size_t i = 0; i < operands.size(); ++i)
      if (is(operands[i])) take_total(by_total[i], table_);
    std::vector<RowResult> made = apply_row(row, call, table_, samples, by_total);
    if (std::any_of(made.begin(), made.end(), is_unknown)) return false;
    operands = std::move(by_total);
    results = std::move(made);
    return true;
  };
  (call.kernel == Kernel::kDiv && with_totals(divisor)) || with_totals(early) || with_totals(sum);
  return results;
}

int32_t Evaluation::made(const KernelCall& call, std::vector<View> operands, const RowResult& result, size_t i,
                         int64_t samples, HeldValue& held) {
  if (KernelCall without = call; call.kernel == Kernel::kSum) {
    RowResult of_it = result;
    if (leave_out_places(without, operands, of_it)) return made(without, std::move(operands), of_it, i, samples, held);
  }
  const Operand& out = call.outputs[i];
  const bool in_rows = call.accumulate || out.strides == plan::contiguous_strides(out.shape);
  if (!in_rows && !is_dense(out)) return table_.unknown("a result of " + call.kernel.text() + " with gaps");
  std::vector<int64_t> shape = out.shape;
  if (result.over == Over::kEach) {
    if (result.sample_axis < 0 || static_cast<size_t>(result.sample_axis) >= shape.size())
      return unfit("a result without samples");
    const auto axis = static_cast<size_t>(result.sample_axis);
    if (shape[axis] % samples != 0) return unfit("a result of other samples than its operands");
    shape[axis] /= samples;
    const int64_t each = product(shape, 0), block = in_rows ? product(shape, axis) : shape[axis] * out.strides[axis];
    if (block != each && !in_rows && out.shape[axis] > 1)
      return table_.unknown("samples that are not the outermost axis of what " + call.kernel.text() + " makes");
    if (in_rows && block != each && samples > 1) held.block = block;
  } else if ((result.over == Over::kNothing || result.over == Over::kSum) && in_rows) {
    const size_t repeated = take_repetitions(call, operands);
    std::fill_n(shape.begin(), repeated, 1);
    if (repeated > 0) held.period = product(shape, 0);
  }
  const bool may_repeat = result.over == Over::kEach || result.over == Over::kPiece;
  if (std::vector<View> once = operands; may_repeat && in_rows && !call.accumulate) {
    const int32_t axis = result.over == Over::kEach ? result.sample_axis : -1;
    const std::vector<bool> repeated = take_repeated_axes(call, axis, once);
    if (!repeated.empty()) return repetition(call, std::move(once), result, samples, shape, repeated);
  }
  const std::vector<View> joined = call.kernel == Kernel::kCat && in_rows ? operands : std::vector<View>();
  const bool of_piece = result.over == Over::kPiece;
  std::string what = attrs_text(call, of_piece) + "\n" + (of_piece ? "of " + std::to_string(samples) + " " : "") +
                     std::to_string(i) + " " + std::string(dtype_name(out.dtype));
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const bool of_samples = result.over == Over::kEach && static_cast<int32_t>(axis) == result.sample_axis;
    what += (of_samples ? ",n" : ",") + std::to_string(shape[axis]);
    // Its elements are counted in the order of their memory, so how it lies there is a part of what it is.
    if (!in_rows) what += of_samples || shape[axis] == 1 ? "*" : "*" + std::to_string(out.strides[axis]);
  }
  NumberTable::Made made;
  // Rules on copies and sums are about results whose elements lie in the order of their operands.
  made.by = {in_rows ? Maker::How::kCall : Maker::How::kInAnotherOrder, call.kernel.id()};
  made.what = std::move(what);
  made.operands = std::move(operands);
  made.over = result.over;
  made.bytes = product(shape, 0) * dtype_bytes(out.dtype);
  made.program = run_.index;
  made.call = call_;
  if (has_known_values(out.dtype) && in_rows)
    take_reciprocal(made, table_);  // first: so a quotient of constants is the product that piperc folds
  if (out.dtype == DType::kF32 && in_rows) {
    if (const auto constant = folded(made, table_)) {
      run_.made.push_back(*constant);
      return *constant;
    }
    if (const int32_t factor = factor_beside_one(made, table_); factor >= 0) {
      run_.made.push_back(factor);
      return factor;
    }
  }
  if (!take_apart(made, table_, run_.made)) return table_.unknown("a sum of too many values");
  run_.made.push_back(table_.result(std::move(made)));
  if (!joined.empty() && run_.made.back() >= run_.known)
    if (const auto sum = sum_of_pieces(call, joined, result, samples)) return *sum;
  if (result.total) {
    View view = as_rows(out, run_.made.back());
    take_total(view, table_);
    return view.number;
  }
  return run_.made.back();
}

// What joins the gradients of slices that together are all of a value, as the sum of those gradients, each with zeros
// elsewhere: x + 0 is x. Autodiff joins them where nothing but the slices reads the value, and a conversion may leave
// it no other reader. Followed where the model makes each of the addends.
std::optional<int32_t> Evaluation::sum_of_pieces(const KernelCall& call, const std::vector<View>& operands,
                                                 const RowResult& result, int64_t samples) {
  const auto* const dim = plan::find_attr<int64_t>(call, "dim");
  if (dim == nullptr || *dim < 0 || call.accumulate || call.outputs.size() != 1) return std::nullopt;
  const auto axis = static_cast<size_t>(*dim);
  NumberTable::Made sum;
  sum.by = Kernel::kAdd;
  sum.over = result.over;
  sum.program = run_.index;
  sum.call = call_;
  const size_t before = run_.made.size();
  int64_t start = 0;
  bool known = axis < call.outputs[0].shape.size();
  for (size_t i = 0; known && i < operands.size(); ++i) {
    const int64_t end = start + call.inputs[i].shape[axis];
    KernelCall piece;
    piece.kernel = Kernel::kSliceBackward;
    piece.inputs = {call.inputs[i]};
    piece.outputs = call.outputs;
    piece.attrs = {
        {"shape", call.outputs[0].shape}, {"dim", *dim}, {"start", start}, {"end", end}, {"step", int64_t{1}}};
    std::vector<View> read = {operands[i]};
    int32_t none = -1;
    const std::vector<RowResult> rows = apply(piece, read, samples, none);
    known = none < 0 && rows[0].over == result.over && rows[0].sample_axis == result.sample_axis;
    if (!known) break;
    HeldValue held;
    const int32_t addend = made(piece, std::move(read), rows[0], 0, samples, held);
    known = addend < run_.known && table_[addend].addends.empty();
    sum.addends.push_back(addend);
    start = end;
  }
  if (!known || start != call.outputs[0].shape[axis] || sum.addends.size() < 2) {
    run_.made.resize(before);
    return std::nullopt;
  }
  sum.bytes = table_[sum.addends[0]].bytes;
  std::sort(sum.addends.begin(), sum.addends.end());
  run_.made.push_back(table_.result(std::move(sum)));
  return run_.made.back();
}

// A result that is the same along some axes, as a copy of one that has one place there. `shape`: of one sample.
int32_t Evaluation::repetition(const KernelCall& call, std::vector<View> operands, const RowResult& result,
                               int64_t samples, const std::vector<int64_t>& shape, const std::vector<bool>& repeated) {
  KernelCall one = call;
  std::vector<int64_t> place = shape;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (repeated[axis]) one.outputs[0].shape[axis] = place[axis] = 1;
  one.outputs[0].strides = plan::contiguous_strides(one.outputs[0].shape);
  HeldValue held;
  View view;
  view.number = made(one, std::move(operands), result, 0, samples, held);
  if (table_[view.number].over == Over::kUnknown) return view.number;
  view.dtype = call.outputs[0].dtype;
  const std::vector<int64_t> strides = plan::contiguous_strides(place);
  for (size_t axis = 0; axis < shape.size(); ++axis)
    view.axes.push_back(
        {shape[axis], place[axis] == 1 ? 0 : strides[axis], static_cast<int32_t>(axis) == result.sample_axis});
  return copy_of(std::move(view), table_);
}

}  // namespace piper::verify
