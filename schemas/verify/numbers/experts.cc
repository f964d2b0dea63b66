#include "schemas/verify/numbers/experts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "schemas/plan/attrs.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/names.h"
#include "schemas/verify/numbers/grouped_parts.h"
#include "schemas/verify/numbers/leaves.h"
#include "schemas/verify/numbers/linear_shares.h"
#include "schemas/verify/numbers/masks.h"
#include "schemas/verify/numbers/part_axes.h"
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
        const NumberTable& table, int64_t samples, const std::vector<int32_t>& places, bool repeated)
      : call_{{}, where, table, samples, find_row(call.kernel == Kernel::kAddInto ? Kernel::kCopy : call.kernel.id())},
        places_(places),
        repeated_(repeated) {
    call_.whole.call = call;
    call_.whole.operands = operands;
    call_.whole.samples = samples;
  }

  WholeCall make() {
    call_.whole.why = check();
    return std::move(call_.whole);
  }

 private:
  std::string check() {
    Spread& spread = call_.whole.spread;
    for (const SpreadView& operand : call_.where) {
      if (!operand.spread.is_spread()) continue;
      if (spread.is_spread() && spread.cut != operand.spread.cut) return "values of groups of different kinds";
      if (spread.is_spread() && spread.devices != operand.spread.devices) return "values of groups of different size";
      spread.devices = operand.spread.devices;
      spread.cut = operand.spread.cut;
    }
    if (std::string why = one_kind_of_sources(); !why.empty()) return why;
    if (std::any_of(call_.where.begin(), call_.where.end(), [](const SpreadView& w) { return w.shares >= 0; }))
      return add_shares();
    if (call_.row == nullptr) {
      const std::optional<std::string> why = part_of_rows(call_);
      if (!why) return "kernel " + call_.whole.call.kernel.text() + " has no row";
      return why->empty() ? widen() : *why;
    }
    if (std::string why = one_order_of_samples(); !why.empty()) return why;
    if (std::string why = leave_out_ranks(); !why.empty()) return why;
    if (const auto why = without_place(call_.whole, call_.where, call_.table)) {
      return why->empty() ? widen() : call_.wrong(*why);
    }
    if (const auto why = mask_of_part(call_)) return why->empty() ? widen() : *why;
    if (std::any_of(call_.whole.operands.begin(), call_.whole.operands.end(), [&](const View& view) {
          return view.number >= 0 && view.number == known_place_of_rank(call_.table);
        }))
      return call_.wrong("a place in what " + call_.whole.call.kernel.text() + " makes");
    if (std::string why = find_part(call_); !why.empty()) return why;
    if (std::string why = take_surplus(call_); !why.empty()) return call_.wrong(why);
    if (std::string why = shares_are_linear(call_); !why.empty()) return why;
    if (std::string why = sums_are_linear(call_); !why.empty()) return why;
    return widen();
  }

  // What depends on samples is what all ranks have, or what each place sent of its own part.
  std::string one_kind_of_sources() {
    bool any = false;
    for (size_t i = 0; i < call_.where.size(); ++i) {
      if (!call_.present(i) || call_.table[call_.whole.operands[i].number].over == Over::kNothing) continue;
      if (std::exchange(any, true) && call_.where[i].spread.across != call_.whole.spread.across)
        return "parts that places sent together with what is of no place";
      call_.whole.spread.across = call_.where[i].spread.across;
    }
    return "";
  }

  // The sum of all ranks' shares is the sum over all experts.
  std::string add_shares() {
    KernelCall& call = call_.whole.call;
    if (call.kernel != Kernel::kSum || call.outputs.size() != 1) return "shares of a sum that are not added up";
    const auto axis = static_cast<int64_t>(call_.where[0].shares);
    auto* const dims = plan::find_attr<std::vector<int64_t>>(call, "dims");
    if (dims == nullptr || std::count(dims->begin(), dims->end(), axis) != 1)
      return "shares of a sum that are not added up";
    Operand &in = call.inputs[0], &out = call.outputs[0];
    if (out.shape.size() == in.shape.size()) erase(out, axis);
    erase(in, axis);
    View& view = call_.whole.operands[0];
    view.axes.erase(view.axes.begin() + axis);
    std::erase(*dims, axis);
    for (int64_t& dim : *dims) dim -= dim > axis ? 1 : 0;
    if (dims->empty()) {
      call.kernel = Kernel::kCopy;
      call.attrs.clear();
    }
    call_.whole.spread = {};
    return "";
  }
  static void erase(Operand& operand, int64_t axis) {
    operand.shape.erase(operand.shape.begin() + axis);
    operand.strides.erase(operand.strides.begin() + axis);
  }

  std::string one_order_of_samples() {
    for (size_t i = 0; i < call_.where.size(); ++i) {
      if (!is_each(call_.whole.operands[i], call_.table)) continue;
      if (call_.where[i].spread.sources) call_.whole.spread.sources = true;
    }
    for (size_t i = 0; i < call_.where.size(); ++i)
      if (is_each(call_.whole.operands[i], call_.table) && call_.where[i].spread.sources != call_.whole.spread.sources)
        return "samples of a rank together with those of its group";
    if (call_.whole.spread.sources) call_.whole.samples = call_.own_samples * call_.whole.spread.devices;
    return "";
  }

  // Ranks and samples by two axes: the call on the samples of each rank by itself.
  std::string leave_out_ranks() {
    int64_t from_end = 0;
    for (size_t i = 0; i < call_.where.size(); ++i) {
      if (!is_each(call_.whole.operands[i], call_.table)) continue;
      const int64_t here = call_.where[i].sources < 0
                               ? 0
                               : static_cast<int64_t>(call_.whole.operands[i].axes.size()) - call_.where[i].sources;
      if (i > 0 && from_end != here && from_end > 0) return "operands that number ranks by different axes";
      if (here == 0 && from_end > 0) return "operands that number ranks by different axes";
      from_end = here;
    }
    if (from_end == 0) return "";
    if (!call_.by_places() || call_.whole.call.outputs.size() != 1) return "ranks by an axis of their own";
    const auto take_out = [&](Operand& operand) {
      const auto axis = static_cast<int64_t>(operand.shape.size()) - from_end;
      if (axis >= 0) erase(operand, axis);
    };
    for (size_t i = 0; i < call_.where.size(); ++i) {
      View& view = call_.whole.operands[i];
      const auto axis = static_cast<int64_t>(view.axes.size()) - from_end;
      if (axis < 0 || !call_.present(i)) continue;
      if (view.axes[static_cast<size_t>(axis)].stride != 0) return "an operand that is not the same for all ranks";
      view.axes.erase(view.axes.begin() + axis);
      take_out(call_.whole.call.inputs[i]);
      SpreadView& operand = call_.where[i];
      if (operand.part > axis) --operand.part;
    }
    call_.whole.sources = static_cast<int32_t>(static_cast<int64_t>(call_.rank()) - from_end);
    take_out(call_.whole.call.outputs[0]);
    call_.whole.samples = call_.own_samples;
    return "";
  }

  // Shapes that contradict each other are another rule's fault to name, and none to read past the last axis of.
  bool has_axes_of_parts() const {
    const WholeCall& whole = call_.whole;
    for (size_t i = 0; i < call_.where.size(); ++i)
      if (call_.present(i) && whole.operands[i].axes.size() != whole.call.inputs[i].shape.size()) return false;
    const auto of_rows = [&](const Operand& out) {
      return whole.segments_of_rows > 0 && &out != &whole.call.outputs[0];
    };
    return std::all_of(whole.call.outputs.begin(), whole.call.outputs.end(), [&](const Operand& out) {
      return out.slot == Operand::kAbsent || (of_rows(out) ? 0 : whole.part) < std::ssize(out.shape);
    });
  }

  // All experts' extents. "" or why there are none.
  std::string widen() {
    if (!has_axes_of_parts()) return call_.wrong("a result without the axis of its operands' parts");
    const int64_t devices = call_.whole.spread.devices;
    const int64_t from_end = call_.whole.part < 0 ? 0 : static_cast<int64_t>(call_.rank()) - call_.whole.part;
    for (size_t i = 0; i < call_.where.size(); ++i) {
      View& view = call_.whole.operands[i];
      Operand& operand = call_.whole.call.inputs[i];
      if (!call_.present(i)) continue;
      if (call_.where[i].part >= 0) {
        int64_t& extent = operand.shape[static_cast<size_t>(call_.where[i].part)];
        extent = extent * devices - call_.where[i].surplus;
      } else if (const auto axis = static_cast<int64_t>(view.axes.size()) - from_end;
                 from_end > 0 && axis >= 0 && is_repeated(i, axis)) {
        for (int64_t* extent :
             {&operand.shape[static_cast<size_t>(axis)], &view.axes[static_cast<size_t>(axis)].extent})
          *extent = *extent * devices - call_.whole.surplus;
      }
    }
    if (call_.whole.part < 0) return "";
    for (Operand& out : call_.whole.call.outputs) {
      const std::vector<int64_t> local = out.shape;
      if (out.slot == Operand::kAbsent) continue;
      if (call_.whole.segments_of_rows > 0 && &out != &call_.whole.call.outputs[0]) {
        out.shape[0] *= devices;
        continue;
      }
      widen(out, place_of(out));
      for (plan::Attr& attr : call_.whole.call.attrs)
        if (auto* shape = std::get_if<std::vector<int64_t>>(&attr.value); attr.name == "shape" && *shape == local)
          *shape = out.shape;
    }
    return "";
  }
  // Axes at one place correspond, apart from products' last two.
  bool is_repeated(size_t i, int64_t axis) const {
    if (call_.row == nullptr) return false;
    const bool batch =
        call_.row->form != RowForm::kMatmul || static_cast<int64_t>(call_.whole.operands[i].axes.size()) - axis > 2;
    const ViewAxis& there = call_.whole.operands[i].axes[static_cast<size_t>(axis)];
    const bool along = call_.row->form == RowForm::kAlongAxes && call_.whole.operands[i].axes.size() == call_.rank();
    const bool corresponds = call_.by_places() || call_.row->form == RowForm::kMatmul;
    return batch && (corresponds || along) && there.stride == 0 &&
           (there.extent > 1 || (repeated_ && corresponds && !there.samples && has_one_place()));
  }
  // Whether a rank has one place along the axis that the whole results have of all ranks.
  bool has_one_place() const {
    const Operand& out = call_.whole.call.outputs[0];
    return out.slot != Operand::kAbsent && out.shape[static_cast<size_t>(call_.whole.part)] == 1;
  }
  // Strides of the whole in the order of the part's memory.
  int32_t place_of(const Operand& out) const {
    const auto i = static_cast<size_t>(&out - call_.whole.call.outputs.data());
    return i < places_.size() ? places_[i] : -1;
  }
  void widen(Operand& out, int32_t place) const {
    std::vector<size_t> order(out.shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return out.strides[a] > out.strides[b]; });
    const auto part = static_cast<size_t>(call_.whole.part);
    if (place >= 0 && out.shape[part] == 1) {
      std::erase(order, part);
      order.insert(order.begin() + std::min<std::ptrdiff_t>(place, std::ssize(order)), part);
    }
    out.shape[part] = out.shape[part] * call_.whole.spread.devices - call_.whole.surplus;
    int64_t next = 1;
    for (size_t k = order.size(); k-- > 0;) {
      out.strides[order[k]] = next;
      next *= out.shape[order[k]];
    }
  }

  SpreadCall call_;
  const std::vector<int32_t>& places_;
  const bool repeated_;
};

}  // namespace

WholeCall whole_call(const KernelCall& call, const std::vector<View>& operands, const std::vector<SpreadView>& where,
                     const NumberTable& table, int64_t samples, const std::vector<int32_t>& places, bool repeated) {
  return Whole(call, operands, where, table, samples, places, repeated).make();
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
  const int64_t segments = of_rows ? whole.segments_of_rows : whole.extents.empty() ? whole.segments : 1;
  for (size_t k = order.size(); k-- > 0;) {
    const size_t axis = order[k];
    inside *= each(axis);
    if (static_cast<int32_t>(axis) == part) {
      if (held.period > 0) return "a repeated value of experts";
      const int64_t surplus = inside / all.shape[axis] * whole.surplus;
      for (const int64_t extent : whole.extents)
        held.spread.pieces.push_back(inside / all.shape[axis] * extent / whole.spread.devices);
      held.spread.part = (inside + surplus) / (whole.spread.devices * segments);
      held.spread.surplus = surplus;
      inside = (inside + surplus) / whole.spread.devices;
    }
    if (static_cast<int32_t>(axis) == sample_axis) block = inside;
    size = inside;
  }
  if (held.block > 0) held.block = block;
  if (whole.sources < 0 || sample_axis < 0) return "";
  // One rank after the other: right before the samples, or of all axes.
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
