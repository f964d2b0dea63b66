#include "schemas/verify/numbers/link.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include "schemas/plan/actions.h"
#include "schemas/plan/attrs.h"
#include "schemas/plan/dtype.h"
#include "schemas/plan/names.h"
#include "schemas/verify/held_name.h"
#include "schemas/verify/numbers/constants.h"
#include "schemas/verify/numbers/exchange.h"
#include "schemas/verify/numbers/parts_of_places.h"
#include "schemas/verify/numbers/sums.h"

namespace piper::verify {

using namespace plan;

namespace {

constexpr char kTooDeep[] = "a chain of more programs than the proof follows";

bool is_value(SlotRole role) {
  return role == SlotRole::kInput || role == SlotRole::kOutput || role == SlotRole::kSaved || role == SlotRole::kScalar;
}

// Values that chunks exchange are named alike everywhere; saved blocks within a chunk.
std::string label(const std::string& chunk, const Slot& slot) {
  return slot.role == SlotRole::kSaved ? chunk + '\n' + slot.name : held_name(slot);
}

// Whether calls read a slot, and do not only add to it.
bool is_read(const Program& program, int32_t slot) {
  return std::any_of(program.calls.begin(), program.calls.end(), [&](const KernelCall& call) {
    return std::any_of(call.inputs.begin(), call.inputs.end(), [&](const Operand& in) { return in.slot == slot; });
  });
}

// Whether calls change what a slot holds, and do not only clear it.
bool is_changed(const Program& program, int32_t slot) {
  return std::any_of(program.calls.begin(), program.calls.end(), [&](const KernelCall& call) {
    if (!call.accumulate && is_zero_fill(call)) return false;
    return std::any_of(call.outputs.begin(), call.outputs.end(), [&](const Operand& out) { return out.slot == slot; });
  });
}

// [program] whether a rank runs it: of others nothing is made.
std::vector<char> programs_run(const Bundle& bundle) {
  std::vector<char> run(bundle.programs.size());
  std::set<const void*> seen;  // instructions that several ranks share
  for (const auto& rank : bundle.ranks) {
    if (!seen.insert(rank.instructions.storage()).second) continue;
    for (const auto& instruction : rank.instructions)
      if (const Run* const launch = run_of(instruction.action)) run[static_cast<size_t>(launch->program)] = 1;
  }
  return run;
}

// What constant slots hold, by the first run of each program; rule 9 says that all runs of it read the same.
std::vector<std::vector<std::string>> constants_of_programs(const Bundle& bundle) {
  std::vector<std::vector<std::string>> constants(bundle.programs.size());
  std::unordered_map<std::string, const ConstantContent*> contents;
  for (const auto& constant : bundle.constants) contents.emplace(constant.name, &constant);
  std::vector<char> seen(bundle.programs.size());
  std::set<const void*> walked;  // instructions that several ranks share
  for (const auto& rank : bundle.ranks) {
    if (!walked.insert(rank.instructions.storage()).second) continue;
    // By buffer, offset and bytes: one without elements may lie where another begins.
    std::map<std::tuple<int32_t, int64_t, int64_t>, const std::string*> placed;
    for (const auto& placement : rank.placements)
      if (placement.kind == PlacementKind::kConstant)
        placed.emplace(std::tuple(placement.part.where.buffer, placement.part.where.offset,
                                  placement.part.count * dtype_bytes(placement.dtype)),
                       &placement.name);
    for (const auto& instruction : rank.instructions) {
      const Run* const run = run_of(instruction.action);
      if (run == nullptr || seen[static_cast<size_t>(run->program)]) continue;
      seen[static_cast<size_t>(run->program)] = 1;
      const auto& slots = bundle.programs[static_cast<size_t>(run->program)].slots;
      const auto& arguments = rank.arguments[static_cast<size_t>(run->arguments)].arguments;
      auto& list = constants[static_cast<size_t>(run->program)];
      list.resize(slots.size());
      for (size_t s = 0; s < slots.size(); ++s) {
        if (slots[s].role != SlotRole::kConstant) continue;
        const auto name = placed.find({arguments[s].buffer, arguments[s].offset, slots[s].bytes});
        const auto content = name == placed.end() ? contents.end() : contents.find(*name->second);
        if (content != contents.end()) list[s] = content->second->sha256;
      }
    }
  }
  return constants;
}

}  // namespace

LinkedPrograms::LinkedPrograms(const Bundle& bundle, const Leaves& leaves, const Exchanges& exchanges, bool by_pieces,
                               NumberTable& table)
    : manifest_(bundle.manifest),
      leaves_(leaves),
      exchanges_(exchanges),
      table_(table),
      runs_(bundle.programs.size()),
      chunks_(bundle.programs.size()),
      state_(bundle.programs.size()),
      constants_(constants_of_programs(bundle)) {
  const std::vector<char> is_run = programs_run(bundle);
  for (size_t p = 0; p < bundle.programs.size(); ++p) {
    const std::optional<ChunkPass>& of = bundle.programs[p].of;
    if (!of || !is_run[p]) continue;
    chunks_[p] = bundle.manifest.chunks.at(static_cast<size_t>(of->chunk)).name;
    NumberedProgram& run = runs_[p];
    run.program = &bundle.programs[p];
    run.index = static_cast<int32_t>(p);
    run.samples = std::max<int64_t>(of->samples, 1);
    run.batch = leaves_.batch();
    run.whole = run.samples == run.batch;
    run.by_pieces = by_pieces;
    for (const Cut& cut : manifest_.cuts) run.places.push_back(cut.groups.empty() ? 0 : cut.places());
    run.known = table.size();
    run.slots.resize(run.program->slots.size());
    for (const Slot& slot : run.program->slots)
      if (slot.writes && is_value(slot.role)) makers_[label(chunks_[p], slot)].push_back(run.index);
  }
  for (const ConstantContent& constant : bundle.constants)
    if (constant.value && constant.dtype == DType::kF32)
      (void)constant_of(*constant.value, table);  // known from now on
}

void LinkedPrograms::make() {
  for (size_t p = 0; p < runs_.size(); ++p)
    if (runs_[p].program != nullptr) evaluate(static_cast<int32_t>(p));
}

// What a program left in its slot of this name, for a slot of so many bytes of a program for pieces of `samples`.
HeldValues LinkedPrograms::left_by(int32_t maker, const std::string& name, int64_t samples, int64_t bytes) {
  const NumberedProgram& run = runs_[static_cast<size_t>(maker)];
  const auto& slots = run.program->slots;
  for (size_t s = 0; s < slots.size(); ++s) {
    if (!slots[s].writes || label(chunks_[static_cast<size_t>(maker)], slots[s]) != name) continue;
    if (run.samples == samples) return slots[s].bytes == bytes ? run.slots[s] : HeldValues();
    // One value for each sample, row by row: the pieces of another size are parts of it.
    HeldValues values;
    if (run.slots[s].all().size() != 1) return values;
    const auto& [begin, value] = *run.slots[s].all().begin();
    const Number& number = table_[value.number];
    // What a place has, too: its part of each sample.
    const Spread& has = value.spread;
    const Spread of_place{
        .devices = has.devices, .part = has.part, .pieces = has.pieces, .share = has.share, .cut = has.cut};
    const bool spread =
        value.places.is_spread() || (value.spread.is_spread() && (value.spread.cut < 0 || value.spread != of_place));
    if (begin != 0 || value.first != 0 || value.block > 0 || spread || number.over == Over::kSum ||
        number.over == Over::kPiece)
      return values;
    HeldValue other = value;
    if (number.over == Over::kEach)
      other.end = number.bytes / (value.spread.part > 0 ? value.spread.devices : 1) * samples;
    if (value.period > 0 || number.over == Over::kUnknown) other.end = bytes;
    values.put(0, other);
    return values;
  }
  return {};
}

const Slot* LinkedPrograms::slot_of(int32_t maker, const std::string& name) const {
  for (const Slot& slot : runs_[static_cast<size_t>(maker)].program->slots)
    if (slot.writes && is_value(slot.role) && label(chunks_[static_cast<size_t>(maker)], slot) == name) return &slot;
  return nullptr;
}

HeldValues LinkedPrograms::left_by_all(const std::string& label, int32_t reader, int64_t bytes) {
  HeldValues held;
  const auto makers = makers_.find(label);
  if (makers == makers_.end()) return held;
  bool first = true;
  for (const int32_t maker : makers->second) {
    if (maker == reader) continue;
    if (state_[static_cast<size_t>(maker)] == 1) return {};
    evaluate(maker);
    HeldValues left = left_by(maker, label, runs_[static_cast<size_t>(reader)].samples, bytes);
    if (!first && held.all() != left.all()) return {};
    held = std::move(left);
    first = false;
  }
  return held;
}

void LinkedPrograms::fill_from_makers(int32_t program, int32_t slot) {
  NumberedProgram& run = runs_[static_cast<size_t>(program)];
  const Slot& reader = run.program->slots[static_cast<size_t>(slot)];
  HeldValues& held = run.slots[static_cast<size_t>(slot)];
  const std::string name = label(chunks_[static_cast<size_t>(program)], reader);
  const auto unknown = [&](const std::string& why) {
    held = {};
    held.put(0, {reader.bytes, 0, table_.unknown(why)});
  };
  auto makers = makers_.find(name);
  const auto exchange = makers == makers_.end() ? exchanges_.find(name) : exchanges_.end();
  if (exchange != exchanges_.end()) makers = makers_.find(exchange->second.sent);
  if (makers == makers_.end())
    return unknown("a value that no program of a chunk makes: an exchange, or a count of terms");
  const std::string& made_as = exchange != exchanges_.end() ? exchange->second.sent : name;
  std::vector<CountedRows> counts;
  if (exchange != exchanges_.end()) {
    const int64_t bytes = exchange->second.devices * dtype_bytes(DType::kI64);
    for (const auto& [sent, received] : exchange->second.counts)
      counts.push_back({left_by_all(sent, program, bytes), left_by_all(received, program, bytes)});
  }
  const auto places_of = [&](int32_t cut) {
    return static_cast<size_t>(cut) < manifest_.cuts.size() ? manifest_.cuts[static_cast<size_t>(cut)].places() : 0;
  };
  bool first = true;
  for (const int32_t maker : makers->second) {
    if (maker == program) return unknown("a value that its own reader makes");
    // Rule 9: what a slot says is a part, or a share, is what its maker says is one. Where shares were added up, or one
    // is where a whole should be, it was added up over the places of its cut (rule 8).
    const Slot* const made = slot_of(maker, made_as);
    const int32_t over = exchange != exchanges_.end() ? exchange->second.cut
                         : made != nullptr && made->spread == plan::Spread::kShare && reader.cut < 0 ? made->cut
                                                                                                     : -1;
    std::vector<Exchange> conversions;  // one after the other
    if (exchange != exchanges_.end()) conversions = exchange->second.before, conversions.push_back(exchange->second);
    else conversions.resize(1);
    const bool gathered = conversions[0].by == Exchange::By::kAllGather;
    const plan::Spread sent = gathered ? plan::Spread::kPart : plan::Spread::kShare;
    // Across places a part went where there are the rows of all, or came back from there.
    const int32_t across = exchange != exchanges_.end() ? exchange->second.across : -1;
    const bool as_read =
        made == nullptr || (made->spread == reader.spread && made->cut == reader.cut) ||
        (across >= 0 && made != nullptr &&
         (made->cut == across ? made->spread == plan::Spread::kPart && reader.cut < 0
                              : made->cut < 0 && reader.spread == plan::Spread::kPart && reader.cut == across));
    const bool as_sent = made != nullptr && made->spread == sent && made->cut == over;
    if (over >= 0 ? !as_sent : !as_read) continue;
    const bool same_size = runs_[static_cast<size_t>(maker)].samples == run.samples;
    // A saved block stays with its chunk, whose programs for other pieces have their own.
    if (reader.role == SlotRole::kSaved && !same_size) continue;
    if (state_[static_cast<size_t>(maker)] == 1) return unknown("a value that depends on itself");
    evaluate(maker);
    // As much as is sent; what arrives last is as large as the reader's slot.
    std::vector<int64_t> bytes{reader.bytes};
    for (size_t i = conversions.size(); i-- > 0;) {
      const auto places = static_cast<int64_t>(over < 0 ? 1 : places_of(over));
      const Exchange::By by = conversions[i].by;
      bytes.push_back(by == Exchange::By::kAllGather       ? bytes.back() / places
                      : by == Exchange::By::kReduceScatter ? bytes.back() * places
                                                           : bytes.back());
    }
    HeldValues left = left_by(maker, made_as, run.samples, bytes.back());
    for (const Exchange& conversion : conversions) {
      bytes.pop_back();
      if (over < 0) break;
      if (conversion.cut >= 0 && conversion.cut != over) return unknown("a value that several cuts convert");
      const auto places = static_cast<int64_t>(places_of(over));
      left = conversion.by == Exchange::By::kAllReduce
                 ? added_up(left, over, places, bytes.back(), program, table_)
                 : of_places(left, conversion, places, bytes.back(), run.samples, program, table_);
    }
    if (over < 0 && exchange != exchanges_.end())
      left = exchanged(left, exchange->second, counts, reader.bytes, run.samples, program, table_);
    if (first) {
      held = std::move(left);
      first = false;
      continue;
    }
    // Several programs make it: they must make the same.
    if (held.all() != left.all()) return unknown("a value that programs make differently");
  }
}

// A statistic is, where a step reads it first, what the step before left: of one that other chunks change in between
// nothing is said.
bool LinkedPrograms::is_changed_elsewhere(int32_t program, const Slot& state) const {
  for (size_t p = 0; p < runs_.size(); ++p) {
    if (runs_[p].program == nullptr || chunks_[p] == chunks_[static_cast<size_t>(program)]) continue;
    for (const Slot& slot : runs_[p].program->slots)
      if (slot.role == SlotRole::kState && slot.writes && held_name(slot) == held_name(state)) return true;
  }
  return false;
}

// What the programs of all chunks add to the slots that hold this. Those of one chunk must add the same.
int32_t LinkedPrograms::total_of_slot(const std::string& name, int64_t bytes) {
  std::map<std::string, Terms> of_chunk;
  for (size_t p = 0; p < runs_.size(); ++p) {
    if (runs_[p].program == nullptr) continue;
    const auto& slots = runs_[p].program->slots;
    const auto slot = std::find_if(slots.begin(), slots.end(), [&](const Slot& s) {
      return s.role == SlotRole::kGradient && held_name(s) == name;
    });
    const auto index = static_cast<int32_t>(slot - slots.begin());
    if (slot == slots.end()) continue;
    if (is_read(*runs_[p].program, index)) {
      if (is_changed(*runs_[p].program, index))
        return table_.unfit("a sum that one of its readers changes", static_cast<int32_t>(p), 0);
      continue;
    }
    if (state_[p] == 1) return table_.unknown("a sum over the step that depends on itself");
    evaluate(static_cast<int32_t>(p));
    Terms terms;
    for (const Contribution& contribution : runs_[p].contributions)
      if (contribution.slot == index) append_terms(contribution, static_cast<int32_t>(p), table_, terms);
    const auto [known, fresh] = of_chunk.try_emplace(chunks_[p], terms);
    if (!fresh && !same_terms(known->second, terms, table_))
      return table_.unknown("a sum over the step that programs add to differently");
  }
  Terms all;
  for (auto& [chunk, terms] : of_chunk) all.insert(all.end(), terms.begin(), terms.end());
  return total_of(std::move(all), bytes, table_);
}

void LinkedPrograms::evaluate(int32_t program) {
  const auto p = static_cast<size_t>(program);
  if (state_[p] != 0) return;
  state_[p] = 1;
  const bool deepest = depth_++ >= kDeepest;
  NumberedProgram& run = runs_[p];
  for (size_t s = 0; s < run.program->slots.size(); ++s) {
    const Slot& slot = run.program->slots[s];
    if (slot.role == SlotRole::kGradient && !manifest_.cuts.empty()) {
      run.parts.resize(run.slots.size());
      run.parts[s] = leaves_.part_of_cut(slot);
    }
    if (slot.role == SlotRole::kGradient && is_read(*run.program, static_cast<int32_t>(s))) {
      run.totals.resize(run.slots.size(), -1);
      run.totals[s] = is_changed(*run.program, static_cast<int32_t>(s))
                          ? table_.unfit("a sum that its reader changes", program, 0)
                      : deepest ? table_.unknown(kTooDeep)
                                : total_of_slot(held_name(slot), slot.bytes);
    }
    if (!slot.reads || slot.role == SlotRole::kGradient) continue;
    const std::string& constant = constants_[p].empty() ? std::string() : constants_[p][s];
    int32_t leaf = leaves_.of_slot(slot, run.samples, constant, table_);
    if (slot.role == SlotRole::kState && is_changed_elsewhere(program, slot))
      leaf = table_.unknown("running statistics that several chunks change");
    if (leaf >= 0 && makers_.count(held_name(slot)) != 0)
      leaf = table_.unknown("a value called like what a step begins with");
    if (leaf < 0 && deepest) leaf = table_.unknown(kTooDeep);
    if (leaf >= 0) run.slots[s].put(0, leaves_.held(*run.program, slot, leaf, table_));
    else fill_from_makers(program, static_cast<int32_t>(s));
  }
  number_program(run, table_);
  state_[p] = 2;
  --depth_;
}

}  // namespace piper::verify
