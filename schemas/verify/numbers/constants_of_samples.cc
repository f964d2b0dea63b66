#include "schemas/verify/numbers/constants_of_samples.h"

#include <string>

#include "schemas/plan/attrs.h"
#include "schemas/plan/dtype.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/names.h"
#include "schemas/verify/numbers/leaves.h"

namespace piper::verify {

using plan::KernelCall;
using plan::Operand;
using plan::Reference;

namespace {

// The type that calls read a slot as.
DType type_in(const plan::Program& program, int32_t slot) {
  for (const KernelCall& call : program.calls)
    for (const Operand& operand : call.inputs)
      if (operand.slot == slot) return operand.dtype;
  return DType::kBool;
}

// 0, 1, ... samples - 1.
int32_t range(int64_t samples, NumberTable& table) {
  std::vector<int64_t> numbers(static_cast<size_t>(samples));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
  const int64_t bytes = samples * dtype_bytes(DType::kI64);
  return table.constant(
      "constant " + plan::sha256({reinterpret_cast<const char*>(numbers.data()), static_cast<size_t>(bytes)}), bytes);
}

// Whether an index is the numbers that the run's samples have in the step.
bool numbers_samples(const View& index, const NumberedProgram& run, NumberTable& table) {
  if (index.number < 0 || !is_whole(index, table)) return false;
  const int32_t of_piece = range(run.samples, table), first = sample_offset(table);
  const Number& sum = table[index.number];
  if (sum.by != Kernel::kAdd || sum.operands.size() != 2 || sum.bytes != table[of_piece].bytes) return false;
  return sum.operands[0].number == of_piece && is_whole(sum.operands[0], table) && sum.operands[1].number == first;
}

}  // namespace

int32_t parts_of_samples(int32_t constant, DType dtype, int64_t each, int64_t batch, NumberTable& table) {
  NumberTable::Made made;
  made.by = Maker::How::kPartsOfSamples;
  made.what = std::to_string(each) + " " + std::to_string(batch);
  made.operands = {{constant, dtype, 0, {{table[constant].bytes / dtype_bytes(dtype), 1, false}}}};
  made.over = Over::kEach;
  made.bytes = table[constant].bytes / batch;
  return table.result(std::move(made));
}

HeldValue held_parts(int32_t parts, DType dtype, int64_t each, int64_t samples, const NumberTable& table) {
  HeldValue held;
  held.number = parts;
  held.end = table[parts].bytes * samples;
  if (each != table[parts].bytes / dtype_bytes(dtype) && samples > 1) held.block = each;
  return held;
}

HeldValue held_constant(const Reference& reference, const Reference::Constant& constant, int64_t batch,
                        NumberTable& table) {
  const int64_t bytes = reference.program.slots[static_cast<size_t>(constant.slot)].bytes / Reference::kSamples;
  const DType dtype = type_in(reference.program, constant.slot);
  if (constant.alike) {
    HeldValue held{bytes * Reference::kSamples, 0, table.constant("constant " + constant.sha256, bytes)};
    held.period = bytes / dtype_bytes(dtype);
    return held;
  }
  const int32_t all = table.constant("constant " + constant.sha256, bytes * batch);
  const int32_t parts = parts_of_samples(all, dtype, constant.each, batch, table);
  return held_parts(parts, dtype, constant.each, Reference::kSamples, table);
}

std::optional<HeldValue> selected_parts(const KernelCall& call, const std::vector<View>& operands,
                                        const NumberedProgram& run, NumberTable& table) {
  if (call.kernel != Kernel::kIndexSelect || run.samples == Reference::kSamples || call.accumulate) return std::nullopt;
  const auto* const dim = plan::find_attr<int64_t>(call, "dim");
  const Operand &from = call.inputs[0], &out = call.outputs[0];
  if (dim == nullptr || *dim < 0 || static_cast<size_t>(*dim) >= from.shape.size()) return std::nullopt;
  const auto axis = static_cast<size_t>(*dim);
  if (from.shape[axis] != run.batch || operands[0].number < 0 || !is_whole(operands[0], table) ||
      table[operands[0].number].over != Over::kNothing || out.strides != plan::contiguous_strides(out.shape) ||
      !numbers_samples(operands[1], run, table))
    return std::nullopt;
  int64_t each = 1;
  for (size_t behind = axis + 1; behind < from.shape.size(); ++behind) each *= from.shape[behind];
  const int32_t parts = parts_of_samples(operands[0].number, from.dtype, each, run.batch, table);
  return held_parts(parts, from.dtype, each, run.samples, table);
}

}  // namespace piper::verify
