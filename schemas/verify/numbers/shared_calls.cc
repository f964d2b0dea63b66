#include "schemas/verify/numbers/shared_calls.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "schemas/plan/attrs.h"
#include "schemas/plan/dtype.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/names.h"
#include "schemas/verify/numbers/bias.h"
#include "schemas/verify/numbers/memory_order.h"
#include "schemas/verify/numbers/ordered_rows.h"
#include "schemas/verify/numbers/part_of_gradient.h"
#include "schemas/verify/numbers/pieces_of_ranks.h"

namespace piper::verify {

using plan::KernelCall;
using plan::Operand;

namespace {

// All results of a call.
struct Results {
  WholeCall whole;
  // Where ranks that share experts are places of a cut, too: as one rank would make the call that is at all places; the
  // whole call is made of it.
  std::optional<WholeCall> at_places;
  int32_t none = -1;             // the number of all of them, where nothing is known of them
  std::vector<int32_t> numbers;  // [output]
  std::vector<HeldValue> held;   // [output] how they lie in their memory
  bool plain = false;            // the call is one that one device makes as it is
};

class SharedCall {
 public:
  SharedCall(const KernelCall& call, const std::vector<OperandRead>& operands, Evaluation& evaluation)
      : call_(call), read_(operands), evaluation_(evaluation), run_(evaluation.run()), table_(evaluation.table()) {
    for (const OperandRead& operand : operands) {
      views_.push_back(operand.view);
      where_.push_back(operand.where);
      places_.push_back(operand.places);
    }
  }

  // Whether what is to be ordered is a place's part of the rows.
  bool orders_part() const { return !where_.empty() && where_[0].spread.cut >= 0 && !places_[0].spread.is_spread(); }
  // An order of rows in several segments, as that of one device
  // (ordered_rows.h). False: the call makes none.
  bool make_order() {
    if (run_.index != kReferenceProgram && plan::find_attr<int64_t>(call_, plan::kPartsOfRows) != nullptr) {
      const int32_t none = evaluation_.unfit("an order of rows in parts, which no kernel makes");
      for (const Operand& out : call_.outputs)
        if (out.slot != Operand::kAbsent) evaluation_.put(out, none);
      return true;
    }
    const SpreadView ids = where_.empty() ? SpreadView() : where_[0];
    std::optional<WholeOrder> whole = whole_order(call_, views_.empty() ? View() : views_[0], ids, run_.samples);
    if (!whole) return false;
    int32_t unknown = unknown_among(views_, table_);
    if (unknown < 0 && !whole->why.empty()) unknown = unknown_because(whole->why, whole->wrong);
    const auto result = [&](size_t i, HeldValue& held) {
      return unknown >= 0 ? unknown : evaluation_.made(whole->call, views_, kOfPiece, i, run_.samples, held);
    };
    enum Result : size_t { kOrder, kPositions, kCounts };
    HeldValue none;
    whole->order.counts = result(kCounts, none);
    // The model's step has such an order where piperc knows that the strategy makes one.
    if (plan::find_attr<int64_t>(whole->call, plan::kPartsOfRows) != nullptr && whole->order.counts >= run_.known)
      unknown = table_.unknown("a capacity of the rows of a place");
    for (size_t i = 0; i < call_.outputs.size(); ++i) {
      if (call_.outputs[i].slot == Operand::kAbsent) continue;
      HeldValue held;
      const int32_t number = result(i, held);
      if (i <= kCounts && unknown < 0) {
        held.spread.order = whole->order;
        held.spread.order.kind = i == kOrder       ? RowOrder::Kind::kRows
                                 : i == kPositions ? RowOrder::Kind::kPositions
                                                   : RowOrder::Kind::kCounts;
        // Counts lie as those of one device.
        if (i != kCounts) held.spread.devices = whole->order.segments;
      } else if (whole->order.cut >= 0 && unknown < 0) {  // each place drops rows of its own
        held.spread = {.devices = whole->order.parts, .share = true, .cut = whole->order.cut};
      }
      evaluation_.put(call_.outputs[i], number, held);
    }
    return true;
  }

  // A copy whose operand shows no axis of experts, with one of one place;
  // nothing of other calls.
  std::optional<KernelCall> with_axis() const {
    if (read_.size() != 1 || !read_[0].ways.empty()) return std::nullopt;
    const Operand& in = call_.inputs[0];
    const HeldValue* const value = evaluation_.held(in);
    // Once: it then has such an axis.
    const bool has_one = std::count(in.shape.begin(), in.shape.end(), 1) > 0;
    return value == nullptr || has_one ? std::nullopt : with_axis_of_experts(call_, *value);
  }

  // For several ways to read the operands, by the first that makes the call one
  // of the reference (ways_to_read.h). False: the call is one that one device
  // makes as it is.
  bool make_of_parts() {
    constexpr int kMostTried = 32;
    const size_t before = run_.made.size();
    const auto made_since = [&] {
      return std::vector<int32_t>(run_.made.begin() + static_cast<std::ptrdiff_t>(before), run_.made.end());
    };
    Results results = evaluate();
    if (results.plain) return false;
    std::vector<int32_t> numbers = made_since();
    std::vector<size_t> chosen(read_.size());
    int tried = 0;
    const auto take_if_better = [&](const Results& other) {
      if (other.none >= 0 || (results.none < 0 && !is_of_reference(other))) return;
      numbers = made_since();
      results = other;
    };
    // Also for results in which a place has one of several along an axis; each
    // by itself.
    const auto try_places = [&](const Results& first) {
      if (first.none >= 0 || !has_one_place(first.at_places ? *first.at_places : first.whole)) return;
      std::vector<int32_t> places(call_.outputs.size(), -1);
      for (size_t i = 0; i < places.size(); ++i) {
        if (first.numbers[i] < run_.known) continue;
        const auto axes = static_cast<int32_t>(call_.outputs[i].shape.size());
        for (places[i] = 0; places[i] < axes; ++places[i]) {
          run_.made.resize(before);
          const Results other = evaluate(places);
          take_if_better(other);
          if (other.none < 0 && other.numbers[i] < run_.known) break;
        }
        if (places[i] == axes) places[i] = -1;
      }
    };
    if (!is_of_reference(results)) try_places(Results(results));
    const auto try_again = [&] {
      run_.made.resize(before);
      const Results first = evaluate();
      take_if_better(first);
      try_places(first);
    };
    const auto try_repeated = [&] {
      if (is_of_reference(results) || !may_repeat()) return;
      repeated_ = true;
      try_again();
      repeated_ = false;
    };
    try_repeated();
    for (; tried < kMostTried && !is_of_reference(results) && choose_next(chosen); ++tried) {
      try_again();
      try_repeated();
    }
    const bool chose = std::any_of(read_.begin(), read_.end(), [](const OperandRead& r) { return r.ways.size() > 1; });
    run_.ambiguous =
        run_.ambiguous || (chose && (results.whole.spread.cut >= 0 || results.at_places) && !is_of_reference(results));
    run_.made.resize(before);
    run_.made.insert(run_.made.end(), numbers.begin(), numbers.end());
    put(results);
    return true;
  }

 private:
  inline static const RowResult kOfPiece{Over::kPiece, -1, ""};
  static constexpr const char* kRepeatedParts = "a sum of repetitions of parts";

  int32_t unknown_because(const std::string& why, bool wrong) {
    return wrong ? evaluation_.unfit(why) : table_.unknown(why);
  }

  // The next choice of a way for each operand; false: there is none.
  bool choose_next(std::vector<size_t>& chosen) {
    size_t next = 0;
    while (next < chosen.size() && chosen[next] + 1 >= read_[next].ways.size()) ++next;
    if (next == chosen.size()) return false;
    ++chosen[next];
    std::fill_n(chosen.begin(), next, size_t{0});
    for (size_t i = 0; i <= next; ++i) {
      if (read_[i].ways.empty()) continue;
      views_[i] = read_[i].ways[chosen[i]].view;
      where_[i] = read_[i].ways[chosen[i]].where;
      places_[i] = read_[i].ways[chosen[i]].places;
    }
    return true;
  }

  // A sum along which each addend is the same, which one device makes a product (program.cc).
  static bool adds_repetitions(const WholeCall& whole) {
    if (whole.call.kernel != Kernel::kSum && whole.call.kernel != Kernel::kMean) return false;
    const auto* const dims = plan::find_attr<std::vector<int64_t>>(whole.call, "dims");
    const std::vector<ViewAxis>& axes = whole.operands[0].axes;
    return dims != nullptr && std::any_of(dims->begin(), dims->end(), [&](int64_t dim) {
             const auto at = static_cast<size_t>(dim);
             return at < axes.size() && !axes[at].samples && axes[at].extent > 1 && axes[at].stride == 0;
           });
  }

  // Whether a result, in memory of its own, has one of the places of a cut's
  // axis.
  bool has_one_place(const WholeCall& whole) const {
    const Operand& out = call_.outputs[0];
    return whole.spread.cut >= 0 && whole.part >= 0 && !call_.accumulate &&
           static_cast<size_t>(whole.part) < out.shape.size() && out.shape[static_cast<size_t>(whole.part)] == 1;
  }

  // Whether what all ranks have alike may have been repeated for each of them: of one place both look the same.
  bool may_repeat() const {
    bool one = false, alike = false;
    for (size_t i = 0; i < where_.size(); ++i) {
      if (views_[i].number < 0) continue;
      if (where_[i].part < 0) alike = true;
      else one = one || call_.inputs[i].shape[static_cast<size_t>(where_[i].part)] == 1;
    }
    return one && alike;
  }

  // The call as one device makes it: first as a rank that has all places' parts would, then as one that has all ranks'
  // experts.
  void find_whole(Results& results, const std::vector<int32_t>& places) {
    WholeCall& whole = results.whole;
    int32_t& none = results.none = unknown_among(views_, table_);
    if (none >= 0) return;
    std::vector<SpreadView> experts = where_, parts = places_;
    for (size_t i = 0; i < experts.size(); ++i)
      if (experts[i].spread.cut >= 0) std::swap(experts[i], parts[i]);
    const bool ordered = is_ordered();
    if (ordered && is_of_part()) {
      OrderedCall made = ordered_call(call_, views_, where_, table_);
      whole = std::move(made.whole);
      whole.wrong = made.wrong;
      if (made.plain) whole.why = "what is known of an order of a part's rows";
      if (!whole.why.empty()) none = unknown_because(whole.why, is_wrong(whole));
      return;
    }
    const auto is_spread = [](const SpreadView& where) { return where.spread.is_spread(); };
    const bool both = std::any_of(parts.begin(), parts.end(), is_spread) &&
                      (ordered || std::any_of(experts.begin(), experts.end(), is_spread));
    std::vector<View> views = views_;
    if (std::string why = pieces_.take(views, experts, parts, run_.samples, table_); !why.empty())
      none = table_.unknown(why);
    else if (mixes_places(experts, parts)) none = table_.unknown("what is of a rank's place next to parts of others");
    if (none >= 0) return;
    const int64_t samples = pieces_.any() ? 1 : run_.samples;
    if (both) {
      results.at_places = whole_call(call_, views, parts, table_, samples * sources_of(views, experts), places);
      const WholeCall& made = *results.at_places;
      if (!made.why.empty()) none = unknown_because(made.why, is_wrong(made));
      else if (made.statistics >= 0) none = table_.unknown("a loss of parts that ranks share, too");
      else if (adds_repetitions(made)) none = table_.unknown(kRepeatedParts);
      if (none >= 0) return;
    }
    const KernelCall& call = both ? results.at_places->call : call_;
    const std::vector<View> operands = both ? results.at_places->operands : views;
    if (ordered) {
      OrderedCall made = ordered_call(call, operands, experts, table_);
      results.plain = made.plain && !both;
      whole = std::move(made.whole);
      whole.wrong = made.wrong;
      if (made.plain && both) whole.why = "parts of a cut together with counts of an order";
    } else {
      whole = whole_call(call, operands, both ? experts : where_, table_, samples,
                         both ? std::vector<int32_t>() : places, repeated_);
    }
    if (!whole.why.empty()) none = unknown_because(whole.why, is_wrong(whole));
    else if (whole.spread.cut >= 0 && adds_repetitions(whole)) none = table_.unknown(kRepeatedParts);
    if (none < 0 && whole.statistics >= 0 && !has_statistics(whole))
      none = evaluation_.unfit("a loss by statistics of other rows");
  }
  // The number of ranks whose samples operands have.
  int64_t sources_of(const std::vector<View>& views, const std::vector<SpreadView>& experts) const {
    int64_t devices = 1;
    for (size_t i = 0; i < experts.size(); ++i)
      if (experts[i].spread.sources && views[i].number >= 0 && table_[views[i].number].over == Over::kEach)
        devices = std::max(devices, experts[i].spread.devices);
    return devices;
  }
  // Whether what depends on no sample is the part of the rank's own place, next to what each place sent of its part; a
  // mask is drawn by the rank's place, too.
  bool mixes_places(const std::vector<SpreadView>& experts, const std::vector<SpreadView>& parts) const {
    bool own = false, across = false;
    for (size_t i = 0; i < experts.size(); ++i) {
      if (views_[i].number < 0) continue;
      across = across || experts[i].spread.across >= 0;
      own = own || (table_[views_[i].number].over == Over::kNothing && parts[i].spread.is_spread());
    }
    return across && (own || call_.kernel == Kernel::kDropout);
  }
  // Where each place sent its part of samples, each result is such a part too, or a place's share, and a sum over them
  // adds up shares. A sum of parts would be one of different elements. "" or why it is none.
  static std::string parts_stay_apart(const Results& results, Over over) {
    const int32_t across = results.whole.spread.across;
    if (across < 0) return "";
    const WholeCall* const at_places = results.at_places ? &*results.at_places : nullptr;
    const bool of_places = at_places != nullptr && at_places->spread.cut == across;
    const bool share = of_places && at_places->spread.share, part = of_places && !share && at_places->part >= 0;
    return (share && (over == Over::kEach || over == Over::kSum)) || (part && over == Over::kEach)
               ? ""
               : "what all places have of the parts that they sent";
  }
  bool is_wrong(const WholeCall& whole) const {
    return whole.wrong ||
           (whole.wrong_as_read && std::all_of(read_.begin(), read_.end(),
                                               [](const OperandRead& operand) { return operand.ways.size() < 2; }));
  }
  bool is_ordered() const {
    return std::any_of(read_.begin(), read_.end(), [](const OperandRead& operand) { return operand.is_ordered(); });
  }

  // Whether a place of a cut orders the rows of its part.
  bool is_of_part() const {
    return std::any_of(read_.begin(), read_.end(),
                       [](const OperandRead& operand) { return operand.where.spread.order.cut >= 0; });
  }

  bool adds_operand() const { return !is_ordered() && verify::adds_operand(call_); }

  // How a rank's part of result `i` lies in its memory. "" or what is not covered.
  std::string lay_out_result(const Results& results, size_t i, int32_t sample_axis, HeldValue& held) const {
    const WholeCall& whole = results.whole;
    const Operand& out = call_.outputs[i];
    if (!results.at_places) {
      if (is_ordered() && whole.part < 0) held.spread = whole.spread;
      else return lay_out(whole, out, i, sample_axis, whole.samples, held);
      return "";
    }
    // The places' call has an axis of ranks yet, where the whole one lacks it: outside of what a sample has.
    const bool by_ranks = whole.sources >= 0 && sample_axis >= 0;
    if (by_ranks && results.at_places->part >= 0 && results.at_places->part < whole.sources)
      return "ranks by an axis inside parts of a cut that they share, too";
    const int32_t with_ranks = by_ranks && sample_axis >= whole.sources ? sample_axis + 1 : sample_axis;
    HeldValue at_places;
    at_places.block = 1;  // lay_out says how many
    std::string why = lay_out(*results.at_places, out, i, with_ranks, whole.samples, at_places);
    if (why.empty() && (whole.part >= 0 || sample_axis >= 0))
      why = lay_out(whole, out, i, sample_axis, whole.samples, held);
    if (held.block > 0) held.block = at_places.block;  // of what the rank has
    hold(held, whole.part >= 0 || sample_axis >= 0 ? held.spread : whole.spread, at_places.spread);
    return why;
  }

  Results evaluate(const std::vector<int32_t>& places = {}) {
    Results results;
    find_whole(results, places);
    const WholeCall& whole = results.whole;
    int32_t& none = results.none;
    if (none < 0 && adds_operand())
      if (std::string why = parts_stay_apart(results, table_[whole.operands[0].number].over); !why.empty())
        none = table_.unknown(why);
    if (results.plain || none >= 0 || adds_operand()) return results;
    const bool ordered = is_ordered();
    if (pieces_.any()) {
      make_of_pieces(results);
      return results;
    }
    if (!ordered && !results.at_places && add_bias(results)) return results;
    std::vector<View> operands = whole.operands;
    const std::vector<RowResult> rows =
        ordered ? std::vector<RowResult>{kOfPiece} : evaluation_.apply(whole.call, operands, whole.samples, none);
    const bool of_experts = std::any_of(where_.begin(), where_.end(), [](const SpreadView& where) {
      return where.spread.is_spread() && where.spread.cut < 0;
    });
    // Shares that are added up are all of the value.
    if (none < 0 && !ordered && of_experts && whole.spread.is_spread() && rows[0].over == Over::kPiece &&
        !whole.spread.summed)
      none = table_.unknown("experts of samples that are read together");
    results.held.resize(call_.outputs.size());
    for (size_t i = 0; i < call_.outputs.size() && none < 0; ++i) {
      const Operand& out = call_.outputs[i];
      results.numbers.push_back(-1);
      if (out.slot == Operand::kAbsent) continue;
      HeldValue& held = results.held[i];
      const RowResult& row = rows[std::min(i, rows.size() - 1)];
      if (std::string why = parts_stay_apart(results, row.over); !why.empty()) {
        none = table_.unknown(why);
        break;
      }
      int32_t& number = results.numbers.back() =
          evaluation_.made(whole.call, operands, row, i, ordered ? run_.samples : whole.samples, held);
      const int32_t axis = row.over == Over::kEach ? row.sample_axis : -1;
      std::string why = ordered || has_no_gaps(out) ? "" : "a result of " + call_.kernel.text() + " with gaps";
      if (why.empty() && !call_.accumulate) why = lay_out_result(results, i, axis, held);
      if (!why.empty()) number = table_.unknown(why);
      if (table_[number].over == Over::kUnknown) held = {};
    }
    return results;
  }
  // A call on values of whole pieces, those of several ranks (pieces_of_ranks.h).
  void make_of_pieces(Results& results) {
    WholeCall& whole = results.whole;
    KernelCall one = whole.call;
    std::vector<View> operands = whole.operands;
    const std::vector<RowResult> rows = evaluation_.apply(whole.call, operands, whole.samples, results.none);
    if (results.none >= 0) return;
    const RowResult& row = rows[0];
    std::string why = pieces_.of_one(one, operands, whole.operands, row, whole.samples);
    HeldValue held;
    if (why.empty() && !call_.accumulate) {
      held.block = row.over == Over::kEach ? 1 : 0;  // lay_out says how many
      why = has_no_gaps(call_.outputs[0])
                ? lay_out_result(results, 0, row.over == Over::kEach ? row.sample_axis : -1, held)
                : "a result of " + call_.kernel.text() + " with gaps";
    }
    if (!why.empty()) {
      results.none = table_.unknown(why);
      return;
    }
    whole.spread.summed = held.spread.summed = row.over == Over::kSum;
    HeldValue in_rows;
    results.numbers = {evaluation_.made(one, std::move(operands), kOfPiece, 0, run_.samples, in_rows)};
    const Number& number = table_[results.numbers[0]];
    if (number.over == Over::kUnknown) held = {};
    else if (held.block == held.elements_of(number.bytes / dtype_bytes(one.outputs[0].dtype))) held.block = 0;
    results.held = {held};
  }
  // A bias that is added to parts of a product by itself, where the model's product adds it.
  bool add_bias(Results& results) {
    WholeCall whole = results.whole;
    auto product = product_with_bias(whole.call, whole.operands, table_);
    if (!product || call_.accumulate) return false;
    int32_t none = -1;
    const std::vector<RowResult> rows = evaluation_.apply(product->call, product->operands, whole.samples, none);
    if (none >= 0) return false;
    HeldValue held;
    const size_t before = run_.made.size();
    const int32_t number = evaluation_.made(product->call, product->operands, rows[0], 0, whole.samples, held);
    const int32_t axis = rows[0].over == Over::kEach ? rows[0].sample_axis : -1;
    if (number >= run_.known || !has_no_gaps(call_.outputs[0]) ||
        !lay_out(whole, call_.outputs[0], 0, axis, whole.samples, held).empty()) {
      run_.made.resize(before);
      return false;
    }
    results.numbers = {number};
    results.held = {held};
    return true;
  }
  // Whether the statistics of a loss are those of its own logits and targets.
  bool has_statistics(const WholeCall& whole) {
    KernelCall lse;
    lse.kernel = Kernel::kRowLse;
    lse.inputs.assign(whole.call.inputs.begin(), whole.call.inputs.begin() + 2);
    const Operand& given = call_.inputs[3];
    lse.outputs = {given};
    lse.outputs[0].strides = plan::contiguous_strides(given.shape);
    for (const plan::Attr& attr : whole.call.attrs)
      if (attr.name == "ignore_index") lse.attrs.push_back(attr);
    lse.attrs.push_back({"places", given.shape[1]});
    int32_t none = -1;
    std::vector<View> operands(whole.operands.begin(), whole.operands.begin() + 2);
    const std::vector<RowResult> rows = evaluation_.apply(lse, operands, whole.samples, none);
    if (none >= 0) return false;
    HeldValue held;
    const size_t before = run_.made.size();
    const int32_t number = evaluation_.made(lse, std::move(operands), rows[0], 0, whole.samples, held);
    run_.made.resize(before);
    return number == whole.statistics;
  }
  bool is_of_reference(const Results& results) const {
    return results.none < 0 &&
           std::all_of(
               results.numbers.begin(), results.numbers.end(), [&](int32_t number) { return number < run_.known; });
  }

  void put(const Results& results) {
    const WholeCall& whole = results.whole;
    for (size_t i = 0; i < call_.outputs.size(); ++i) {
      const Operand& out = call_.outputs[i];
      if (out.slot == Operand::kAbsent) continue;
      const int32_t number = results.none >= 0 || adds_operand() ? results.none : results.numbers[i];
      if (number < 0) add(results, out, whole.operands[0]);
      else if (call_.accumulate)
        add(results, out,
            repeated_rows(whole.call.outputs.empty() ? out : whole.call.outputs[i], number,
                          results.none >= 0 ? 0 : results.held[i].period));
      else evaluation_.put(out, number, results.none >= 0 ? HeldValue() : results.held[i]);
    }
  }

  // What a rank adds to its part of a gradient is its part of what one device
  // adds to all of it.
  void add(const Results& results, const Operand& out, View view) {
    const WholeCall& whole = results.whole;
    const WholeCall& at_places = results.at_places ? *results.at_places : whole;
    const auto refuse = [&](const std::string& why) {
      view = {};
      view.number = table_.unknown(why);
      evaluation_.add(out, view);
    };
    if (table_[view.number].over == Over::kUnknown) return evaluation_.add(out, std::move(view));
    if (whole.spread.share && whole.spread.cut < 0)
      return refuse("a rank's share of a sum over experts, as a gradient");
    if (at_places.surplus > 0 && !at_places.spread.zeros) {
      view = {};
      view.number = evaluation_.unfit("a gradient of rows that no table has");
      return evaluation_.add(out, std::move(view));
    }
    Operand all = out;
    const bool cut = at_places.spread.cut >= 0, share = cut && at_places.spread.share;
    const int32_t experts = whole.spread.cut < 0 ? whole.part : -1;
    if (cut && !share && (at_places.part >= 0 || !results.at_places)) {
      const std::optional<Operand> wider =
          of_all_places(run_, at_places, experts < 0 ? 1 : whole.spread.devices, experts, out, view);
      if (!wider) return refuse("a gradient of a part of a cut");
      all = *wider;
    }
    if (experts >= 0) {
      if (out.slot < 0 || out.offset != 0 || !is_dense(out) || view.axes.size() != out.shape.size() ||
          span_bytes(out) != run_.program->slots[static_cast<size_t>(out.slot)].bytes)
        return refuse("a gradient of a part of a rank's experts");
      // The ranks' parts of a gradient follow one another, whatever comes before
      // the experts in the value.
      const int64_t devices = whole.spread.devices;
      const auto axis = static_cast<size_t>(experts);
      view.axes[axis].extent /= devices;
      view.axes.insert(view.axes.begin(), {devices, view.axes[axis].extent * view.axes[axis].stride, false});
      if (view.axes[axis + 1].extent == 1) view.axes[axis + 1].stride = 0;
      const int64_t each = plan::elements(all);
      all.shape.insert(all.shape.begin(), devices);
      all.strides.insert(all.strides.begin(), each);
    }
    const int32_t of_all = whole.spread.summed ? whole.spread.order.cut : -1;  // rows that all places of it sent
    evaluation_.add(all, std::move(view), share ? at_places.spread.cut : of_all);
  }

  const KernelCall& call_;
  const std::vector<OperandRead>& read_;
  Evaluation& evaluation_;
  NumberedProgram& run_;
  NumberTable& table_;
  // The operands, as they are read now.
  std::vector<View> views_;
  std::vector<SpreadView> where_, places_;
  bool repeated_ = false;  // WholeCall
  PiecesOfRanks pieces_;   // among them
};

}  // namespace

bool evaluate_shared(const KernelCall& call, const std::vector<OperandRead>& operands, Evaluation& evaluation) {
  const auto any = [&](bool (OperandRead::*is)() const) {
    return std::any_of(operands.begin(), operands.end(), [&](const OperandRead& operand) { return (operand.*is)(); });
  };
  const bool shared = any(&OperandRead::is_shared), ordered = any(&OperandRead::is_ordered);
  const bool may_order = evaluation.run().by_pieces && call.kernel == Kernel::kExpertOrder;
  if (!shared && !ordered && !may_order) return false;
  SharedCall made(call, operands, evaluation);
  if (may_order && (!shared || made.orders_part()) && made.make_order()) return true;
  if (ordered) return made.make_of_parts();
  if (!shared) return false;
  const std::optional<KernelCall> wider = made.with_axis();
  if (wider) SharedCall(*wider, evaluation.read(*wider), evaluation).make_of_parts();
  else made.make_of_parts();
  return true;
}

}  // namespace piper::verify
