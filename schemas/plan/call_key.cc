#include "schemas/plan/call_key.h"

#include <string_view>

#include "schemas/plan/json_writer.h"

namespace piper::plan {
namespace {

void add_numbers(JsonWriter& out, const std::vector<int64_t>& values, std::string_view between) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out.raw(between);
    out.number(values[i]);
  }
}

void add_operands(JsonWriter& out, const std::vector<Operand>& operands) {
  out.raw("(");
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = operands[i];
    if (i > 0) out.raw(",");
    if (operand.slot == Operand::kAbsent) continue;
    out.raw(dtype_name(operand.dtype));
    out.raw("[");
    add_numbers(out, operand.shape, ",");
    out.raw("]");
    add_numbers(out, operand.strides, ".");
  }
  out.raw(")");
}

struct AttributeText {
  JsonWriter& out;
  void operator()(int64_t value) const { out.number(value); }
  void operator()(double value) const { out.real(value); }
  void operator()(bool value) const { out.boolean(value); }
  void operator()(const std::string& value) const { out.raw(value); }
  void operator()(const std::vector<int64_t>& value) const { out.numbers(value); }
};

}  // namespace

std::string call_key(const KernelCall& call) {
  JsonWriter out;
  out.raw(call.kernel.name());
  if (call.accumulate) out.raw("+=");
  add_operands(out, call.inputs);
  add_operands(out, call.outputs);
  for (const Attr& attr : call.attrs) {
    out.raw(" " + attr.name + "=");
    std::visit(AttributeText{out}, attr.value);
  }
  return out.str();
}

}  // namespace piper::plan
