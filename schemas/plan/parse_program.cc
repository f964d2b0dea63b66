#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/json_reader.h"
#include "schemas/plan/names.h"
#include "schemas/plan/reader_codes.h"

namespace piper::plan {
namespace {

constexpr size_t kMaxAxes = 16;

// A number at the beginning of `text`, which is moved behind it; `by_samples`: also "n" and "3n", multiples of a
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

// "1,2,3" up to `close`; moves `text` behind it.
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

// Bytes from the operand's offset to behind its last element, or nullopt on overflow.
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

class ProgramParser {
 public:
  ProgramParser(std::string_view text, const std::string& file) : reader_(text, file) {}

  Result<Program> parse(const std::vector<Chunk>& chunks) {
    reader_.open_object();
    reader_.key("program");
    program_.name = reader_.string();
    if (reader_.ok() && program_.name.empty()) reader_.fail(kName, reader_.position(), "a program without a name");
    if (reader_.optional_key("of")) program_.of = chunk_pass(chunks);
    reader_.key("workspace_bytes");
    const size_t at = reader_.position();
    program_.workspace_bytes = reader_.integer();
    if (program_.workspace_bytes < 0) reader_.fail(kRange, at, "workspace_bytes is negative");
    reader_.key("slots");
    reader_.open_array();
    while (reader_.next_item()) slot();
    for (size_t i = 0; i < program_.slots.size(); ++i)
      by_name_.emplace(program_.slots[i].name, static_cast<int32_t>(i));
    reader_.key("calls");
    reader_.open_array();
    while (reader_.next_item()) {
      call();
      reader_.close_object();
    }
    reader_.close_object();
    reader_.end_of_text();
    if (!reader_.ok()) return reader_.status();
    return std::move(program_);
  }

  Result<Reference> parse_reference() {
    by_samples_ = true;
    Reference reference;
    program_.name = "reference";
    reader_.open_object();
    reader_.key("reference");
    const size_t at = reader_.position();
    if (const int64_t version = reader_.integer(); reader_.ok() && version != 3)
      reader_.fail(kSyntax, at, "a reference of version " + std::to_string(version) + ", not 3");
    reader_.key("slots");
    reader_.open_array();
    while (reader_.next_item()) reference_slot(reference);
    for (size_t i = 0; i < program_.slots.size(); ++i)
      by_name_.emplace(program_.slots[i].name, static_cast<int32_t>(i));
    reader_.key("calls");
    reader_.open_array();
    while (reader_.next_item()) {
      call();
      std::string& line = reference.lines.emplace_back();
      if (reader_.optional_key("line")) line = reader_.string();
      reader_.close_object();
    }
    reader_.close_object();
    reader_.end_of_text();
    if (!reader_.ok()) return reader_.status();
    reference.program = std::move(program_);
    return reference;
  }

 private:
  template <class Enum>
  Enum word(const char* what, std::string_view (*name_of)(Enum)) {
    (void)reader_.peek();
    const size_t at = reader_.position();
    const std::string_view name = reader_.string();
    const auto known = enum_from_name<Enum>(name, name_of);
    if (!known) reader_.fail(kSyntax, at, "unknown " + std::string(what) + " " + in_quotes(name));
    return known.value_or(Enum{});
  }

  ChunkPass chunk_pass(const std::vector<Chunk>& chunks) {
    ChunkPass of;
    reader_.open_object();
    reader_.key("chunk");
    (void)reader_.peek();
    size_t at = reader_.position();
    const std::string_view name = reader_.string();
    const auto chunk = std::find_if(chunks.begin(), chunks.end(), [&](const Chunk& c) { return c.name == name; });
    if (chunk == chunks.end()) reader_.fail(kName, at, "the manifest has no chunk " + in_quotes(name));
    of.chunk = static_cast<int32_t>(chunk - chunks.begin());
    reader_.key("pass");
    of.pass = word<Pass>("pass", pass_name);
    reader_.key("samples");
    at = reader_.position();
    of.samples = reader_.integer();
    if (of.samples < 1) reader_.fail(kRange, at, "a program of a chunk is for one sample or more");
    if (reader_.optional_key("recomputing")) of.recomputing = reader_.boolean();
    reader_.close_object();
    return of;
  }

  // What a slot may say that it holds depends on its role.
  bool check_held(size_t at, const Slot& slot) {
    const auto bad = [&](const char* why) {
      return reader_.fail(kSyntax, at, "slot " + in_quotes(slot.name) + ": " + why);
    };
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

  bool check_slot(size_t at, Slot& slot, std::string_view role) {
    if (!reader_.ok()) return false;
    if (slot.name.empty() || slot.name == kWorkspaceWord)
      return reader_.fail(kName, at, "a slot cannot be called " + in_quotes(slot.name));
    if (!slot_names_.insert(slot.name).second)
      return reader_.fail(kName, at, "two slots are called " + in_quotes(slot.name));
    if (slot.bytes < 0) return reader_.fail(kRange, at, "slot " + in_quotes(slot.name) + " has a negative size");
    const auto known = enum_from_name<SlotRole>(role, role_name);
    if (!known) return reader_.fail(kSyntax, at, "unknown slot role " + in_quotes(role));
    slot.role = *known;
    return check_held(at, slot);
  }

  // Up to its size; the role is returned.
  std::string_view begin_slot(Slot& slot) {
    reader_.open_object();
    reader_.key("slot");
    slot.name = reader_.string();
    reader_.key("role");
    const std::string_view role = reader_.string();
    if (reader_.optional_key("of")) slot.of = reader_.string();
    if (reader_.optional_key("holds")) {
      const size_t at = reader_.position();
      slot.holds = word<StepNumber>("number of the step", number_name);
      if (slot.holds == StepNumber::kNone) reader_.fail(kSyntax, at, "a slot that holds no number does not say so");
    }
    if (reader_.optional_key("term")) slot.term = reader_.small_integer();
    reader_.key("bytes");
    return role;
  }

  Feed feed() {
    const size_t at = reader_.position();
    const std::string_view name = reader_.string();
    const auto known = enum_from_name<Feed>(name, feed_name);
    if (!known || *known == Feed::kNone) reader_.fail(kSyntax, at, "unknown feed " + in_quotes(name));
    return known.value_or(Feed::kNone);
  }

  void reference_slot(Reference& reference) {
    const size_t at = reader_.position();
    Slot& slot = program_.slots.emplace_back();
    const auto role = begin_slot(slot);
    auto bytes = reader_.string();
    if (reader_.ok() && (!take_number(bytes, true, slot.bytes) || !bytes.empty()))
      reader_.fail(kSyntax, at,
                   "slot " + in_quotes(slot.name) + ": bytes are a number, or \"3n\": so many for each sample");
    Reference::Constant constant{static_cast<int32_t>(program_.slots.size()) - 1, "", 0, 0, false};
    const bool digest = reader_.optional_key("sha256"), scalar = !digest && reader_.optional_key("per_sample");
    constant.alike = !digest && !scalar && reader_.optional_key("sha256_of_each");
    if (digest || constant.alike) constant.sha256 = reader_.string();
    if (scalar) constant.per_sample = reader_.real();
    if (digest && reader_.optional_key("each")) constant.each = reader_.integer();
    Reference::Input input{static_cast<int32_t>(program_.slots.size()) - 1, Feed::kNone};
    const bool fed = reader_.optional_key("feed");
    if (fed) input.feed = feed();
    reader_.close_object();
    if (!check_slot(at, slot, role)) return;
    if (fed && slot.role != SlotRole::kInput)
      reader_.fail(kSyntax, at, "slot " + in_quotes(slot.name) + ": only an input is fed");
    if (fed) reference.inputs.push_back(input);
    slot.reads = slot.role != SlotRole::kOutput;
    slot.writes = slot.role == SlotRole::kOutput || slot.role == SlotRole::kGradient;
    const bool told = digest || scalar || constant.alike;
    if ((slot.role == SlotRole::kConstant) != told || (told && !scalar && constant.sha256.empty()))
      reader_.fail(kSyntax, at, "slot " + in_quotes(slot.name) + ": a constant, and nothing else, says what it holds");
    if (constant.each < 0 || (constant.has_samples() && slot.bytes % Reference::kSamples != 0))
      reader_.fail(kRange, at,
                   "slot " + in_quotes(slot.name) + ": a constant that has samples is of so many bytes for each");
    if (told) reference.constants.push_back(std::move(constant));
  }

  void slot() {
    const size_t at = reader_.position();
    Slot& slot = program_.slots.emplace_back();
    const auto role = begin_slot(slot);
    slot.bytes = reader_.integer();
    reader_.key("access");
    const auto access = reader_.string();
    reader_.close_object();
    if (!check_slot(at, slot, role)) return;
    if (access != "read" && access != "write" && access != "read_write" && access != "none")
      reader_.fail(kSyntax, at, "unknown access " + in_quotes(access) + "; read, write, read_write or none");
    slot.reads = access == "read" || access == "read_write";
    slot.writes = access == "write" || access == "read_write";
  }

  // Without the brace behind it.
  void call() {
    KernelCall& call = program_.calls.emplace_back();
    reader_.open_object();
    reader_.key("call");
    call.kernel = reader_.string();
    if (reader_.optional_key("add")) call.accumulate = reader_.boolean();
    reader_.key("out");
    operands(call.outputs);
    reader_.key("in");
    operands(call.inputs);
    if (reader_.optional_key("attrs")) attrs(call.attrs);
    if (reader_.optional_key("from")) call.origin = reader_.string();
  }

  void operands(std::vector<Operand>& list) {
    reader_.open_array();
    while (reader_.next_item()) {
      Operand& operand = list.emplace_back();
      if (reader_.accept_null()) continue;
      (void)reader_.peek();
      const size_t at = reader_.position();
      const auto text = reader_.string();
      if (reader_.ok()) parse_operand(text, at, operand);
    }
  }

  bool parse_operand(std::string_view text, size_t at, Operand& operand) {
    const auto malformed = [&] {
      return reader_.fail(kSyntax, at,
                          "operand " + in_quotes(text) + " is not of the form \"name+offset dtype[shape]{strides}\"");
    };
    const size_t space = text.rfind(' ');
    if (space == std::string_view::npos) return malformed();
    auto type = text.substr(space + 1);
    const size_t bracket = type.find('[');
    if (bracket == std::string_view::npos) return malformed();
    const auto dtype = dtype_from_name(type.substr(0, bracket));
    const auto place = split_offset(text.substr(0, space));
    type.remove_prefix(bracket + 1);
    if (!dtype || !place || !split_numbers(type, ']', by_samples_, operand.shape)) return malformed();
    operand.dtype = *dtype;
    operand.offset = place->offset;
    if (type.empty()) {
      operand.strides = contiguous_strides(operand.shape);
    } else {
      if (type.front() != '{') return malformed();
      type.remove_prefix(1);
      if (!split_numbers(type, '}', by_samples_, operand.strides) || !type.empty() ||
          operand.strides.size() != operand.shape.size())
        return malformed();
    }
    int64_t room = program_.workspace_bytes;
    operand.slot = Operand::kWorkspace;
    if (place->name != kWorkspaceWord) {
      const auto found = by_name_.find(place->name);
      if (found == by_name_.end())
        return reader_.fail(kName, at,
                            "operand " + in_quotes(text) + ": the program has no slot " + in_quotes(place->name));
      operand.slot = found->second;
      room = program_.slots[static_cast<size_t>(operand.slot)].bytes;
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

  void attrs(std::vector<Attr>& list) {
    reader_.open_object();
    std::string_view name;
    while (reader_.next_key(name)) {
      for (const auto& attr : list)
        if (attr.name == name)
          reader_.fail(kName, reader_.position(), "the attribute " + in_quotes(name) + " stands twice");
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

  JsonReader reader_;
  bool by_samples_ = false;  // a reference is read
  Program program_;
  std::unordered_set<std::string> slot_names_;
  std::unordered_map<std::string_view, int32_t> by_name_;
};

}  // namespace

Result<Program> parse_program(std::string_view text, const std::string& file, const std::vector<Chunk>& chunks) {
  return ProgramParser(text, file).parse(chunks);
}

Result<Reference> parse_reference(std::string_view text, const std::string& file) {
  return ProgramParser(text, file).parse_reference();
}

}  // namespace piper::plan
