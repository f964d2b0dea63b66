#include "schemas/plan/bundle_io.h"
#include "schemas/plan/field_writer.h"
#include "schemas/plan/program_fields.h"

namespace piper::plan {
namespace {

struct PrintAttr {
  JsonWriter& json;
  void operator()(int64_t value) const { json.number(value); }
  void operator()(double value) const { json.real(value); }
  void operator()(bool value) const { json.boolean(value); }
  void operator()(const std::string& value) const { json.string(value); }
  void operator()(const std::vector<int64_t>& value) const { json.numbers(value); }
};

class ProgramWriter : public FieldWriter<ProgramWriter> {
 public:
  // `reference`: of which `program` is; null: of none.
  ProgramWriter(JsonWriter& json, const Program& program, const std::vector<Chunk>* chunks, const Reference* reference)
      : FieldWriter(json), program_(program), chunks_(chunks), reference_(reference) {}
  using FieldWriter::write;

  void format(std::string_view key, int version) { (*this)(key, version); }
  void chunk(std::string_view key, int32_t index) { (*this)(key, chunks_->at(static_cast<size_t>(index)).name); }
  void by_samples(std::string_view key, int64_t value) {
    begin(key);
    json_.raw("\"");
    number(value);
    json_.raw("\"");
  }
  static std::vector<ReferenceSlot> slots(const Reference& reference) {
    std::vector<ReferenceSlot> lines;
    for (const Slot& slot : reference.program.slots) lines.emplace_back().slot = slot;
    for (const Reference::Constant& constant : reference.constants) {
      ReferenceSlot& line = lines.at(static_cast<size_t>(constant.slot));
      if (constant.sha256.empty()) line.per_sample = constant.per_sample;
      else (constant.alike ? line.sha256_of_each : line.sha256) = constant.sha256;
      line.each = constant.each;
    }
    for (const Reference::Input& input : reference.inputs) lines.at(static_cast<size_t>(input.slot)).feed = input.feed;
    return lines;
  }
  void end_of(const KernelCall& call) {
    if (reference_ == nullptr) return;
    optional("line", reference_->lines[static_cast<size_t>(&call - program_.calls.data())], "");
  }

  void write(const CalledKernel& kernel) { json_.string(kernel.name()); }
  void write(const std::vector<Attr>& attrs) {
    json_.raw("{");
    for (const Attr& attr : attrs) {
      json_.key(attr.name);
      std::visit(PrintAttr{json_}, attr.value);
    }
    json_.raw("}");
  }
  // "x+128 f32[4,8]{1,4}"; the offset where it is not 0, the strides where they are not row-major.
  void write(const Operand& operand) {
    if (operand.slot == Operand::kAbsent) return json_.raw("null");
    std::string_view name = kWorkspaceWord;
    if (operand.slot != Operand::kWorkspace) {
      PIPER_CHECK(operand.slot >= 0 && static_cast<size_t>(operand.slot) < program_.slots.size(), program_.name);
      name = program_.slots[static_cast<size_t>(operand.slot)].name;
    }
    json_.raw("\"");
    json_.string_body(name);
    if (operand.offset != 0 || ends_like_offset(name)) {
      json_.raw("+");
      json_.number(operand.offset);
    }
    json_.raw(" ");
    json_.raw(dtype_name(operand.dtype));
    numbers('[', operand.shape, ']');
    if (!operand.strides.empty() && operand.strides != contiguous_strides(operand.shape)) {
      PIPER_CHECK(operand.strides.size() == operand.shape.size(), program_.name, ": ", name);
      numbers('{', operand.strides, '}');
    }
    json_.raw("\"");
  }

 private:
  // In a reference, multiples of its number of samples are "n", "3n".
  void number(int64_t value) {
    if (reference_ == nullptr || value == 0 || value % Reference::kSamples != 0) return json_.number(value);
    if (value != Reference::kSamples) json_.number(value / Reference::kSamples);
    json_.raw("n");
  }
  void numbers(char open, const std::vector<int64_t>& values, char close) {
    json_.raw({&open, 1});
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) json_.raw(",");
      number(values[i]);
    }
    json_.raw({&close, 1});
  }

  const Program& program_;
  const std::vector<Chunk>* chunks_;
  const Reference* reference_;
};

}  // namespace

std::string print_program(const Program& program, const std::vector<Chunk>& chunks) {
  JsonWriter json;
  json.reserve(256 + 120 * program.calls.size());
  ProgramWriter(json, program, &chunks, nullptr).file(program);
  return json.str();
}

std::string print_reference(const Reference& reference) {
  JsonWriter json;
  json.reserve(256 + 200 * reference.program.calls.size());
  ProgramWriter(json, reference.program, nullptr, &reference).file(reference);
  return json.str();
}

}  // namespace piper::plan
