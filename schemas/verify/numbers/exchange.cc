#include "schemas/verify/numbers/exchange.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/dtype.h"
#include "schemas/verify/numbers/copies.h"
#include "schemas/verify/numbers/ordered_rows.h"

namespace piper::verify {
namespace {

class Exchanged {
 public:
  Exchanged(const HeldValue& sent, const Exchange& exchange, int64_t bytes, int64_t samples, NumberTable& table)
      : sent_(sent),
        dtype_(exchange.dtype),
        devices_(exchange.devices),
        samples_(table[sent.number].over == Over::kPiece ? 1 : samples),
        size_(table[sent.number].bytes / dtype_bytes(exchange.dtype)),
        across_(exchange.across),
        table_(table) {
    result_.end = bytes;
    result_.spread.devices = devices_;
  }

  HeldValue make() {
    const Over over = table_[sent_.number].over;
    if (over != Over::kEach && (over != Over::kPiece || across_ >= 0))
      return unknown("an exchange of what has no samples");
    if (size_ < 1) return unknown("an exchange of samples without elements");
    const bool of_cut = sent_.spread.cut >= 0;
    const Spread experts = of_cut ? Spread() : sent_.spread, places = of_cut ? sent_.spread : sent_.places;
    if (std::string why = take_places(experts, places); !why.empty()) return unknown(why);
    HeldValue moved = move(experts);
    if (places.is_spread() && table_[moved.number].over != Over::kUnknown) hold(moved, moved.spread, places);
    return moved;
  }

 private:
  HeldValue unknown(const std::string& why) const { return {result_.end, 0, table_.unknown(why)}; }

  // What places have of the value. Among ranks of one place a share travels like a value. Across places each sends its
  // part, to which what it gets back belongs too: the parts for the ranks are cut from it as from the value, where the
  // place's part repeats inside of each.
  std::string take_places(const Spread& experts, const Spread& places) {
    if (experts.across >= 0 && experts.across != across_) return "an exchange of rows of all places among others";
    if (across_ < 0) {
      const Spread shares{.devices = places.devices, .share = true, .cut = places.cut};
      return !places.is_spread() || places == shares ? "" : "an exchange of what one place has of a value";
    }
    const Spread part{.devices = places.devices, .part = places.part, .cut = across_};
    if (!places.is_spread() || places != part || part.part < 1)
      return "an exchange across places of what is no part of a place";
    if (experts.is_spread() && experts.across < 0) return "an exchange across places of what one place sent";
    const int64_t moved = experts.is_spread() && experts.part == 0 ? size_ : size_ / devices_;
    if (moved % (part.part * part.devices) != 0) return "an exchange of parts of what a place has in a row";
    places_ = places.devices;
    return "";
  }
  int64_t of_place(int64_t elements) const { return elements / places_; }

  HeldValue move(const Spread& experts) {
    if (!experts.is_spread()) return to_experts();
    if (experts.sources && experts.devices == devices_) return from_experts();
    return unknown("an exchange of what an exchange brought");
  }

  // Part j for rank j.
  HeldValue to_experts() {
    const int64_t own = of_place(size_), block = sent_.block > 0 ? sent_.block : own,
                  outer = samples_ == 1 ? devices_ : own / block;
    if (outer % devices_ != 0 || own % devices_ != 0) return unknown("an exchange of parts of samples");
    result_.spread.sources = true;
    result_.spread.across = across_;
    if (outer > devices_) {  // ranks, other axes, samples
      result_.spread.apart = true;
      result_.block = block;
    }
    const auto copied = through_copy();
    result_.number = copied ? *copied : sent_.number;
    if (!copied) result_.spread.part = size_ / devices_;
    return result_;
  }

  // Parts are copied to the front before they travel: the number without that copy, with the part of a rank where it is
  // in what was copied. Nothing where that is not known.
  std::optional<int32_t> through_copy() {
    const Number& copy = table_[sent_.number];
    if (copy.by != Kernel::kCopy) return std::nullopt;
    View source = copy.operands[0];
    std::vector<ViewAxis>& axes = source.axes;
    if (axes.empty() || axes[0].extent != devices_ || axes[0].samples || source.dtype != dtype_ ||
        table_[source.number].over != copy.over)
      return std::nullopt;
    for (const ViewAxis& axis : axes)
      if (axis.extent == 0) return std::nullopt;
    const int64_t stride = axes[0].stride;
    axes.erase(axes.begin());
    if (stride == 0) return copy_of(std::move(source), table_);  // all ranks get the same
    size_t at = 0;
    while (at < axes.size() && (axes[at].extent == 1 || axes[at].stride * axes[at].extent != stride)) ++at;
    if (at < axes.size()) {
      axes[at].extent *= devices_;
    } else {  // a rank has one place along it
      for (at = 0; at < axes.size() && (axes[at].extent == 1 || axes[at].stride > stride);) ++at;
      axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(at), {devices_, stride, false});
    }
    int64_t behind = 1;
    for (size_t axis = at; axis < axes.size(); ++axis) behind *= axes[axis].extent;
    result_.spread.part = behind / devices_;
    return copy_of(std::move(source), table_);
  }

  // What the ranks made for this rank's samples, rank by rank.
  HeldValue from_experts() {
    const Spread& spread = sent_.spread;
    const int64_t each = spread.part > 0 ? size_ / devices_ : size_, own = of_place(each),
                  block = sent_.block > 0 ? sent_.block : own;
    if (!spread.apart && block != own) return unknown("an exchange of parts of samples");
    result_.number = sent_.number;
    if (samples_ > 1) result_.block = block;
    if (spread.share) {
      if (block == own) result_.block = 0;
      result_.spread.shares = true;
      return result_;
    }
    if (spread.part == 0) return unknown("a value that comes back alike from all ranks");
    result_.spread = {};
    if (each == spread.part) return result_;
    View view;  // rank by rank, where the value has the ranks' parts inside of an axis
    view.number = sent_.number;
    view.dtype = dtype_;
    view.axes = {{1, 0, true},
                 {devices_, spread.part, false},
                 {each / spread.part, spread.part * devices_, false},
                 {spread.part, spread.part == 1 ? 0 : 1, false}};
    if (table_[sent_.number].over != Over::kEach) view.axes.erase(view.axes.begin());
    result_.number = copy_of(std::move(view), table_);
    return result_;
  }

  const HeldValue& sent_;
  const DType dtype_;
  const int64_t devices_, samples_, size_;  // size: elements of a sample
  const int32_t across_;
  int64_t places_ = 1;  // each of which has such a part of these
  NumberTable& table_;
  HeldValue result_;
};

// The one value of a slot, or nullptr.
const HeldValue* only_value(const HeldValues& held) {
  return held.all().size() == 1 && held.all().begin()->first == 0 ? &held.all().begin()->second : nullptr;
}

}  // namespace

HeldValues exchanged(const HeldValues& sent, const Exchange& exchange, const std::vector<CountedRows>& counts,
                     int64_t bytes, int64_t samples, int32_t reader, NumberTable& table) {
  HeldValues held;
  const auto unknown = [&](const std::string& why) {
    held.put(0, {bytes, 0, table.unknown(why)});
    return held;
  };
  if (exchange.devices < 2) return unknown("an exchange among groups of different size");
  if (const HeldValue* const value = only_value(sent);
      value != nullptr && value->spread.order.kind != RowOrder::Kind::kNone) {
    std::vector<CountedBy> counted;
    for (const CountedRows& rows : counts) counted.push_back({only_value(rows.sent), only_value(rows.received)});
    MovedRows moved = exchanged_rows(*value, exchange, counted, bytes, table);
    if (moved.wrong) held.put(0, {bytes, 0, table.unfit(moved.why, reader, -1)});
    else if (!moved.why.empty()) return unknown(moved.why);
    else held.put(0, moved.value);
    return held;
  }
  if (exchange.counted) return unknown("an exchange of as many rows as the data say");
  if (sent.all().size() != 1) return unknown("an exchange of what no program makes as one value");
  const auto& [begin, value] = *sent.all().begin();
  if (table[value.number].over == Over::kUnknown) held.put(0, {bytes, 0, value.number});
  else if (begin != 0 || value.first != 0 || value.period > 0) return unknown("an exchange of a part of a value");
  else held.put(0, Exchanged(value, exchange, bytes, samples, table).make());
  return held;
}

HeldValues added_up(const HeldValues& sent, int32_t cut, int64_t devices, int64_t bytes, int32_t reader,
                    NumberTable& table) {
  HeldValues held;
  const HeldValue* const share = only_value(sent);
  HeldValue whole{bytes};
  if (share == nullptr || devices < 2) {
    whole.number = table.unknown("a sum over places of what no program makes as one value");
  } else if (table[share->number].over == Over::kUnknown) {
    whole.number = share->number;
  } else {
    const bool shared = share->places.is_spread();  // by ranks that share experts, too
    const Spread& has = shared ? share->places : share->spread;
    if (has.cut == cut && is_share_of_sum(has)) {
      whole.number = table.unknown(kPartAsShare);
    } else if (has != Spread{.devices = devices, .share = true, .cut = cut} || share->end != bytes) {
      whole.number = table.unfit("a sum over places of what is no share of a sum", reader, -1);
    } else {
      whole = *share;
      hold(whole, shared ? share->spread : Spread(), {});
    }
  }
  held.put(0, whole);
  return held;
}

}  // namespace piper::verify
