#include "compiler/emit/reference_program.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "compiler/emit/emit_shared.h"
#include "compiler/emit/lowering.h"
#include "compiler/emit/program_builder.h"
#include "compiler/ir/step_scalars.h"
#include "schemas/plan/convert_elements.h"

namespace piper::emit {

using plan::Reference;

namespace {

// "model.py:27" of the first operator of the model that an entry comes from.
std::string line_behind(const ir::Provenance& provenance, ir::ProvId id) {
  if (!id.valid()) return "";
  const ir::ProvEntry& entry = provenance.entry(id);
  if (const auto* model = std::get_if<ir::ModelOrigin>(&entry)) return model->source;
  if (const auto* derived = std::get_if<ir::DerivedOrigin>(&entry))
    for (ir::ProvId parent : derived->parents)
      if (std::string line = line_behind(provenance, parent); !line.empty()) return line;
  return "";
}

// One program of all ops: what counts terms first, then the forward, then the backward.
std::vector<size_t> phases_in_turn(ir::Graph& graph) {
  std::vector<size_t> order(graph.num_ops());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return graph.op(ir::OpId(a)).phase < graph.op(ir::OpId(b)).phase; });
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    graph.op(ir::OpId(i)).phase = ir::Phase::kForward;
    graph.op(ir::OpId(i)).chunk = ir::ChunkId(0);
  }
  return order;
}

// The element of a constant that has one, in f32 or narrower.
std::optional<double> element(const ReferenceProgram::Constant& constant) {
  const ir::ConstantData& data = constant.source.data;
  if (!can_convert_elements(constant.dtype, DType::kF32) || !data ||
      data->size() != static_cast<size_t>(dtype_bytes(constant.dtype)))
    return std::nullopt;
  float element = 0;
  convert_elements(constant.dtype, data->data(), DType::kF32, &element, 1);
  return element;
}

// SHA-256 of what a constant holds.
Result<std::string> digest(const ReferenceProgram& of, const ReferenceProgram::Constant& constant) {
  const plan::Slot& slot = of.program.slots[constant.slot];
  // Only the bytes matter to a digest.
  PIPER_ASSIGN(const auto contents,
               plan::constant_contents({weight_tensor(slot.name, {DType::kBool, {slot.bytes}}, constant.source)}));
  return contents[0].sha256;
}

// A constant of one floating element is made by a fill, so that a reader knows its value; of others the bytes are told.
void tell_constant(const ReferenceProgram::Constant& constant, std::string sha256, Reference& reference) {
  const std::optional<double> value = element(constant);
  if (!value || std::isnan(*value)) {
    reference.constants.push_back({constant.slot, std::move(sha256), 0});
    return;
  }
  plan::Slot& slot = reference.program.slots[static_cast<size_t>(constant.slot)];
  slot.role = plan::SlotRole::kOutput;
  slot.reads = false;
  slot.writes = true;
  plan::KernelCall fill;
  fill.kernel = "fill";
  fill.outputs = {{constant.slot, 0, constant.dtype, {}, {}}};
  fill.attrs = {{"value", *value}};
  reference.program.calls.insert(reference.program.calls.begin(), std::move(fill));
  reference.lines.insert(reference.lines.begin(), "");
}

// Joins the numbers of two programs to those of a reference.
class Merge {
 public:
  Merge(const ReferenceProgram& a, const ReferenceProgram& b) : a_(a), b_(b) {}

  Result<Reference> make() {
    const plan::Program &a = a_.program, &b = b_.program;
    if (a.slots.size() != b.slots.size() || a.calls.size() != b.calls.size())
      return failure("its calls depend on the number of samples");
    result_.program.name = "reference";
    for (size_t s = 0; s < a.slots.size(); ++s) slot(a.slots[s], b.slots[s]);
    for (size_t c = 0; c < a.calls.size(); ++c) call(a.calls[c], b.calls[c]);
    result_.lines = a_.lines;
    for (size_t c = 0; c < a_.constants.size() && wrong_.empty(); ++c)
      PIPER_RETURN_IF_ERROR(constant(a_.constants[c], b_.constants[c]));
    if (!wrong_.empty()) return failure(wrong_);
    return std::move(result_);
  }

 private:
  static Status failure(const std::string& why) { return Status::failure("", why); }

  int64_t number(int64_t a, int64_t b, const std::string& what) {
    if (a == b) return a;
    if (a % a_.samples != 0 || a / a_.samples * b_.samples != b) {
      if (wrong_.empty())
        wrong_ = "a number of " + what + " is " + std::to_string(a) + " for " + std::to_string(a_.samples) +
                 " samples, " + std::to_string(b) + " for " + std::to_string(b_.samples);
      return 0;
    }
    int64_t all = 0;
    if (__builtin_mul_overflow(a / a_.samples, Reference::kSamples, &all) && wrong_.empty())
      wrong_ = "a value of " + what + " is larger than 2 GiB for each sample";
    return all;
  }

  void slot(const plan::Slot& a, const plan::Slot& b) {
    if (a.name != b.name && wrong_.empty()) wrong_ = "its values depend on the number of samples";
    plan::Slot& slot = result_.program.slots.emplace_back(a);
    slot.bytes = number(a.bytes, b.bytes, "\"" + a.name + "\"");
  }

  void operand(plan::Operand& to, const plan::Operand& b, const std::string& kernel) {
    if (to.slot != b.slot || to.shape.size() != b.shape.size()) {
      if (wrong_.empty()) wrong_ = "what " + kernel + " reads depends on the number of samples";
      return;
    }
    to.offset = number(to.offset, b.offset, kernel);
    for (size_t axis = 0; axis < to.shape.size(); ++axis) {
      to.shape[axis] = number(to.shape[axis], b.shape[axis], kernel);
      to.strides[axis] = number(to.strides[axis], b.strides[axis], kernel);
    }
  }

  void call(const plan::KernelCall& a, const plan::KernelCall& b) {
    plan::KernelCall& call = result_.program.calls.emplace_back(a);
    if (a.kernel != b.kernel || a.inputs.size() != b.inputs.size() || a.outputs.size() != b.outputs.size()) {
      if (wrong_.empty()) wrong_ = "its calls depend on the number of samples";
      return;
    }
    for (size_t i = 0; i < a.inputs.size(); ++i) operand(call.inputs[i], b.inputs[i], a.kernel);
    for (size_t i = 0; i < a.outputs.size(); ++i) operand(call.outputs[i], b.outputs[i], a.kernel);
    // What repeats extents of the result: a shape, and the samples of a mask.
    const auto repeats = [](const plan::Attr& attr) { return attr.name == "shape" || attr.name == "batch"; };
    call.attrs.erase(std::remove_if(call.attrs.begin(), call.attrs.end(), repeats), call.attrs.end());
    for (size_t i = 0; i < a.attrs.size(); ++i)
      if (!repeats(a.attrs[i]) && a.attrs[i].value != b.attrs[i].value && wrong_.empty())
        wrong_ = "attribute " + a.attrs[i].name + " of " + a.kernel + " depends on the number of samples";
  }

  Status constant(const ReferenceProgram::Constant& a, const ReferenceProgram::Constant& b) {
    PIPER_ASSIGN(const std::string in_a, digest(a_, a));
    PIPER_ASSIGN(const std::string in_b, digest(b_, b));
    if (in_a == in_b) {
      tell_constant(a, in_a, result_);
      return {};
    }
    Reference::Constant& merged = result_.constants.emplace_back();
    merged.slot = a.slot;
    const double of_a = wide_element(a), of_b = wide_element(b);
    merged.per_sample = of_a / static_cast<double>(a_.batch);
    if (of_a == 0 || merged.per_sample * static_cast<double>(a_.batch) != of_a ||
        merged.per_sample * static_cast<double>(b_.batch) != of_b)
      wrong_ = "constant \"" + result_.program.slots[a.slot].name + "\" depends on the number of samples";
    return {};
  }

  // The element of an f32 constant that has one; else 0.
  static double wide_element(const ReferenceProgram::Constant& constant) {
    const double value = constant.dtype == DType::kF32 ? element(constant).value_or(0) : 0;
    return std::isfinite(value) ? value : 0;
  }

  const ReferenceProgram &a_, &b_;
  Reference result_;
  std::string wrong_;  // the first difference that has no place in a reference
};

}  // namespace

ReferenceProgram reference_program(const ir::Graph& graph, int64_t samples, int64_t batch) {
  ir::Graph one = graph;
  const std::vector<size_t> order = phases_in_turn(one);
  const Lowering lowering(one, 1, nullptr);
  ProgramBuilder builder(lowering, {0, ir::Phase::kForward});
  ReferenceProgram result;
  result.samples = samples;
  result.batch = batch;
  for (size_t i : order) {
    builder.add_op(i);
    result.lines.resize(builder.num_calls(), line_behind(one.provenance(), one.op(ir::OpId(i)).prov));
  }
  const std::vector<ir::StepSum> sums = ir::step_sums(one);
  for (uint32_t row = 0; row < sums.size(); ++row)
    for (ir::ValueId addend : sums[row].addends) builder.add_to_step(row, sums[row].name, addend);
  result.lines.resize(builder.num_calls());
  ir::LoweredProgram lowered = builder.finish_values();
  for (size_t s = 0; s < lowered.holds.size(); ++s)
    if (lowered.holds[s].kind == ir::SlotHolds::Kind::kConstant) {
      const ir::Constant& constant = graph.constants()[lowered.holds[s].index];
      result.constants.push_back({static_cast<int32_t>(s), graph.type(constant.value).dtype, constant.source});
    }
  result.program = std::move(lowered.program);
  return result;
}

Result<Reference> reference_for_pieces(const ReferenceProgram& program) {
  Reference reference;
  reference.program = program.program;
  reference.program.name = "reference";
  reference.lines = program.lines;
  for (const ReferenceProgram::Constant& constant : program.constants) {
    PIPER_ASSIGN(std::string sha256, digest(program, constant));
    tell_constant(constant, std::move(sha256), reference);
  }
  return reference;
}

Result<Reference> merge_references(const ReferenceProgram& a, const ReferenceProgram& b) { return Merge(a, b).make(); }

}  // namespace piper::emit
