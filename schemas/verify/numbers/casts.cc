#include "schemas/verify/numbers/casts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "schemas/plan/convert_elements.h"
#include "schemas/plan/names.h"
#include "schemas/verify/held_name.h"
#include "schemas/verify/numbers/leaves.h"
#include "schemas/verify/numbers/reference.h"
#include "schemas/verify/numbers/sums.h"
#include "schemas/verify/rules.h"

namespace piper::verify {

using namespace plan;

namespace {

Status casts_refuted(const std::string& what) { return violates(Rule::kEquality, what); }

// All floating values are of this type.
constexpr DType kOne = DType::kF32;

bool has_type(const Program& program, DType dtype) {
  const auto any = [dtype](const std::vector<Operand>& operands) {
    return std::any_of(operands.begin(), operands.end(),
                       [&](const Operand& operand) { return operand.slot >= 0 && operand.dtype == dtype; });
  };
  return std::any_of(program.calls.begin(), program.calls.end(),
                     [&](const KernelCall& call) { return any(call.inputs) || any(call.outputs); });
}

// The type to which casts round what is wider: numbers that are in the model are rounded by whoever made the plan.
DType narrowest(const Program& with_casts) {
  for (const DType dtype : {DType::kBF16, DType::kF16})
    if (has_type(with_casts, dtype)) return dtype;
  return kOne;
}

class OneType {
 public:
  OneType(const Reference& from, DType narrow) : reference_(from), narrow_(narrow) {}

  Reference make() {
    Program& program = reference_.program;
    types_.assign(program.slots.size(), std::nullopt);
    for (KernelCall& call : program.calls) {
      for (Operand& operand : call.inputs) rewrite(operand);
      for (Operand& operand : call.outputs) rewrite(operand);
      if (call.kernel == Kernel::kFill && call.outputs[0].dtype == kOne) round_value(call);
      if (call.kernel != Kernel::kCast) continue;
      call.attrs.clear();  // say the result's type again
      if (call.inputs[0].dtype == kOne && call.outputs[0].dtype == kOne) call.kernel = Kernel::kCopy;
    }
    for (size_t s = 0; s < program.slots.size(); ++s)
      if (types_[s]) program.slots[s].bytes = scaled(program.slots[s].bytes, *types_[s]);
    return std::move(reference_);
  }

 private:
  static int64_t scaled(int64_t bytes, DType from) { return bytes / dtype_bytes(from) * dtype_bytes(kOne); }

  void rewrite(Operand& operand) {
    if (operand.slot < 0 || !is_floating(operand.dtype)) return;
    types_[static_cast<size_t>(operand.slot)] = operand.dtype;
    operand.offset = scaled(operand.offset, operand.dtype);
    operand.dtype = kOne;
  }

  // A number that is in the model is what it rounds to.
  void round_value(KernelCall& fill) {
    for (plan::Attr& attr : fill.attrs) {
      const auto* const number = std::get_if<double>(&attr.value);
      if (attr.name != "value" || number == nullptr) continue;
      const auto value = static_cast<float>(*number);
      float rounded = 0;
      char bytes[sizeof value];
      convert_elements(kOne, &value, narrow_, bytes, 1);
      convert_elements(narrow_, bytes, kOne, &rounded, 1);
      attr.value = static_cast<double>(rounded);
    }
  }

  Reference reference_;
  DType narrow_;
  std::vector<std::optional<DType>> types_;  // [slot] of the floating values that lie there; else nothing
};

// What leaves read of a manifest, in one type.
Bundle in_one_type(const Manifest& manifest) {
  const auto one = [](DType dtype) { return is_floating(dtype) ? kOne : dtype; };
  Bundle result;
  result.manifest.batch = manifest.batch;
  result.manifest.inputs = manifest.inputs;
  for (InputDecl& input : result.manifest.inputs) input.dtype = one(input.dtype);
  for (const TensorInfo& tensor : manifest.tensors) {
    TensorInfo& info = result.manifest.tensors.emplace_back(tensor);
    info.dtype = one(info.dtype);
    info.cut.reset();  // both steps read it whole
  }
  return result;
}

std::map<std::string, Terms> sums_of(const NumberedProgram& run, const NumberTable& table) {
  std::map<std::string, Terms> sums;
  for (const Contribution& contribution : run.contributions)
    append_terms(contribution, -1, table, sums[held_name(run.program->slots[static_cast<size_t>(contribution.slot)])]);
  return sums;
}

const Number* unknown_in(const Terms& terms, const NumberTable& table) {
  for (const Term& term : terms)
    if (const Number& number = table[term.view.number]; number.over == Over::kUnknown) return &number;
  return nullptr;
}

}  // namespace

Result<HeldCasts> check_casts(const Bundle& bundle) {
  const Reference &cast = bundle.reference[0], &model = bundle.reference[1];
  const DType narrow = narrowest(cast.program);
  const Reference of_model = OneType(model, narrow).make();
  const Reference of_cast = OneType(cast, narrow).make();
  const Bundle one_type = in_one_type(bundle.manifest);
  const Leaves leaves(one_type);
  NumberTable table;
  const auto wanted = sums_of(number_reference(of_model, leaves, table), table);
  const int32_t num_known = table.size();
  const auto found = sums_of(number_reference(of_cast, leaves, table), table);
  const auto story = [&](const std::string& name, int32_t call) {
    return casts_refuted(
        "with the casts that `precision` asks for, the reference adds to " + in_quotes(name) +
        " what the model does not; the difference begins at its " + tell_call(cast.program, call) +
        (cast.lines[static_cast<size_t>(call)].empty() ? "" : " at " + cast.lines[static_cast<size_t>(call)]));
  };
  std::set<std::string> results;
  for (const Slot& slot : cast.program.slots)
    if (is_result(bundle.manifest, slot)) results.insert(held_name(slot));
  HeldCasts answer;
  for (const auto& [name, terms] : wanted) {
    const auto with_casts = found.find(name);
    if (with_casts == found.end()) return casts_refuted("with casts the reference adds nothing to " + in_quotes(name));
    if (const Number* const unknown = unknown_in(terms, table)) {
      if (answer.open == 0) answer.why = unknown->why;
      answer.open += static_cast<int64_t>(results.count(name));
      continue;
    }
    if (const Number* const unknown = unknown_in(with_casts->second, table))
      return story(name, unknown->call >= 0 ? unknown->call : with_casts->second.front().call);
    Terms missing, foreign;
    differences(terms, with_casts->second, table, missing, foreign);
    if (missing.empty() && foreign.empty()) {
      answer.held += static_cast<int64_t>(results.count(name));
      continue;
    }
    const Term& term = foreign.empty() ? missing.front() : foreign.front();
    const int32_t number =
        foreign.empty() ? -1 : first_new(table, term.view.number, [&](int32_t n) { return n >= num_known; });
    if (foreign.empty()) return casts_refuted("with casts the reference leaves out a part of " + in_quotes(name));
    return story(name, table[number].call >= 0 ? table[number].call : term.call);
  }
  for (const auto& [name, terms] : found)
    if (wanted.count(name) == 0)
      return casts_refuted("with casts the reference adds to " + in_quotes(name) + ", the model does not");
  return answer;
}

}  // namespace piper::verify
