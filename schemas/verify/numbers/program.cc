#include "schemas/verify/numbers/program.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "schemas/plan/convert_elements.h"
#include "schemas/plan/dtype.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/names.h"
#include "schemas/plan/signature.h"
#include "schemas/verify/numbers/constants.h"
#include "schemas/verify/numbers/copies.h"
#include "schemas/verify/numbers/experts.h"
#include "schemas/verify/numbers/linear.h"
#include "schemas/verify/numbers/memory_order.h"
#include "schemas/verify/numbers/ordered_rows.h"
#include "schemas/verify/numbers/pieces.h"
#include "schemas/verify/numbers/repetitions.h"
#include "schemas/verify/numbers/rows.h"
#include "schemas/verify/numbers/sums.h"
#include "schemas/verify/numbers/ways_to_read.h"

namespace piper::verify {

using plan::KernelCall;
using plan::Operand;

namespace {

// Attributes that repeat extents of the call: they have the number of samples in them.
bool is_of_samples(const plan::Attr& attr) { return attr.name == "shape" || attr.name == "batch"; }

std::string attrs_text(const KernelCall& call, bool with_samples = false) {
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
    if (with_samples || !is_of_samples(attr)) text += attr.name + "=" + std::visit(Text(), attr.value) + ";";
  return text;
}

int64_t product(const std::vector<int64_t>& extents, size_t from) {
  return std::accumulate(extents.begin() + static_cast<std::ptrdiff_t>(from), extents.end(), int64_t{1},
                         std::multiplies<>());
}

class Evaluation {
 public:
  Evaluation(NumberedProgram& run, NumberTable& table) : run_(run), table_(table), samples_(run.samples) {}

  void make() {
    for (call_ = 0; call_ < run_.program->calls.size(); ++call_) visit(run_.program->calls[call_]);
  }

 private:
  HeldValues& held(int32_t slot) { return slot < 0 ? workspace_ : run_.slots[static_cast<size_t>(slot)]; }

  View read(const Operand& operand) {
    View view;
    view.dtype = operand.dtype;
    if (operand.slot == Operand::kAbsent) return view;
    const auto unknown = [&](int32_t number) {
      view.number = number;
      view.axes.clear();
      return view;
    };
    const auto unfit = [&](const std::string& why) {
      return unknown(table_.unfit(why, run_.index, static_cast<int32_t>(call_)));
    };
    int64_t begin = 0;
    const HeldValue* const value = held(operand.slot).find(operand.offset, operand.offset + span_bytes(operand), begin);
    if (value == nullptr) {
      if (!is_sum(operand)) return unfit("bytes that are no value of their own");
      view.number = total(operand.slot);
      if (table_[view.number].over != Over::kUnknown) view.axes.assign(operand.shape.size(), {});
      return view;
    }
    view.number = value->number;
    const Number& number = table_[value->number];
    if (number.over == Over::kUnknown) return view;
    const int64_t size = dtype_bytes(operand.dtype);
    StridedElements elements{value->first + (operand.offset - begin) / size, operand.shape, operand.strides};
    if (value->spread.is_spread()) return read_spread(elements, *value, view);
    if (value->spread.order.kind != RowOrder::Kind::kNone) {  // a rank's own counts, which are one device's
      where_.resize(num_read_ + 1);
      where_.back().spread = value->spread;
      ordered_ = true;
    }
    std::string why = value->period > 0 ? within_period(elements, value->period) : "";
    if (why.empty())
      why = value->block > 0 ? view_between(elements, number.bytes / size, value->block, run_.samples, view)
                             : view_of(elements, number.over, number.bytes / size, run_.samples, view);
    if (!why.empty()) return value->period > 0 || value->block > 0 ? unknown(table_.unknown(why)) : unfit(why);
    through_copies(view, table_);
    return view;
  }

  // Of a value that ranks share: which axes are shared stands in `where_`, further ways to read it in `ways_`.
  View read_spread(const StridedElements& elements, const HeldValue& value, View view) {
    where_.resize(num_read_ + 1);
    ways_.resize(num_read_ + 1);
    spread_ = true;
    std::string why;
    if (value.spread.order.kind != RowOrder::Kind::kNone) {
      ordered_ = true;
      const int64_t size = table_[value.number].bytes / dtype_bytes(view.dtype);
      why = view_of_ordered(elements, value, size, view, where_.back());
      if (why.empty()) {
        through_copies(view, table_);
        return view;
      }
    } else {
      std::vector<int32_t> copies = table_.copies_of(value.number);
      std::erase_if(copies, [&](int32_t copy) { return copy >= run_.known; });
      ways_.back() = ways_to_read(elements, value, view.dtype, run_.samples, copies, table_, why);
      if (!ways_.back().empty()) {
        where_.back() = ways_.back().front().where;
        return ways_.back().front().view;
      }
    }
    view.number = table_.unknown(why);
    view.axes.clear();
    return view;
  }

  bool is_sum(const Operand& operand) const {
    return operand.slot >= 0 &&
           run_.program->slots[static_cast<size_t>(operand.slot)].role == plan::SlotRole::kGradient;
  }
  // What a step has added up in a slot; of a reference, what it has added so far.
  int32_t total(int32_t slot) {
    if (run_.index == kReferenceProgram) {
      Terms terms;
      for (const Contribution& contribution : run_.contributions)
        if (contribution.slot == slot) append_terms(contribution, -1, table_, terms);
      return total_of(std::move(terms), run_.program->slots[static_cast<size_t>(slot)].bytes, table_);
    }
    const int32_t known = run_.totals.empty() ? -1 : run_.totals[static_cast<size_t>(slot)];
    return known >= 0 ? known : table_.unknown("a sum over the step");
  }

  // What a fill makes is the constant of that one element, where bytes of the type are known here.
  int32_t filled(const KernelCall& fill) {
    const DType dtype = fill.outputs[0].dtype;
    for (const auto& attr : fill.attrs) {
      const auto* const number = std::get_if<double>(&attr.value);
      if (attr.name != "value" || number == nullptr || !can_convert_elements(DType::kF32, dtype)) continue;
      const auto value = static_cast<float>(*number);
      if (dtype == DType::kF32) return constant_of(value, table_);
      char bytes[sizeof value];
      convert_elements(DType::kF32, &value, dtype, bytes, 1);
      const auto size = static_cast<size_t>(dtype_bytes(dtype));
      return table_.constant("constant " + plan::sha256({bytes, size}), dtype_bytes(dtype));
    }
    const std::string what = attrs_text(fill) + " " + std::string(dtype_name(dtype));
    return table_.constant("fill " + what, dtype_bytes(dtype));
  }

  // `value`: how its elements lie there.
  void put(const Operand& out, int32_t number, HeldValue value = {}) {
    value.end = out.offset + span_bytes(out);
    value.number = number;
    held(out.slot).put(out.offset, std::move(value));
  }

  void add(const Operand& out, View view) {
    Contribution contribution{out.slot, out.offset, out.offset + span_bytes(out), std::move(view),
                              static_cast<int32_t>(call_)};
    View& added = contribution.view;
    const auto refuse = [&](const std::string& why) {
      added = {};
      added.number = unfit(why);
    };
    const Over over = table_[added.number].over;
    if (out.slot < 0) {
      put(out, table_.unknown("a sum in the workspace"));
      return;
    }
    if (over == Over::kEach) refuse("an accumulator of what stands apart for each sample");
    if (over == Over::kNothing) refuse("an accumulator of what no sample is in");
    if (over == Over::kSum || over == Over::kPiece) {
      auto axes = in_memory_order(out, added.axes);
      if (axes) added.axes = std::move(*axes);
      else refuse("an accumulator that is added to in parts");
    }
    run_.contributions.push_back(std::move(contribution));
  }

  void visit(const KernelCall& call) {
    std::vector<View> operands;
    spread_ = ordered_ = false;
    where_.clear();
    ways_.clear();
    for (num_read_ = 0; num_read_ < call.inputs.size(); ++num_read_) operands.push_back(read(call.inputs[num_read_]));
    where_.resize(operands.size());
    if (run_.by_pieces && !spread_ && visit_order(call, operands)) return;
    if (ordered_ && visit_ordered(call, operands)) return;
    if (spread_) {
      if (const auto wider = with_axis(call, operands)) visit(*wider);
      else visit_spread(call, std::move(operands));
      return;
    }
    if (call.accumulate && (call.kernel == "add_into" || call.kernel == "copy") && operands.size() == 1 &&
        call.outputs.size() == 1 && call.inputs[0].shape == call.outputs[0].shape) {
      add(call.outputs[0], std::move(operands[0]));
      return;
    }
    if (call.kernel == "fill" && !call.accumulate && call.outputs.size() == 1) {
      const Operand& out = call.outputs[0];
      const bool dense = is_dense(out) || out.strides == plan::contiguous_strides(out.shape);
      HeldValue value;
      value.period = dense ? 1 : 0;
      put(out, dense ? filled(call) : table_.unknown("a result of fill with gaps"), value);
      return;
    }
    if (is_mean_of_samples(call, operands)) {
      mean_of_samples(call, std::move(operands));
      return;
    }
    int32_t none = -1;  // the number of all results, where nothing is known of them
    const std::vector<RowResult> results = apply(call, operands, none);
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      const Operand& out = call.outputs[i];
      if (out.slot == Operand::kAbsent) continue;
      HeldValue held;
      const int32_t number = none >= 0 ? none : made(call, operands, results[std::min(i, results.size() - 1)], i, held);
      keep(call, out, number, held);
    }
    for (size_t i = 0; i < call.inputs.size(); ++i)
      if (is_state(call.inputs[i])) change_state(call, operands, i);
  }

  // A copy whose operand shows no axis of experts, with one of one place.
  std::optional<KernelCall> with_axis(const KernelCall& call, const std::vector<View>& operands) {
    if (operands.size() != 1 || !ways_[0].empty()) return std::nullopt;
    const Operand& in = call.inputs[0];
    int64_t begin = 0;
    const HeldValue* const value = held(in.slot).find(in.offset, in.offset + span_bytes(in), begin);
    // Once: it then has such an axis.
    const bool has_one = std::count(in.shape.begin(), in.shape.end(), 1) > 0;
    return value == nullptr || has_one ? std::nullopt : with_axis_of_experts(call, *value);
  }

  static int32_t unknown_among(const std::vector<View>& operands, const NumberTable& table) {
    for (const View& view : operands)
      if (view.number >= 0 && table[view.number].over == Over::kUnknown) return view.number;
    return -1;
  }

  // An order of rows in several segments, as that of one device (ordered_rows.h). False: the call makes none.
  bool visit_order(const KernelCall& call, const std::vector<View>& operands) {
    std::optional<WholeOrder> whole = whole_order(call);
    if (!whole) return false;
    int32_t unknown = unknown_among(operands, table_);
    if (unknown < 0 && !whole->why.empty()) unknown = whole->wrong ? unfit(whole->why) : table_.unknown(whole->why);
    const auto result = [&](size_t i, HeldValue& held) {
      return unknown >= 0 ? unknown : made(whole->call, operands, {Over::kPiece, -1, ""}, i, held);
    };
    enum Result : size_t { kOrder, kPositions, kCounts };
    HeldValue none;
    whole->order.counts = result(kCounts, none);
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (call.outputs[i].slot == Operand::kAbsent) continue;
      HeldValue held;
      const int32_t number = result(i, held);
      if (i <= kCounts && unknown < 0) {
        held.spread.order = whole->order;
        held.spread.order.kind = i == kOrder       ? RowOrder::Kind::kRows
                                 : i == kPositions ? RowOrder::Kind::kPositions
                                                   : RowOrder::Kind::kCounts;
        // Counts lie as those of one device.
        if (i != kCounts) held.spread.devices = whole->order.segments;
      }
      put(call.outputs[i], number, held);
    }
    return true;
  }

  // A call on what belongs to an order of rows. False: it is one that one device makes as it is.
  bool visit_ordered(const KernelCall& call, const std::vector<View>& operands) {
    int32_t none = unknown_among(operands, table_);
    OrderedCall ordered;
    if (none < 0) {
      ordered = ordered_call(call, operands, where_, table_);
      if (ordered.plain) return false;
      const WholeCall& whole = ordered.whole;
      if (!whole.why.empty()) none = ordered.wrong ? unfit(whole.why) : table_.unknown(whole.why);
    }
    const WholeCall& whole = ordered.whole;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      const Operand& out = call.outputs[i];
      if (out.slot == Operand::kAbsent) continue;
      HeldValue held;
      int32_t number = none;
      if (number < 0) {
        number = made(whole.call, whole.operands, {Over::kPiece, -1, ""}, i, held);
        held.spread = whole.spread;
        const std::string why = whole.part < 0 || call.accumulate ? "" : lay_out(whole, out, i, -1, samples_, held);
        if (!why.empty()) number = table_.unknown(why);
      }
      if (table_[number].over == Over::kUnknown) held = {};
      if (call.accumulate) add_spread(whole, out, as_rows(none < 0 ? whole.call.outputs[i] : out, number));
      else put(out, number, held);
    }
    return true;
  }

  // A call on what ranks share, as the call that one device makes (experts.h).
  struct SpreadResults {
    WholeCall whole;
    int32_t none = -1;             // the number of all results, where nothing is known of them
    std::vector<int32_t> numbers;  // [output]
    std::vector<HeldValue> held;   // [output] how they lie in their memory
  };
  static bool adds_operand(const KernelCall& call) {
    return call.accumulate && (call.kernel == "add_into" || call.kernel == "copy") && call.inputs.size() == 1;
  }
  SpreadResults evaluate_spread(const KernelCall& call, const std::vector<View>& operands) {
    SpreadResults made_of;
    WholeCall& whole = made_of.whole;
    int32_t& none = made_of.none = unknown_among(operands, table_);
    if (none < 0) {
      whole = whole_call(call, operands, where_, table_, run_.samples);
      if (!whole.why.empty()) none = table_.unknown(whole.why);
    }
    if (none >= 0 || adds_operand(call)) return made_of;
    samples_ = whole.samples;
    const std::vector<RowResult> results = apply(whole.call, whole.operands, none);
    if (none < 0 && results[0].over == Over::kPiece && !whole.spread.summed)
      none = table_.unknown("experts of samples that are read together");
    made_of.held.resize(call.outputs.size());
    for (size_t i = 0; i < call.outputs.size() && none < 0; ++i) {
      const Operand& out = call.outputs[i];
      made_of.numbers.push_back(-1);
      if (out.slot == Operand::kAbsent) continue;
      HeldValue& held = made_of.held[i];
      const RowResult& result = results[std::min(i, results.size() - 1)];
      int32_t& number = made_of.numbers.back() = made(whole.call, whole.operands, result, i, held);
      const bool dense = is_dense(out) || out.strides == plan::contiguous_strides(out.shape);
      const int32_t axis = result.over == Over::kEach ? result.sample_axis : -1;
      std::string why = dense ? "" : "a result of " + call.kernel + " with gaps";
      if (why.empty() && !call.accumulate) why = lay_out(whole, out, i, axis, samples_, held);
      if (!why.empty()) number = table_.unknown(why);
      if (table_[number].over == Over::kUnknown) held = {};
    }
    samples_ = run_.samples;
    return made_of;
  }
  bool is_of_reference(const SpreadResults& made_of) const {
    return made_of.none < 0 &&
           std::all_of(
               made_of.numbers.begin(), made_of.numbers.end(), [&](int32_t number) { return number < run_.known; });
  }

  // Of several ways to read its operands, by the first that makes it a call of the reference (ways_to_read.h).
  void visit_spread(const KernelCall& call, std::vector<View> operands) {
    constexpr int kMostTried = 32;
    ways_.resize(operands.size());
    const size_t before = run_.made.size();
    SpreadResults results = evaluate_spread(call, operands);
    std::vector<int32_t> numbers(run_.made.begin() + static_cast<std::ptrdiff_t>(before), run_.made.end());
    std::vector<size_t> chosen(operands.size());
    for (int tried = 0; tried < kMostTried && !is_of_reference(results); ++tried) {
      size_t next = 0;  // the next choice of all
      while (next < chosen.size() && chosen[next] + 1 >= ways_[next].size()) ++next;
      if (next == chosen.size()) break;
      ++chosen[next];
      std::fill_n(chosen.begin(), next, size_t{0});
      for (size_t i = 0; i <= next; ++i)
        if (!ways_[i].empty()) operands[i] = ways_[i][chosen[i]].view, where_[i] = ways_[i][chosen[i]].where;
      run_.made.resize(before);
      SpreadResults other = evaluate_spread(call, operands);
      if (other.none >= 0 || (results.none < 0 && !is_of_reference(other))) continue;
      numbers.assign(run_.made.begin() + static_cast<std::ptrdiff_t>(before), run_.made.end());
      results = std::move(other);
    }
    run_.made.resize(before);
    run_.made.insert(run_.made.end(), numbers.begin(), numbers.end());
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      const Operand& out = call.outputs[i];
      if (out.slot == Operand::kAbsent) continue;
      const int32_t number = results.none >= 0 || adds_operand(call) ? results.none : results.numbers[i];
      const WholeCall& whole = results.whole;
      if (number < 0) add_spread(whole, out, whole.operands[0]);
      else if (call.accumulate)
        add_spread(whole, out, as_rows(whole.call.outputs.empty() ? out : whole.call.outputs[i], number));
      else put(out, number, results.none >= 0 ? HeldValue() : results.held[i]);
    }
  }

  // What a rank adds to its part of a gradient is its part of what one device adds to all of it.
  void add_spread(const WholeCall& whole, const Operand& out, View view) {
    const auto refuse = [&](const std::string& why) {
      view = {};
      view.number = table_.unknown(why);
      add(out, view);
    };
    if (table_[view.number].over == Over::kUnknown) return add(out, std::move(view));
    if (whole.spread.share) return refuse("a rank's share of a sum over experts, as a gradient");
    if (whole.part < 0) return add(out, std::move(view));
    if (out.slot < 0 || out.offset != 0 || !is_dense(out) || view.axes.size() != out.shape.size() ||
        span_bytes(out) != run_.program->slots[static_cast<size_t>(out.slot)].bytes)
      return refuse("a gradient of a part of a rank's experts");
    // The ranks' parts of a gradient stand behind one another, whatever stands in front of the experts in the value.
    const int64_t devices = whole.spread.devices;
    ViewAxis& experts = view.axes[static_cast<size_t>(whole.part)];
    experts.extent /= devices;
    view.axes.insert(view.axes.begin(), {devices, experts.extent * experts.stride, false});
    if (view.axes[static_cast<size_t>(whole.part) + 1].extent == 1)
      view.axes[static_cast<size_t>(whole.part) + 1].stride = 0;
    Operand all = out;
    all.shape.insert(all.shape.begin(), devices);
    all.strides.insert(all.strides.begin(), plan::elements(out));
    add(all, std::move(view));
  }

  void keep(const KernelCall& call, const Operand& out, int32_t number, const HeldValue& held) {
    if (call.accumulate) add(out, as_rows(out, number));
    else put(out, number, held);
  }
  // All of a value of the output's shape, which has no samples of its own.
  static View as_rows(const Operand& out, int32_t number) {
    View view;
    view.number = number;
    view.dtype = out.dtype;
    const auto strides = plan::contiguous_strides(out.shape);
    for (size_t axis = 0; axis < out.shape.size(); ++axis)
      view.axes.push_back({out.shape[axis], out.shape[axis] == 1 ? 0 : strides[axis], false});
    return view;
  }

  // A mean over the samples of a piece, of which it is known how many there are (constants.h).
  bool is_mean_of_samples(const KernelCall& call, const std::vector<View>& operands) const {
    if (call.kernel != "mean" || run_.samples == plan::Reference::kSamples || operands.size() != 1) return false;
    const Operand& out = call.outputs[0];
    if (out.dtype != DType::kF32 || out.strides != plan::contiguous_strides(out.shape)) return false;
    std::vector<View> read = operands;
    return read[0].number >= 0 && table_[read[0].number].over == Over::kEach &&
           apply_row(*find_row("sum"), call, table_, run_.samples, read)[0].over == Over::kSum;
  }
  void mean_of_samples(const KernelCall& call, std::vector<View> operands) {
    const Operand& out = call.outputs[0];
    const int64_t count = plan::elements(call.inputs[0]) / std::max<int64_t>(plan::elements(out), 1);
    KernelCall sum = call, product;
    sum.kernel = "sum";
    product.kernel = "mul";
    product.outputs = call.outputs;
    HeldValue held;
    const RowResult over_samples{Over::kSum, -1, ""};
    View factor;
    factor.number = constant_of(1 / static_cast<float>(count), table_);
    View added = as_rows(out, made(sum, std::move(operands), over_samples, 0, held));
    keep(call, out, made(product, {std::move(added), std::move(factor)}, over_samples, 0, held), held);
  }

  bool is_state(const Operand& operand) const {
    return operand.slot >= 0 && run_.program->slots[static_cast<size_t>(operand.slot)].role == plan::SlotRole::kState;
  }
  // A statistic that a call reads and writes in place is another one behind it.
  void change_state(const KernelCall& call, const std::vector<View>& operands, size_t i) {
    const plan::KernelInfo* const info = plan::find_kernel(call.kernel);
    if (info == nullptr) return;
    const auto& signature = plan::signature_of(*info).inputs;
    if (i >= signature.size() || !signature[i].in_place) return;
    NumberTable::Made made;
    made.kernel = call.kernel + " in place";
    made.what = attrs_text(call, true) + " " + std::to_string(i) + " of " + std::to_string(run_.samples);
    made.operands = operands;
    made.over = Over::kPiece;
    made.bytes = plan::elements(call.inputs[i]) * dtype_bytes(call.inputs[i].dtype);
    made.program = run_.index;
    made.call = static_cast<int32_t>(call_);
    put(call.inputs[i], run_.by_pieces ? table_.result(std::move(made)) : table_.unknown("running statistics"));
  }

  std::vector<RowResult> apply(const KernelCall& call, std::vector<View>& operands, int32_t& none) {
    none = unknown_among(operands, table_);
    if (none >= 0) return {};
    if (call.kernel == "copy" && call.inputs[0].shape != call.outputs[0].shape) {
      none = unfit("a copy of another shape");
      return {};
    }
    const Row* const row = find_row(call.kernel);
    if (row == nullptr && run_.by_pieces) return of_piece();
    if (row == nullptr) {
      none = table_.unknown("kernel " + call.kernel + " has no row");
      return {};
    }
    for (const auto& attr : call.attrs)
      if (const auto* shape = std::get_if<std::vector<int64_t>>(&attr.value);
          attr.name == "shape" && shape != nullptr && *shape != call.outputs[0].shape)
        none = unfit("a shape that is not its result's");
    std::vector<View> as_read;
    if (run_.by_pieces) as_read = operands;
    std::vector<RowResult> results = apply_row(*row, call, table_, samples_, operands);
    if (run_.whole && std::any_of(results.begin(), results.end(), is_unknown)) {
      for (View& view : operands)
        if (view.number >= 0) take_total(view, table_);
      results = apply_row(*row, call, table_, samples_, operands);
    }
    if (run_.by_pieces && is_of_piece(as_read, results, table_)) {
      operands = as_read;
      return of_piece();
    }
    for (const RowResult& result : results)
      if (none < 0 && result.over == Over::kUnknown) none = unfit(result.why);
    return results;
  }
  static std::vector<RowResult> of_piece() { return {{Over::kPiece, -1, ""}}; }
  static bool is_unknown(const RowResult& result) { return result.over == Over::kUnknown; }
  int32_t unfit(const std::string& why) { return table_.unfit(why, run_.index, static_cast<int32_t>(call_)); }

  // The number of output `i`; `held`: how it lies in its memory.
  int32_t made(const KernelCall& call, std::vector<View> operands, const RowResult& result, size_t i, HeldValue& held) {
    const Operand& out = call.outputs[i];
    const bool in_rows = call.accumulate || out.strides == plan::contiguous_strides(out.shape);
    if (!in_rows && !is_dense(out)) return table_.unknown("a result of " + call.kernel + " with gaps");
    std::vector<int64_t> shape = out.shape;
    if (result.over == Over::kEach) {
      if (result.sample_axis < 0 || static_cast<size_t>(result.sample_axis) >= shape.size())
        return unfit("a result without samples");
      const auto axis = static_cast<size_t>(result.sample_axis);
      if (shape[axis] % samples_ != 0) return unfit("a result of other samples than its operands");
      shape[axis] /= samples_;
      const int64_t each = product(shape, 0), block = in_rows ? product(shape, axis) : shape[axis] * out.strides[axis];
      if (block != each && !in_rows && out.shape[axis] > 1)
        return table_.unknown("samples that are not the outermost axis of what " + call.kernel + " makes");
      if (in_rows && block != each && samples_ > 1) held.block = block;
    } else if (result.over == Over::kNothing && in_rows && !call.accumulate) {
      const size_t repeated = take_repetitions(call, operands);
      std::fill_n(shape.begin(), repeated, 1);
      if (repeated > 0) held.period = product(shape, 0);
    }
    const bool of_piece = result.over == Over::kPiece;
    std::string what = attrs_text(call, of_piece) + "\n" + (of_piece ? "of " + std::to_string(samples_) + " " : "") +
                       std::to_string(i) + " " + std::string(dtype_name(out.dtype));
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const bool samples = result.over == Over::kEach && static_cast<int32_t>(axis) == result.sample_axis;
      what += (samples ? ",n" : ",") + std::to_string(shape[axis]);
      // Its elements are counted in the order of their memory, so how it lies there is a part of what it is.
      if (!in_rows) what += samples || shape[axis] == 1 ? "*" : "*" + std::to_string(out.strides[axis]);
    }
    NumberTable::Made made;
    // Rules on copies and sums are about results whose elements lie in the order of their operands.
    made.kernel = in_rows ? call.kernel : call.kernel + " in another order";
    made.what = std::move(what);
    made.operands = std::move(operands);
    made.over = result.over;
    made.bytes = product(shape, 0) * dtype_bytes(out.dtype);
    made.program = run_.index;
    made.call = static_cast<int32_t>(call_);
    if (out.dtype == DType::kF32 && in_rows) {
      if (const auto constant = folded(made, table_)) {
        run_.made.push_back(*constant);
        return *constant;
      }
      take_reciprocal(made, table_);
    }
    if (!take_apart(made, table_, run_.made)) return table_.unknown("a sum of too many values");
    run_.made.push_back(table_.result(std::move(made)));
    return run_.made.back();
  }

  NumberedProgram& run_;
  NumberTable& table_;
  int64_t samples_;  // of the call at hand
  HeldValues workspace_;
  std::vector<SpreadView> where_;  // of operands of the call at hand
  std::vector<std::vector<WayToRead>> ways_;
  bool spread_ = false;   // ranks share one of them
  bool ordered_ = false;  // one of them belongs to an order of rows
  size_t num_read_ = 0;
  size_t call_ = 0;
};

}  // namespace

void number_program(NumberedProgram& run, NumberTable& table) { Evaluation(run, table).make(); }

}  // namespace piper::verify
