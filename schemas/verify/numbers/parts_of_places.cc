#include "schemas/verify/numbers/parts_of_places.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/attrs.h"
#include "schemas/plan/dtype.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/names.h"
#include "schemas/verify/numbers/copies.h"
#include "schemas/verify/numbers/leaves.h"

namespace piper::verify {
namespace {

// Where parts are that are all alike, a repetition of one: beside other repetitions, or at the last axis of one place.
// Wherever they are put, each is that part of the value. `axes.size()`: there is no such axis.
size_t axis_of_repeats(const std::vector<ViewAxis>& axes) {
  size_t at = axes.size();
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].samples) continue;
    if (axes[i].extent > 1 && axes[i].stride == 0) return i;
    if (axes[i].extent == 1) at = i;
  }
  return at;
}

struct PartOfView {
  int32_t number = -1;  // all places' parts together
  int64_t part = 0;     // Spread::part
};
// For a view whose outermost axis numbers the parts: each in its place along the axis that it is a part of. Nothing
// where that is not known.
std::optional<PartOfView> part_of_outermost(View view, int64_t places, int64_t samples, NumberTable& table) {
  std::vector<ViewAxis>& axes = view.axes;
  // For one sample any axis could number the samples (views.h).
  if (samples == 1)
    for (ViewAxis& axis : axes) axis.samples = false;
  if (axes.empty() || axes[0].extent != places || axes[0].samples) return std::nullopt;
  for (const ViewAxis& axis : axes)
    if (axis.extent == 0) return std::nullopt;
  const int64_t stride = axes[0].stride;
  axes.erase(axes.begin());
  size_t at = stride == 0 ? axis_of_repeats(axes) : 0;
  while (stride > 0 && at < axes.size() && (axes[at].extent == 1 || axes[at].stride * axes[at].extent != stride)) ++at;
  if (at < axes.size()) {
    axes[at].extent *= places;
  } else {  // a place has one row of it
    for (at = 0; at < axes.size() && (axes[at].samples || axes[at].extent == 1 || axes[at].stride > stride);) ++at;
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(at), {places, stride, false});
  }
  PartOfView result;
  result.part = 1;
  for (size_t axis = at; axis < axes.size(); ++axis) {
    if (axis > at && axes[axis].samples && axes[axis].extent > 1) return std::nullopt;
    result.part *= axes[axis].extent;
  }
  result.part /= places;
  if (samples == 1 && table[view.number].over == Over::kEach) {
    const auto one = std::find_if(axes.begin(), axes.end(), [](const ViewAxis& axis) { return axis.extent == 1; });
    (one == axes.end() ? axes.front() : *one).samples = true;
  }
  result.number = copy_of(std::move(view), table);
  return result;
}

class Converted {
 public:
  Converted(const HeldValue& sent, const Exchange& exchange, int64_t places, int64_t bytes, int64_t samples,
            int32_t reader, NumberTable& table)
      : sent_(sent),
        exchange_(exchange),
        places_(places),
        bytes_(bytes),
        samples_(table[sent.number].over == Over::kEach ? samples : 1),
        size_(table[sent.number].bytes / dtype_bytes(exchange.dtype)),
        reader_(reader),
        table_(table) {}

  HeldValue make() {
    const bool gathers = exchange_.by == Exchange::By::kAllGather;
    Spread wanted{.devices = places_, .share = !gathers, .cut = exchange_.cut};
    if (gathers) wanted.part = sent_.spread.part;
    const int64_t all = gathers ? bytes_ : bytes_ * places_;
    if (sent_.places.is_spread()) return unknown("parts of a cut that ranks share, too");
    if (gathers && sent_.spread == Spread() && sent_.first == 0) return gathered_alike();
    if (sent_.spread != wanted || (gathers && wanted.part < 1) || sent_.first != 0 || sent_.period > 0)
      return unfit(gathers ? "a gather of what is no part of a value"
                           : "a sum over places of what is no share of a sum");
    if (size_ < 1 || size_ * samples_ * dtype_bytes(exchange_.dtype) != all || size_ % places_ != 0)
      return unknown("parts of a value of several pieces");
    return gathers ? gathered() : scattered();
  }

 private:
  HeldValue unknown(const std::string& why) const { return {bytes_, 0, table_.unknown(why)}; }
  HeldValue unfit(const std::string& why) const { return {bytes_, 0, table_.unfit(why, reader_, -1)}; }

  HeldValue gathered() {
    const int64_t each = size_ / places_, part = sent_.spread.part;
    HeldValue held{bytes_, 0, sent_.number};
    if (samples_ > 1) held.block = sent_.block > 0 ? sent_.block : each;
    if (part == each) return held;
    View view;  // place by place, where the value has the places' parts inside of an axis
    view.number = sent_.number;
    view.dtype = exchange_.dtype;
    view.axes = {{places_, part, false}, {each / part, part * places_, false}, {part, part == 1 ? 0 : 1, false}};
    if (table_[sent_.number].over == Over::kEach) view.axes.insert(view.axes.begin(), {1, 0, true});
    held.number = copy_of(std::move(view), table_);
    return held;
  }

  // Each place sends the same, which then is there as often.
  HeldValue gathered_alike() {
    const int64_t size = dtype_bytes(exchange_.dtype), sent = bytes_ / places_ / size, each = sent / samples_;
    const Over over = table_[sent_.number].over;
    if (bytes_ % (places_ * size) != 0 || sent % samples_ != 0 || size_ < 1 || each % size_ != 0)
      return unknown("a gather of several values");
    HeldValue held{bytes_, 0, sent_.number};
    if (over == Over::kNothing || over == Over::kSum) {
      held.period = sent_.period > 0 ? sent_.period : size_;
      return held;
    }
    if (over != Over::kEach || each != size_) return unknown("a gather of a piece that is the same at all places");
    View view;
    view.number = sent_.number;
    view.dtype = exchange_.dtype;
    view.axes = {{1, 0, true}, {places_, 0, false}, {size_, size_ == 1 ? 0 : 1, false}};
    if (samples_ > 1) held.block = sent_.block > 0 ? sent_.block : size_;
    held.number = copy_of(std::move(view), table_);
    return held;
  }

  HeldValue scattered() {
    const int64_t each = size_ / places_;
    if (samples_ > 1 && sent_.block != each) return unknown("a sum in parts of samples that are the outermost axis");
    HeldValue held{bytes_, 0, sent_.number};
    held.spread = {.devices = places_, .part = each, .cut = exchange_.cut};
    // Parts were copied to the front: the number without that copy.
    const Number& copy = table_[sent_.number];
    if (copy.by != Kernel::kCopy) return held;
    View source = copy.operands[0];
    if (source.dtype != exchange_.dtype || table_[source.number].over != copy.over) return held;
    if (const auto part = part_of_outermost(std::move(source), places_, samples_, table_)) {
      held.number = part->number;
      held.spread.part = part->part;
    }
    return held;
  }

  const HeldValue& sent_;
  const Exchange& exchange_;
  const int64_t places_, bytes_, samples_, size_;  // size: elements of a sample
  const int32_t reader_;
  NumberTable& table_;
};

// The cut of which the program has parts or shares; -1: there is none, or several.
int32_t cut_of(const NumberedProgram& run) {
  int32_t cut = -1;
  for (const plan::Slot& slot : run.program->slots) {
    if (slot.cut < 0) continue;
    if (cut >= 0 && cut != slot.cut) return -1;
    cut = slot.cut;
  }
  return cut;
}

}  // namespace

HeldValues of_places(const HeldValues& sent, const Exchange& exchange, int64_t places, int64_t bytes, int64_t samples,
                     int32_t reader, NumberTable& table) {
  HeldValues held;
  const bool one = sent.all().size() == 1 && sent.all().begin()->first == 0;
  HeldValue result{bytes};
  if (!one || exchange.devices != places || places < 2)
    result.number = table.unknown("parts of what no program makes as one value");
  else if (const HeldValue& value = sent.all().begin()->second; table[value.number].over == Over::kUnknown)
    result.number = value.number;
  else result = Converted(value, exchange, places, bytes, samples, reader, table).make();
  held.put(0, result);
  return held;
}

std::optional<HeldValue> own_part(const plan::KernelCall& call, const std::vector<View>& operands,
                                  const NumberedProgram& run, NumberTable& table) {
  if (call.kernel != Kernel::kIndexSelect || operands.size() != 2 || operands[0].number < 0 ||
      operands[1].number != place_of_rank(table))
    return std::nullopt;
  const plan::Operand& out = call.outputs[0];
  HeldValue held;
  const auto unknown = [&](const std::string& why) {
    held.number = table.unknown(why);
    return held;
  };
  View whole = operands[0];
  const Over over = table[whole.number].over;
  if (over == Over::kUnknown) {
    held.number = whole.number;
    return held;
  }
  // Parts were copied to the front, as for a sum; of samples a view says so itself.
  if (const Number& copy = table[whole.number]; over != Over::kEach && copy.by == Kernel::kCopy &&
                                                is_whole(whole, table) && copy.operands[0].dtype == whole.dtype)
    whole = View(copy.operands[0]);
  const auto* const dim = plan::find_attr<int64_t>(call, "dim");
  const int32_t cut = cut_of(run);
  const int64_t places = call.inputs[0].shape.empty() ? 0 : call.inputs[0].shape[0];
  if (dim == nullptr || *dim != 0 || cut < 0 || static_cast<size_t>(cut) >= run.places.size() ||
      run.places[static_cast<size_t>(cut)] != places || out.strides != plan::contiguous_strides(out.shape))
    return unknown("a row by the rank's place that is no part of a cut");
  if (over == Over::kSum) return unknown("a part of a sum over samples");
  // Where other axes of the part are before the samples, those of a sample are in several blocks.
  const auto samples = std::find_if(whole.axes.begin(), whole.axes.end(), [](const ViewAxis& a) { return a.samples; });
  if (samples != whole.axes.end() && run.samples > 1 && samples > whole.axes.begin() &&
      std::any_of(whole.axes.begin() + 1, samples, [](const ViewAxis& axis) { return axis.extent > 1; })) {
    held.block = 1;
    for (auto axis = samples; axis < whole.axes.end(); ++axis) held.block *= axis->extent;
  }
  if (!whole.axes.empty() && whole.axes[0].extent == places && whole.axes[0].stride == 0 && !whole.axes[0].samples) {
    View once = whole;  // every place reads the same
    once.axes.erase(once.axes.begin());
    held.number = copy_of(std::move(once), table);
    return held;
  }
  const auto part = part_of_outermost(whole, places, over == Over::kEach ? run.samples : 1, table);
  if (!part) return unknown("a part along an axis that is not known");
  held.number = part->number;
  held.spread = {.devices = places, .part = part->part, .cut = cut};
  return held;
}

}  // namespace piper::verify
