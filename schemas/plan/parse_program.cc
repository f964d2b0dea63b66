#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/field_reader.h"
#include "schemas/plan/program_fields.h"

namespace piper::plan {
namespace {

constexpr size_t kMaxAxes = 16;

// A number at the beginning of `text`, which is moved after it; `by_samples`: also "n" and "3n", multiples of a
// reference's samples.
bool take_number(std::string_view& text, bool by_samples, int64_t& value) {
  value = 1;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool digits = result.ec == std::errc();
  if (digits) text.remove_prefix(static_cast<size_t>(result.ptr - text.data()));
  else if (result.ec != std::errc::invalid_argument) return false;
  const bool samples = by_samples && !text.empty() && text.front() == 'n';
  if (samples) text.remove_prefix(1);
  return value >= 0 && (digits || samples) && (!samples || !__builtin_mul_overflow(value, Reference::kSamples, &value));
}

// "1,2,3" up to `close`; moves `text` after it.
bool split_numbers(std::string_view& text, char close, bool by_samples, std::vector<int64_t>& values) {
  while (!text.empty()) {
    if (text.front() == close) {
      text.remove_prefix(1);
      return true;
    }
    if (!values.empty()) {
      if (text.front() != ',') return false;
      text.remove_prefix(1);
    }
    int64_t value = 0;
    if (values.size() == kMaxAxes || !take_number(text, by_samples, value)) return false;
    values.push_back(value);
  }
  return false;
}

// Bytes from the operand's offset to after its last element, or nullopt on overflow.
std::optional<int64_t> extent_bytes(const Operand& operand) {
  int64_t last = 0;
  for (size_t i = 0; i < operand.shape.size(); ++i) {
    if (operand.shape[i] == 0) return 0;
    int64_t step = 0;
    if (__builtin_mul_overflow(operand.shape[i] - 1, operand.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last))
      return std::nullopt;
  }
  int64_t bytes = 0;
  if (__builtin_add_overflow(last, int64_t{1}, &last) ||
      __builtin_mul_overflow(last, dtype_bytes(operand.dtype), &bytes))
    return std::nullopt;
  return bytes;
}

class ProgramReader : public FieldReader<ProgramReader> {
 public:
  ProgramReader(std::string_view text, const std::string& file, const std::vector<Chunk>* chunks)
      : FieldReader(text, file), chunks_(chunks) {}
  using FieldReader::check;
  using FieldReader::read;

  Result<Program> parse() {
    file(program_);
    if (!reader_.ok()) return reader_.status();
    return std::move(program_);
  }
  Result<Reference> parse_reference() {
    Reference reference;
    reference_ = &reference;
    reference.program.name = "reference";
    file(reference);
    if (!reader_.ok()) return reader_.status();
    return reference;
  }

  void format(std::string_view key, int64_t expected) {
    reader_.key(key);
    const size_t at = reader_.position();
    if (const int64_t version = reader_.integer(); version != expected)
      reader_.fail(kSyntax, at,
                   "a reference of version " + std::to_string(version) + ", not " + std::to_string(expected));
  }
  void chunk(std::string_view key, int32_t& index) {
    reader_.key(key);
    const size_t at = reader_.position();
    const std::string_view name = reader_.string();
    const auto chunk = std::find_if(chunks_->begin(), chunks_->end(), [&](const Chunk& c) { return c.name == name; });
    if (chunk == chunks_->end()) reader_.fail(kName, at, "the manifest has no chunk " + in_quotes(name));
    index = static_cast<int32_t>(chunk - chunks_->begin());
  }
  void by_samples(std::string_view key, int64_t& value) {
    reader_.key(key);
    const size_t at = reader_.position();
    auto text = reader_.string();
    if (reader_.ok() && (!take_number(text, true, value) || !text.empty()))
      reader_.fail(kSyntax, at, std::string(key) + " are a number, or \"3n\": so many for each sample");
  }
  std::vector<ReferenceSlot>& slots(Reference&) { return reference_slots_; }
  void end_of(KernelCall&) {
    if (reference_ != nullptr) optional("line", reference_->lines.emplace_back(), "");
  }

  void read(std::string_view, CalledKernel& kernel, const Rule&) { kernel = reader_.string(); }
  void read(std::string_view, Operand& operand, const Rule&) {
    if (reader_.accept_null()) return;
    const size_t at = reader_.position();
    const auto text = reader_.string();
    if (reader_.ok()) parse_operand(text, at, operand);
  }
  void read(std::string_view, std::vector<Attr>& list, const Rule&) {
    reader_.open_object();
    std::string_view name;
    while (reader_.next_key(name)) {
      for (const auto& attr : list)
        if (attr.name == name)
          reader_.fail(kName, reader_.position(), "the attribute " + in_quotes(name) + " appears twice");
      Attr& attr = list.emplace_back();
      attr.name = name;
      switch (reader_.peek()) {
        case '"': attr.value = std::string(reader_.string()); break;
        case '[': attr.value = reader_.integers(); break;
        case 't':
        case 'f': attr.value = reader_.boolean(); break;
        case 'n': attr.value = reader_.real(); break;
        default:
          if (reader_.number_is_real()) attr.value = reader_.real();
          else attr.value = reader_.integer();
      }
    }
  }

  void check(const Slot& slot, size_t at) {
    if (slot.name.empty() || slot.name == kWorkspaceWord)
      reader_.fail(kName, at, "a slot cannot be called " + in_quotes(slot.name));
    check_held(at, slot);
  }
  void check(ReferenceSlot& line, size_t at) {
    Slot& slot = line.slot;
    check(slot, at);
    const auto bad = [&](std::string_view code, const char* why) {
      reader_.fail(code, at, "slot " + in_quotes(slot.name) + ": " + why);
    };
    if (line.feed != Feed::kNone && slot.role != SlotRole::kInput) bad(kSyntax, "only an input is fed");
    if (line.told() != (slot.role == SlotRole::kConstant ? 1 : 0))
      bad(kSyntax, "a constant, and nothing else, says what it holds");
    const bool has_samples = line.each > 0 || !line.sha256_of_each.empty();
    if ((line.each > 0 && line.sha256.empty()) || (has_samples && slot.bytes % Reference::kSamples != 0))
      bad(kRange, "a constant that has samples is of so many bytes for each");
    slot.reads = slot.role != SlotRole::kOutput;
    slot.writes = slot.role == SlotRole::kOutput || slot.role == SlotRole::kGradient;
  }
  void check(std::vector<ReferenceSlot>& lines, size_t) {
    for (size_t s = 0; s < lines.size(); ++s) {
      ReferenceSlot& line = lines[s];
      const auto index = static_cast<int32_t>(s);
      const bool alike = !line.sha256_of_each.empty();
      if (line.told() > 0)
        reference_->constants.push_back(
            {index, alike ? line.sha256_of_each : line.sha256, line.per_sample.value_or(0), line.each, alike});
      if (line.feed != Feed::kNone) reference_->inputs.push_back({index, line.feed});
      reference_->program.slots.push_back(std::move(line.slot));
    }
    check(reference_->program.slots, 0);
  }
  void check(const std::vector<Slot>& slots, size_t) {
    for (size_t i = 0; i < slots.size(); ++i) by_name_.emplace(slots[i].name, static_cast<int32_t>(i));
  }
  void check(const Program& program, size_t at) {
    if (program.name.empty()) reader_.fail(kName, at, "a program without a name");
  }

 private:
  // What a slot may say that it holds depends on its role.
  bool check_held(size_t at, const Slot& slot) {
    const auto bad = [&](const char* why) {
      return reader_.fail(kSyntax, at, "slot " + in_quotes(slot.name) + ": " + why);
    };
    if ((slot.spread == Spread::kSame) != (slot.cut < 0))
      return bad("a part or a share, and nothing else, is of a cut");
    const bool share_of_gradient = slot.role == SlotRole::kGradient && slot.spread == Spread::kShare;
    if (slot.cut >= 0 && slot.role != SlotRole::kInput && slot.role != SlotRole::kOutput && !share_of_gradient)
      return bad("only what arrives or leaves is a part or a share, and a gradient a share");
    if (slot.cut >= 0 && !slot.of.empty() && !share_of_gradient) return bad("an input of the model is no part");
    const StepNumber holds = slot.holds;
    const bool term = holds == StepNumber::kLoss || holds == StepNumber::kCount;
    const bool added = term || holds == StepNumber::kDropped;
    if (!slot.of.empty() && slot.role != SlotRole::kInput && slot.role != SlotRole::kParameter &&
        slot.role != SlotRole::kGradient && slot.role != SlotRole::kState)
      return bad("only an input, a parameter, a gradient or a state is of the model");
    if (holds == StepNumber::kNone) return slot.term == 0 || bad("only a loss and a count have terms");
    if (!slot.of.empty()) return bad("what is of the model is no number of the step");
    if (added ? slot.role != SlotRole::kGradient && slot.role != SlotRole::kOutput : slot.role != SlotRole::kScalar)
      return bad("another role than that of what it holds");
    return slot.term == 0 || (term && slot.term > 0) || bad("only a loss and a count have terms");
  }

  bool parse_operand(std::string_view text, size_t at, Operand& operand) {
    const auto malformed = [&] {
      return reader_.fail(kSyntax, at,
                          "operand " + in_quotes(text) + " is not of the form \"name+offset dtype[shape]{strides}\"");
    };
    const bool by_samples = reference_ != nullptr;
    const Program& program = by_samples ? reference_->program : program_;
    const size_t space = text.rfind(' ');
    if (space == std::string_view::npos) return malformed();
    auto type = text.substr(space + 1);
    const size_t bracket = type.find('[');
    if (bracket == std::string_view::npos) return malformed();
    const auto dtype = dtype_from_name(type.substr(0, bracket));
    const auto place = split_offset(text.substr(0, space));
    type.remove_prefix(bracket + 1);
    if (!dtype || !place || !split_numbers(type, ']', by_samples, operand.shape)) return malformed();
    operand.dtype = *dtype;
    operand.offset = place->offset;
    if (type.empty()) {
      operand.strides = contiguous_strides(operand.shape);
    } else {
      if (type.front() != '{') return malformed();
      type.remove_prefix(1);
      if (!split_numbers(type, '}', by_samples, operand.strides) || !type.empty() ||
          operand.strides.size() != operand.shape.size())
        return malformed();
    }
    int64_t room = program.workspace_bytes;
    operand.slot = Operand::kWorkspace;
    if (place->name != kWorkspaceWord) {
      const auto found = by_name_.find(place->name);
      if (found == by_name_.end())
        return reader_.fail(kName, at,
                            "operand " + in_quotes(text) + ": the program has no slot " + in_quotes(place->name));
      operand.slot = found->second;
      room = program.slots[static_cast<size_t>(operand.slot)].bytes;
    }
    const auto count = element_count(operand.shape);
    const auto bytes = extent_bytes(operand);
    if (!count || !bytes || !range_inside(operand.offset, *bytes, room))
      return reader_.fail(kRange, at,
                          "operand " + in_quotes(text) + " goes beyond the " + std::to_string(room) + " bytes of " +
                              in_quotes(place->name));
    if (operand.offset % dtype_bytes(operand.dtype) != 0)
      return reader_.fail(kRange, at,
                          "operand " + in_quotes(text) + ": the offset is not a multiple of the element size");
    return true;
  }

  const std::vector<Chunk>* chunks_;
  Program program_;
  Reference* reference_ = nullptr;  // that is read
  std::vector<ReferenceSlot> reference_slots_;
  std::unordered_map<std::string_view, int32_t> by_name_;
};

}  // namespace

Result<Program> parse_program(std::string_view text, const std::string& file, const std::vector<Chunk>& chunks) {
  return ProgramReader(text, file, &chunks).parse();
}

Result<Reference> parse_reference(std::string_view text, const std::string& file) {
  return ProgramReader(text, file, nullptr).parse_reference();
}

}  // namespace piper::plan
