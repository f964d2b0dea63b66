#include "schemas/verify/numbers/equality.h"

#include <algorithm>
#include <map>
#include <set>

#include "schemas/plan/names.h"
#include "schemas/verify/held_name.h"
#include "schemas/verify/numbers/constants.h"
#include "schemas/verify/numbers/leaves.h"
#include "schemas/verify/numbers/link.h"
#include "schemas/verify/numbers/pieces.h"
#include "schemas/verify/numbers/reference.h"
#include "schemas/verify/numbers/shares.h"
#include "schemas/verify/numbers/sums.h"
#include "schemas/verify/rules.h"

namespace piper::verify {

using namespace plan;

namespace {

bool is_dropped(const Slot& slot) { return slot.holds == StepNumber::kDropped; }
bool is_changed_statistic(const Slot& slot) { return slot.role == SlotRole::kState && slot.writes; }
bool any_slot(const Program& program, bool (*is)(const Slot&)) {
  return std::any_of(program.slots.begin(), program.slots.end(), is);
}

std::string results_of(const Bundle& bundle) {
  if (bundle.manifest.evaluates) return "terms of the loss and counts";
  std::vector<std::string> results = {"gradients", "losses"};
  if (!bundle.reference.empty() && any_slot(bundle.reference.front().program, is_dropped))
    results.emplace_back("numbers of dropped rows");
  if (std::any_of(bundle.programs.begin(), bundle.programs.end(),
                  [](const Program& program) { return any_slot(program, is_changed_statistic); }))
    results.emplace_back("running statistics");
  std::string text = results[0];
  for (size_t i = 1; i < results.size(); ++i) text += (i + 1 < results.size() ? ", " : " and ") + results[i];
  return text;
}

class Comparison {
 public:
  Comparison(const Bundle& bundle, const Exchanges& exchanges)
      : bundle_(bundle),
        leaves_(bundle),
        table_(knowing(bundle.constants)),
        reference_(number_reference(bundle.reference.front(), leaves_, table_)),
        num_known_(table_.size()),
        plan_(bundle, leaves_, exchanges, reference_.by_pieces, table_) {}

  Result<EqualityReport> make() {
    report_.results = results_of(bundle_);
    PIPER_RETURN_IF_ERROR(check_feeds());
    if (reference_.by_pieces) {
      report_.piece = reference_.samples;
      report_.mixing = kernels_that_mix(reference_.made, table_);
    }
    plan_.make();
    PIPER_RETURN_IF_ERROR(check_spreads());
    made_.assign(static_cast<size_t>(table_.size()), 0);
    for (const NumberedProgram& run : plan_.programs()) {
      other_pieces_ = other_pieces_ || (run.program != nullptr && reference_.by_pieces && run.samples != report_.piece);
      ambiguous_ = ambiguous_ || (run.program != nullptr && run.samples == 1);
      ambiguous_ = ambiguous_ || has_one_expert(run) || run.ambiguous;
      for (const int32_t number : run.made) made_[static_cast<size_t>(number)] = 1;
      for (const HeldValues& slot : run.slots)  // constants that piperc has computed
        for (const auto& [begin, value] : slot.all()) made_[static_cast<size_t>(value.number)] = 1;
    }
    collect();
    report_.looked = true;
    report_.numbers = table_.size();
    for (const auto& [name, wanted] : wanted_) PIPER_RETURN_IF_ERROR(compare(name, wanted, found_[name]));
    for (const auto& [name, found] : found_)
      if (wanted_.count(name) == 0) PIPER_RETURN_IF_ERROR(compare(name, {}, found));
    if (!other_pieces_) PIPER_RETURN_IF_ERROR(check_statistics());
    return report_;
  }

 private:
  // Values of constants that the model may divide by, too.
  static NumberTable knowing(const std::vector<ConstantContent>& constants) {
    NumberTable table;
    for (const ConstantContent& constant : constants)
      if (constant.value && constant.dtype == DType::kBF16)
        table.learn("constant " + constant.sha256, dtype_bytes(constant.dtype), *constant.value);
    return table;
  }

  // An input is one value to programs, whatever it is fed with: labels in the place of tokens are found here alone.
  Status check_feeds() const {
    const Reference& reference = bundle_.reference.front();
    const int64_t most = reference_.by_pieces ? bundle_.manifest.batch : Reference::kSamples;
    if (reference_.samples > most)
      return refuted("the manifest says that a sample of an input is smaller than one of the model");
    for (size_t s = 0; s < reference.program.slots.size(); ++s) {
      const Slot& slot = reference.program.slots[s];
      if (slot.role != SlotRole::kInput) continue;
      const auto fed =
          std::find_if(reference.inputs.begin(), reference.inputs.end(),
                       [&](const Reference::Input& input) { return input.slot == static_cast<int32_t>(s); });
      const Feed wanted = fed == reference.inputs.end() ? Feed::kNone : fed->feed;
      for (const InputDecl& input : bundle_.manifest.inputs)
        if (input.name == slot.of && input.feed != wanted)
          return refuted("the manifest feeds " + told(input.feed) + " to input " + in_quotes(input.name) +
                         ", the model takes " + told(wanted));
    }
    return {};
  }
  static std::string told(Feed feed) {
    return feed == Feed::kNone ? "tensors of its own" : in_quotes(std::string(feed_name(feed))) + " of a token stream";
  }

  // What a slot says that a place has of a value is what the program leaves there, as far as that is known. A part of
  // which all places have the same is one anyway. What was read in a way that is right, but not the model's, may look
  // like another thing: rules 8 and 9 go by what the slot says, so that nothing is proved of it.
  Status check_spreads() {
    const std::vector<NumberedProgram>& programs = plan_.programs();
    const bool ambiguous =
        std::any_of(programs.begin(), programs.end(), [](const NumberedProgram& run) { return run.ambiguous; });
    for (const NumberedProgram& run : programs)
      for (size_t s = 0; s < run.slots.size(); ++s) {
        const Slot& slot = run.program->slots[s];
        const bool leaves =
            slot.role == SlotRole::kInput || slot.role == SlotRole::kOutput || slot.role == SlotRole::kScalar;
        if (!slot.writes || !leaves) continue;
        for (const auto& [begin, value] : run.slots[s].all()) {
          const Spread& found = value.places.is_spread() ? value.places : value.spread;
          if (table_[value.number].over == Over::kUnknown || found.cut < 0) continue;
          if (found.part == 0 && !found.share) continue;
          // The parts that all places sent are all there: to rules 8 and 9 these are whole.
          const plan::Spread is = found.share               ? plan::Spread::kShare
                                  : value.spread.across < 0 ? plan::Spread::kPart
                                                            : plan::Spread::kSame;
          if (slot.spread == is && (slot.cut == found.cut || is == plan::Spread::kSame)) continue;
          const bool either = is == plan::Spread::kPart && slot.spread == plan::Spread::kShare &&
                              slot.cut == found.cut && is_share_of_sum(found);
          if (either || ambiguous || run.samples == 1) {
            leave_open(either ? kPartAsShare
                              : "what ranks of one expert or of one sample leave, whose views do not always show which "
                                "axis it is",
                       held_name(slot));
            continue;
          }
          return refuted("program " + in_quotes(run.program->name) + " leaves a " + std::string(spread_name(is)) +
                         " of a value in slot " + in_quotes(slot.name) + ", which says that it is " +
                         (slot.cut < 0 ? "the whole" : "another thing"));
        }
      }
    return {};
  }

  // What a program leaves in a running statistic is what the model leaves there after the same samples.
  Status check_statistics() {
    std::map<std::string, const HeldValues*> left;
    for (size_t s = 0; s < reference_.slots.size(); ++s)
      if (const Slot& slot = reference_.program->slots[s]; slot.role == SlotRole::kState)
        left.emplace(held_name(slot), &reference_.slots[s]);
    std::map<std::string, bool> proved;  // by name: all programs that change it leave what the model leaves
    for (const NumberedProgram& run : plan_.programs())
      for (size_t s = 0; s < run.slots.size(); ++s) {
        const Slot& slot = run.program->slots[s];
        if (!is_changed_statistic(slot)) continue;
        const std::string name = held_name(slot);
        const auto model = left.find(name);
        if (model == left.end())
          return refuted("program " + in_quotes(run.program->name) + " changes the running statistic " +
                         in_quotes(name) + ", the model does not");
        const HeldValues& found = run.slots[s];
        const bool same = found.all() == model->second->all();
        const Number* const unknown = unknown_in(found);
        bool& all_same = proved.try_emplace(name, true).first->second;
        all_same = all_same && same && unknown == nullptr;
        if (!same && (unknown == nullptr || unknown->unfit))
          return refuted("program " + in_quotes(run.program->name) +
                         " leaves something else in the running statistic " + in_quotes(name) + " than the model");
        if (unknown != nullptr) leave_open(unknown->why, name);
      }
    report_.proved += std::count_if(proved.begin(), proved.end(), [](const auto& of) { return of.second; });
    return {};
  }
  const Number* unknown_in(const HeldValues& values) const {
    for (const auto& [begin, value] : values.all())
      if (const Number& number = table_[value.number]; number.over == Over::kUnknown) return &number;
    return nullptr;
  }

  bool has_one_expert(const NumberedProgram& run) const {
    return run.program != nullptr && std::any_of(run.program->slots.begin(), run.program->slots.end(),
                                                 [&](const Slot& slot) { return leaves_.is_of_one_expert(slot); });
  }

  // What is added to each sum: by the reference, and by the programs of each chunk.
  void collect() {
    for (const Contribution& contribution : reference_.contributions)
      if (const Slot& slot = slot_of(reference_, contribution); is_result(bundle_.manifest, slot))
        append_terms(contribution, -1, table_, wanted_[held_name(slot)]);
    std::map<std::pair<std::string, std::string>, Terms> of_chunk;  // (chunk, slot)
    for (size_t p = 0; p < plan_.programs().size(); ++p) {
      std::map<std::string, Terms> of_program;
      for (const Contribution& contribution : plan_.programs()[p].contributions)
        if (const Slot& slot = slot_of(plan_.programs()[p], contribution); is_result(bundle_.manifest, slot))
          append_terms(contribution, static_cast<int32_t>(p), table_, of_program[held_name(slot)]);
      // For the programs of a chunk that add to a sum each microbatch runs one: all must add the same.
      for (auto& [name, terms] : of_program) {
        const auto [known, fresh] = of_chunk.try_emplace({plan_.chunk(p), name}, terms);
        if (!fresh && !same_terms(known->second, terms, table_)) differing_.emplace(name, static_cast<int32_t>(p));
      }
    }
    for (auto& [key, terms] : of_chunk) {
      Terms& all = found_[key.second];
      all.insert(all.end(), terms.begin(), terms.end());
    }
  }

  static const Slot& slot_of(const NumberedProgram& run, const Contribution& contribution) {
    return run.program->slots[static_cast<size_t>(contribution.slot)];
  }

  Status compare(const std::string& name, const Terms& wanted, const Terms& found) {
    if (other_pieces_) {
      leave_open("microbatches of other sizes than the reference's " + std::to_string(report_.piece) + " samples",
                 name);
      return {};
    }
    const Number* unknown = unknown_in(wanted);
    const bool covered = unknown == nullptr;  // the model's own
    if (covered) unknown = unknown_in(found);
    // Pieces take a total from the step before, the model makes it on the way: the same numbers in another order. Asked
    // where something differs, as it walks all that the sum is made of.
    const auto by_totals = [&] { return reference_.whole && (has_total(wanted) || has_total(found)); };
    if (covered && unknown != nullptr && unknown->unfit && !ambiguous_ && unknown->program >= 0 && !by_totals()) {
      const Program& program = bundle_.programs[static_cast<size_t>(unknown->program)];
      const std::string where = unknown->call < 0 ? "reads what came by" : tell_call(program, unknown->call) + ":";
      return refuted("on the way to " + in_quotes(name) + ", program " + in_quotes(program.name) + " " + where + " " +
                     unknown->why);
    }
    if (unknown != nullptr) {
      leave_open(unknown->why, name);
      return {};
    }
    const auto other = differing_.find(name);
    if (other != differing_.end())
      return refuted("program " + in_quotes(bundle_.programs[static_cast<size_t>(other->second)].name) + " adds to " +
                     in_quotes(name) + " something else than other programs of its chunk");
    Terms missing, foreign;
    differences(wanted, found, table_, missing, foreign);
    if (missing.empty() && foreign.empty()) {
      ++report_.proved;
      return {};
    }
    if (ambiguous_) {
      leave_open("microbatches of one sample, or ranks of one expert, whose views do not always show which axis it is",
                 name);
      return {};
    }
    if (by_totals()) {
      leave_open("a sum over the step as a factor or a divisor", name);
      return {};
    }
    if (std::any_of(missing.begin(), missing.end(),
                    [&](const Term& term) { return lacks_constant(term.view.number); })) {
      leave_open(kOfConstants, name);
      return {};
    }
    const auto share = [&](const Term& term) { return table_[term.view.number].by == Maker::How::kShare; };
    const bool other_weight = std::any_of(missing.begin(), missing.end(), [&](const Term& term) {
      return std::any_of(foreign.begin(), foreign.end(),
                         [&](const Term& other) { return same_value(term.view.number, other.view.number, table_); });
    });
    // Where nothing is added in the place of what is missing, no other way to add a part explains it.
    if (!foreign.empty() && !other_weight &&
        (std::any_of(missing.begin(), missing.end(), share) || std::any_of(foreign.begin(), foreign.end(), share))) {
      leave_open("a value without samples, of which every microbatch adds a part", name);
      return {};
    }
    std::string story;
    if (!foreign.empty()) story = tell_foreign(foreign.front(), name);
    if (!missing.empty())
      story += (story.empty() ? "no program" : "; no program") + tell_missing(missing.front(), name);
    return refuted(story);
  }

  const Number* unknown_in(const Terms& terms) const {
    for (const Term& term : terms)
      if (const Number& number = table_[term.view.number]; number.over == Over::kUnknown) return &number;
    return nullptr;
  }
  // Whether a sum over the step, which is no more a sum, enters.
  bool has_total(const Terms& terms) const {
    std::vector<int32_t> left;
    for (const Term& term : terms) left.push_back(term.view.number);
    std::set<int32_t> seen;
    while (!left.empty()) {
      const int32_t number = left.back();
      left.pop_back();
      if (number < 0 || !seen.insert(number).second) continue;
      if (table_[number].total) return true;
      for (const View& view : table_[number].operands) left.push_back(view.number);
      left.insert(left.end(), table_[number].addends.begin(), table_[number].addends.end());
    }
    return false;
  }
  // Whether something that no program makes is made of constants alone, among what makes a number of the reference.
  bool lacks_constant(int32_t from) const {
    std::vector<int32_t> left{from};
    std::set<int32_t> seen;
    while (!left.empty()) {
      const int32_t number = left.back();
      left.pop_back();
      const Number& of = table_[number];
      const bool made_by_call = of.call >= 0 || of.folded;
      if (made_[static_cast<size_t>(number)] != 0 || !made_by_call || !seen.insert(number).second) continue;
      if (of.constant) return true;
      const auto end = of.divided ? of.operands.begin() + 1 : of.operands.end();  // the reciprocal is no call's
      for (auto view = of.operands.begin(); view != end; ++view)
        if (view->number >= 0) left.push_back(view->number);
    }
    return false;
  }
  void leave_open(const std::string& why, const std::string& name) {
    const auto known =
        std::find_if(report_.open.begin(), report_.open.end(), [&](const auto& open) { return open.why == why; });
    if (known != report_.open.end()) ++known->count;
    else report_.open.push_back({why, 1, name});
  }

  static Status refuted(const std::string& what) { return violates(Rule::kEquality, what); }

  std::string tell_foreign(const Term& term, const std::string& name) const {
    const Program& adder = bundle_.programs[static_cast<size_t>(term.program)];
    std::string story = "program " + in_quotes(adder.name) + " " + tell_call(adder, term.call) + " adds to " +
                        in_quotes(name) + " what the model does not";
    const int32_t number = first_new(table_, term.view.number, [&](int32_t n) { return n >= num_known_; });
    if (number < num_known_) return story;
    const Number& begin = table_[number];
    if (begin.program < 0 || (begin.program == term.program && begin.call == term.call)) return story;
    const Program& maker = bundle_.programs[static_cast<size_t>(begin.program)];
    return story + "; the difference begins at program " + in_quotes(maker.name) + " " + tell_call(maker, begin.call);
  }

  std::string tell_missing(const Term& term, const std::string& name) const {
    const Reference& reference = bundle_.reference.front();
    const int32_t number = first_new(
        table_, term.view.number, [&](int32_t n) { return made_[static_cast<size_t>(n)] == 0 && table_[n].call >= 0; });
    const Number& lacking = table_[number];
    const int32_t call = made_[static_cast<size_t>(number)] != 0 || lacking.call < 0 ? term.call : lacking.call;
    const std::string& line = reference.lines[static_cast<size_t>(call)];
    return (call == term.call ? " adds to " + in_quotes(name) + " the model's "
                              : " makes for " + in_quotes(name) + " the model's ") +
           tell_call(reference.program, call) +
           (reference.program.calls[static_cast<size_t>(call)].origin.ends_with(line) ? "" : " at " + line);
  }

  const Bundle& bundle_;
  Leaves leaves_;
  NumberTable table_;
  NumberedProgram reference_;
  int32_t num_known_;  // numbers of the reference are below
  LinkedPrograms plan_;
  bool ambiguous_ = false;     // which axis numbers the samples, or the experts, was a choice in some program
  bool other_pieces_ = false;  // than a reference for pieces is for
  std::vector<char> made_;     // [number] by the plan
  std::map<std::string, Terms> wanted_, found_;  // by what slots hold
  std::map<std::string, int32_t> differing_;     // slots to which programs of a chunk add differently: one of these
  EqualityReport report_;
};

// The manifest says how much was proved when the bundle was made, so that a change does not pass by taking a gradient
// out of the proof's reach.
Status check_claim(const EqualityReport& report, int64_t claimed) {
  if (report.proved >= claimed) return {};
  std::string why = "the bundle has no reference";
  if (report.looked)
    why = report.open.empty() ? "there are no more"
                              : "not " + in_quotes(report.open[0].first) + ": " + report.open[0].why;
  return violates(Rule::kEquality, "of the " + std::to_string(claimed) + " " + report.results +
                                       " that the manifest says are the model's, " + std::to_string(report.proved) +
                                       " are proved; " + why);
}

}  // namespace

Result<EqualityReport> check_equality(const Bundle& bundle, const Exchanges& exchanges) {
  EqualityReport report;
  report.results = results_of(bundle);
  if (!bundle.reference.empty()) {
    PIPER_ASSIGN(report, Comparison(bundle, exchanges).make());
    if (bundle.reference.size() > 1) {
      PIPER_ASSIGN(report.casts, check_casts(bundle));
    }
  }
  PIPER_RETURN_IF_ERROR(check_claim(report, bundle.manifest.proved));
  return report;
}

std::string not_proved(const EqualityReport& report) {
  if (report.whole()) return "";
  if (!report.looked) return "equality with the model is not proved: the bundle has no reference";
  int64_t open = 0;
  for (const EqualityReport::Open& reason : report.open) open += reason.count;
  const EqualityReport::Open& first = report.open.front();
  return "equality with the model is not proved for " + std::to_string(open) + " of " +
         std::to_string(open + report.proved) + " " + report.results + ", as " + in_quotes(first.first) + ": " +
         first.why;
}

std::string describe(const EqualityReport& report) {
  if (!report.looked) return "equality with the model: not proved, the bundle has no reference\n";
  std::string text = "equality with the model: " + std::string(report.whole() ? "proved: " : "proved in part: ") +
                     std::to_string(report.proved) + " " + report.results +
                     " are sums of the same values as in the model; model and plans together compute " +
                     std::to_string(report.numbers) + " different values\n";
  if (report.piece > 0) {
    text += "  for each microbatch of " + std::to_string(report.piece) + " samples separately";
    for (const std::string& kernel : report.mixing)
      text += (kernel == *report.mixing.begin() ? ", because samples are read together by " : ", ") + kernel;
    text += "\n";
  }
  const HeldCasts& casts = report.casts;
  if (casts.held > 0)
    text +=
        "  " + std::to_string(casts.held) + " of the reference as before `precision` inserted casts, up to rounding\n";
  if (casts.open > 0)
    text += "  not held to the model without casts: " + std::to_string(casts.open) + ": " + casts.why + "\n";
  for (const auto& open : report.open)
    text += "  not proved for " + std::to_string(open.count) + ", as " + in_quotes(open.first) + ": " + open.why + "\n";
  return text;
}

}  // namespace piper::verify
