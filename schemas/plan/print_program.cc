#include "schemas/plan/bundle_io.h"
#include "schemas/plan/json_writer.h"
#include "schemas/plan/names.h"

namespace piper::plan {
namespace {

// How numbers are spelt: in a reference, multiples of its number of samples as "n", "3n".
enum class Spelling : uint8_t { kPlain, kBySamples };

void print_number(JsonWriter& json, int64_t value, Spelling spelling) {
  if (spelling == Spelling::kPlain || value == 0 || value % Reference::kSamples != 0) return json.number(value);
  if (value != Reference::kSamples) json.number(value / Reference::kSamples);
  json.raw("n");
}

void print_list(JsonWriter& json, char open, const std::vector<int64_t>& values, char close, Spelling spelling) {
  json.raw(std::string_view(&open, 1));
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) json.raw(",");
    print_number(json, values[i], spelling);
  }
  json.raw(std::string_view(&close, 1));
}

// "x+128 f32[4,8]{1,4}"; the offset where it is not 0, the strides where they are not row-major.
void print_operand(JsonWriter& json, const Operand& operand, const Program& program, Spelling spelling) {
  if (operand.slot == Operand::kAbsent) return json.raw("null");
  std::string_view name = kWorkspaceWord;
  if (operand.slot != Operand::kWorkspace) {
    PIPER_CHECK(operand.slot >= 0 && static_cast<size_t>(operand.slot) < program.slots.size(), program.name);
    name = program.slots[static_cast<size_t>(operand.slot)].name;
  }
  json.raw("\"");
  json.string_body(name);
  if (operand.offset != 0 || ends_like_offset(name)) {
    json.raw("+");
    json.number(operand.offset);
  }
  json.raw(" ");
  json.raw(dtype_name(operand.dtype));
  print_list(json, '[', operand.shape, ']', spelling);
  if (!operand.strides.empty() && operand.strides != contiguous_strides(operand.shape)) {
    PIPER_CHECK(operand.strides.size() == operand.shape.size(), program.name, ": ", name);
    print_list(json, '{', operand.strides, '}', spelling);
  }
  json.raw("\"");
}

void print_operands(JsonWriter& json, const std::vector<Operand>& operands, const Program& program, Spelling spelling) {
  json.raw("[");
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i > 0) json.raw(",");
    print_operand(json, operands[i], program, spelling);
  }
  json.raw("]");
}

// Up to its size.
void begin_slot(JsonWriter& json, const Slot& slot) {
  json.raw("{");
  json.key("slot");
  json.string(slot.name);
  json.key("role");
  json.string(role_name(slot.role));
  if (!slot.of.empty()) {
    json.key("of");
    json.string(slot.of);
  }
  if (slot.holds != StepNumber::kNone) {
    json.key("holds");
    json.string(number_name(slot.holds));
  }
  if (slot.term != 0) {
    json.key("term");
    json.number(slot.term);
  }
  json.key("bytes");
}

struct PrintAttr {
  JsonWriter& json;
  void operator()(int64_t value) const { json.number(value); }
  void operator()(double value) const { json.real(value); }
  void operator()(bool value) const { json.boolean(value); }
  void operator()(const std::string& value) const { json.string(value); }
  void operator()(const std::vector<int64_t>& value) const { json.numbers(value); }
};

// Without the brace behind it.
void print_call(JsonWriter& json, const KernelCall& call, const Program& program, Spelling spelling) {
  json.raw("{");
  json.key("call");
  json.string(call.kernel.name());
  if (call.accumulate) {
    json.key("add");
    json.boolean(true);
  }
  json.key("out");
  print_operands(json, call.outputs, program, spelling);
  json.key("in");
  print_operands(json, call.inputs, program, spelling);
  if (!call.attrs.empty()) {
    json.key("attrs");
    json.raw("{");
    for (const auto& attr : call.attrs) {
      json.key(attr.name);
      std::visit(PrintAttr{json}, attr.value);
    }
    json.raw("}");
  }
  if (!call.origin.empty()) {
    json.key("from");
    json.string(call.origin);
  }
}

}  // namespace

std::string print_program(const Program& program, const std::vector<Chunk>& chunks) {
  JsonWriter json;
  json.reserve(256 + 120 * program.calls.size());
  json.begin_file();
  json.key("program");
  json.string(program.name);
  if (program.of) {
    json.next_member();
    json.key("of");
    json.raw("{");
    json.key("chunk");
    json.string(chunks.at(static_cast<size_t>(program.of->chunk)).name);
    json.key("pass");
    json.string(pass_name(program.of->pass));
    json.key("samples");
    json.number(program.of->samples);
    if (program.of->recomputing) {
      json.key("recomputing");
      json.boolean(true);
    }
    json.raw("}");
  }
  json.next_member();
  json.key("workspace_bytes");
  json.number(program.workspace_bytes);
  json.next_member();
  json.begin_lines("slots", '[');
  for (const auto& slot : program.slots) {
    json.line();
    begin_slot(json, slot);
    json.number(slot.bytes);
    json.key("access");
    json.string(slot.reads ? (slot.writes ? "read_write" : "read") : (slot.writes ? "write" : "none"));
    json.raw("}");
  }
  json.end_lines(']');
  json.next_member();
  json.begin_lines("calls", '[');
  for (const auto& call : program.calls) {
    json.line();
    print_call(json, call, program, Spelling::kPlain);
    json.raw("}");
  }
  json.end_lines(']');
  json.end_file();
  return json.str();
}

std::string print_reference(const Reference& reference) {
  const Program& program = reference.program;
  JsonWriter json;
  json.reserve(256 + 200 * program.calls.size());
  json.begin_file();
  json.key("reference");
  json.number(3);
  json.next_member();
  json.begin_lines("slots", '[');
  auto constant = reference.constants.begin();
  auto input = reference.inputs.begin();
  for (size_t s = 0; s < program.slots.size(); ++s) {
    const Slot& slot = program.slots[s];
    json.line();
    begin_slot(json, slot);
    json.raw("\"");
    print_number(json, slot.bytes, Spelling::kBySamples);
    json.raw("\"");
    if (constant != reference.constants.end() && constant->slot == static_cast<int32_t>(s)) {
      json.key(constant->alike ? "sha256_of_each" : constant->sha256.empty() ? "per_sample" : "sha256");
      if (constant->sha256.empty()) json.real(constant->per_sample);
      else json.string(constant->sha256);
      if (constant->each > 0) {
        json.key("each");
        json.number(constant->each);
      }
      ++constant;
    }
    if (input != reference.inputs.end() && input->slot == static_cast<int32_t>(s)) {
      json.key("feed");
      json.string(feed_name(input->feed));
      ++input;
    }
    json.raw("}");
  }
  json.end_lines(']');
  json.next_member();
  json.begin_lines("calls", '[');
  for (size_t c = 0; c < program.calls.size(); ++c) {
    json.line();
    print_call(json, program.calls[c], program, Spelling::kBySamples);
    if (!reference.lines[c].empty()) {
      json.key("line");
      json.string(reference.lines[c]);
    }
    json.raw("}");
  }
  json.end_lines(']');
  json.end_file();
  return json.str();
}

}  // namespace piper::plan
