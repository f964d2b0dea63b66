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
#include "schemas/plan/file_bytes.h"

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
  if (!can_convert_elements(constant.type.dtype, DType::kF32) || !data ||
      data->size() != static_cast<size_t>(dtype_bytes(constant.type.dtype)))
    return std::nullopt;
  float element = 0;
  convert_elements(constant.type.dtype, data->data(), DType::kF32, &element, 1);
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

// The bytes that a constant repeats for each of its samples; nothing where it does not.
std::optional<std::string> of_each_sample(const ReferenceProgram& of, const ReferenceProgram::Constant& constant) {
  const ir::ConstantData& data = constant.source.data;
  const auto samples = static_cast<size_t>(of.samples);
  if (!data || data->empty() || data->size() % samples != 0) return std::nullopt;
  const std::string_view all(reinterpret_cast<const char*>(data->data()), data->size());
  const size_t each = all.size() / samples;
  for (size_t at = each; at < all.size(); at += each)
    if (all.substr(at, each) != all.substr(0, each)) return std::nullopt;
  return std::string(all.substr(0, each));
}

// How many elements of a sample are together in a constant of which one axis numbers the samples, rows of each after
// one another, as its extents for several numbers of samples say; 0 where they do not.
int64_t together(const ReferenceProgram& a, const ir::TensorType& of_a, const ReferenceProgram& b,
                 const ir::TensorType& of_b) {
  if (of_a.shape.size() != of_b.shape.size()) return 0;
  int64_t found = 0, behind = 1;
  for (size_t axis = of_a.shape.size(); axis-- > 0;) {
    const int64_t here = of_a.shape[axis], there = of_b.shape[axis];
    if (here != there) {
      if (found > 0 || here % a.samples != 0 || here / a.samples * b.samples != there) return 0;
      found = here / a.samples * behind;
    }
    behind *= here;
  }
  return found;
}

// A constant of one floating element is made by a fill, so that a reader knows its value; of others the bytes are
// known.
void tell_constant(const ReferenceProgram::Constant& constant, std::string sha256, Reference& reference) {
  const std::optional<double> value = element(constant);
  if (!value || std::isnan(*value)) {
    reference.constants.push_back({constant.slot, std::move(sha256), 0, 0, false});
    return;
  }
  plan::Slot& slot = reference.program.slots[static_cast<size_t>(constant.slot)];
  slot.role = plan::SlotRole::kOutput;
  slot.reads = false;
  slot.writes = true;
  plan::KernelCall fill;
  fill.kernel = "fill";
  fill.outputs = {{constant.slot, 0, constant.type.dtype, {}, {}}};
  fill.attrs = {{"value", *value}};
  reference.program.calls.insert(reference.program.calls.begin(), std::move(fill));
  reference.lines.insert(reference.lines.begin(), "");
}

// Joins the numbers of two programs to those of a reference.
class Merge {
 public:
  Merge(const ReferenceProgram& a, const ReferenceProgram& b, const ReferenceProgram* step)
      : a_(a), b_(b), step_(step) {}

  Result<Reference> make() {
    const plan::Program &a = a_.program, &b = b_.program;
    if (a.slots.size() != b.slots.size() || a.calls.size() != b.calls.size() ||
        (step_ != nullptr && step_->constants.size() != a_.constants.size()))
      return failure("its calls depend on the number of samples");
    result_.program.name = "reference";
    for (size_t s = 0; s < a.slots.size(); ++s) slot(a.slots[s], b.slots[s]);
    for (size_t c = 0; c < a.calls.size(); ++c) call(a.calls[c], b.calls[c]);
    result_.lines = a_.lines;
    for (size_t c = 0; c < a_.constants.size() && wrong_.empty(); ++c) PIPER_RETURN_IF_ERROR(constant(c));
    if (!wrong_.empty()) return failure(wrong_);
    return std::move(result_);
  }

 private:
  static Status failure(const std::string& why) { return Status::failure("", why); }

  int64_t number(int64_t a, int64_t b, const std::string& what) {
    if (a == b) {
      if (a != 0 && a % Reference::kSamples == 0 && wrong_.empty())
        wrong_ = "a number of " + what + " reads as samples";
      return a;
    }
    if (a % a_.samples != 0 || a / a_.samples * b_.samples != b) {
      if (wrong_.empty())
        wrong_ = "a number of " + what + " is " + std::to_string(a) + " for " + std::to_string(a_.samples) +
                 " samples, " + std::to_string(b) + " for " + std::to_string(b_.samples);
      return 0;
    }
    int64_t all = 0;
    if (__builtin_mul_overflow(a / a_.samples, Reference::kSamples, &all) && wrong_.empty())
      wrong_ = "a value of " + what + " is larger than 128 GiB for each sample";
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
    for (size_t i = 0; i < a.inputs.size(); ++i) operand(call.inputs[i], b.inputs[i], a.kernel.text());
    for (size_t i = 0; i < a.outputs.size(); ++i) operand(call.outputs[i], b.outputs[i], a.kernel.text());
    // What repeats extents of the result: a shape, and where the samples of a mask are, which no analysis is to say.
    const auto repeats = [&](const plan::Attr& attr) {
      const bool mask = a.kernel == plan::Kernel::kDropout && (attr.name == "outer" || attr.name == "inner");
      return mask || attr.name == "shape" || attr.name == "batch";
    };
    call.attrs.erase(std::remove_if(call.attrs.begin(), call.attrs.end(), repeats), call.attrs.end());
    for (size_t i = 0; i < a.attrs.size(); ++i)
      if (!repeats(a.attrs[i]) && a.attrs[i].value != b.attrs[i].value && wrong_.empty())
        wrong_ = "attribute " + a.attrs[i].name + " of " + a.kernel.text() + " depends on the number of samples";
  }

  Status constant(size_t c) {
    const ReferenceProgram::Constant &a = a_.constants[c], &b = b_.constants[c];
    PIPER_ASSIGN(std::string in_a, digest(a_, a));
    PIPER_ASSIGN(const std::string in_b, digest(b_, b));
    if (in_a == in_b) {
      tell_constant(a, std::move(in_a), result_);
      return {};
    }
    Reference::Constant merged;
    merged.slot = a.slot;
    const double of_a = wide_element(a), of_b = wide_element(b);
    merged.per_sample = of_a / static_cast<double>(a_.samples);
    if (of_a != 0 && merged.per_sample * static_cast<double>(a_.samples) == of_a &&
        merged.per_sample * static_cast<double>(b_.samples) == of_b) {
      result_.constants.push_back(merged);
      return {};
    }
    merged.per_sample = 0;
    const auto each_of_a = of_each_sample(a_, a), each_of_b = of_each_sample(b_, b);
    if (each_of_a && each_of_a == each_of_b && together(a_, a.type, b_, b.type) > 0) {
      merged.sha256 = plan::sha256(*each_of_a);
      merged.alike = true;
      result_.constants.push_back(merged);
      return {};
    }
    const std::string& name = result_.program.slots[static_cast<size_t>(a.slot)].name;
    if (step_ == nullptr) wrong_ = "constant \"" + name + "\" depends on the number of samples";
    else return constant_of_step(a, b, step_->constants[c], name);
    return {};
  }

  Status constant_of_step(const ReferenceProgram::Constant& a, const ReferenceProgram::Constant& b,
                          const ReferenceProgram::Constant& of_step, const std::string& name) {
    PIPER_ASSIGN(std::string in_step, digest(*step_, of_step));
    if (a.type == b.type && a.type == of_step.type) {
      tell_constant(of_step, std::move(in_step), result_);
      return {};
    }
    const int64_t each = together(a_, a.type, b_, b.type);
    const bool fits =
        step_->samples == a_.samples ? a.type == of_step.type : each == together(a_, a.type, *step_, of_step.type);
    if (a.slot != of_step.slot || each == 0 || !fits) {
      wrong_ = "constant \"" + name + "\" has the samples in its shape in a way that is not followed";
      return {};
    }
    result_.constants.push_back({a.slot, std::move(in_step), 0, each, false});
    return {};
  }

  // The element of an f32 constant that has one; else 0.
  static double wide_element(const ReferenceProgram::Constant& constant) {
    const double value = constant.type.dtype == DType::kF32 ? element(constant).value_or(0) : 0;
    return std::isfinite(value) ? value : 0;
  }

  const ReferenceProgram &a_, &b_;
  const ReferenceProgram* step_;
  Reference result_;
  std::string wrong_;  // the first difference that has no place in a reference
};

}  // namespace

namespace {

// Gives each use of a constant of one element a slot of its own, and numbers the slots as the calls name them. A graph
// keeps one constant for equal numbers, and which are equal depends on how many samples they were divided by.
void number_slots(ReferenceProgram& of) {
  plan::Program& program = of.program;
  std::vector<const ReferenceProgram::Constant*> constant_of(program.slots.size(), nullptr);
  for (const ReferenceProgram::Constant& constant : of.constants)
    constant_of[static_cast<size_t>(constant.slot)] = &constant;
  std::vector<plan::Slot> slots;
  std::vector<ReferenceProgram::Constant> constants;
  std::vector<int32_t> now(program.slots.size(), -1);
  int32_t numbers = 0;
  const auto take = [&](plan::Operand& operand) {
    if (operand.slot < 0) return;
    const auto was = static_cast<size_t>(operand.slot);
    const ReferenceProgram::Constant* const constant = constant_of[was];
    const bool number = constant != nullptr && element(*constant).has_value();
    if (number || now[was] < 0) {
      now[was] = static_cast<int32_t>(slots.size());
      slots.push_back(program.slots[was]);
      if (number) slots.back().name = "number " + std::to_string(++numbers);
      if (constant != nullptr) constants.push_back({now[was], constant->type, constant->source});
    }
    operand.slot = now[was];
  };
  for (plan::KernelCall& call : program.calls) {
    for (plan::Operand& in : call.inputs) take(in);
    for (plan::Operand& out : call.outputs) take(out);
  }
  program.slots = std::move(slots);
  of.constants = std::move(constants);
}

}  // namespace

ReferenceProgram reference_program(const ir::Graph& graph, int64_t samples) {
  ir::Graph one = graph;
  const std::vector<size_t> order = phases_in_turn(one);
  const Lowering lowering(one, 1, nullptr);
  ProgramBuilder builder(lowering, {0, ir::Phase::kForward});
  ReferenceProgram result;
  result.samples = samples;
  for (size_t i : order) {
    builder.add_op(i);
    result.lines.resize(builder.num_calls(), line_behind(one.provenance(), one.op(ir::OpId(i)).prov));
  }
  for (uint32_t row = 0; row < lowering.sums.size(); ++row)
    for (ir::ValueId addend : lowering.sums[row].addends) builder.add_to_step(row, addend);
  result.lines.resize(builder.num_calls());
  ir::LoweredProgram lowered = builder.finish_values();
  for (size_t s = 0; s < lowered.holds.size(); ++s)
    if (lowered.holds[s].kind == ir::SlotHolds::Kind::kConstant) {
      const ir::Constant& constant = graph.constants()[lowered.holds[s].index];
      result.constants.push_back({static_cast<int32_t>(s), graph.type(constant.value), constant.source});
    }
  result.program = std::move(lowered.program);
  number_slots(result);
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

Result<Reference> merge_references(const ReferenceProgram& a, const ReferenceProgram& b) {
  return Merge(a, b, nullptr).make();
}
Result<Reference> merge_references(const ReferenceProgram& a, const ReferenceProgram& b, const ReferenceProgram& step) {
  return Merge(a, b, &step).make();
}

}  // namespace piper::emit
