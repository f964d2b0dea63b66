#include "schemas/verify/numbers/program.h"

#include <algorithm>
#include <string>
#include <utility>

#include "schemas/plan/attrs.h"
#include "schemas/plan/convert_elements.h"
#include "schemas/plan/dtype.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/head_blocks.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/names.h"
#include "schemas/plan/signature.h"
#include "schemas/verify/numbers/bias.h"
#include "schemas/verify/numbers/constants.h"
#include "schemas/verify/numbers/constants_of_samples.h"
#include "schemas/verify/numbers/evaluation.h"
#include "schemas/verify/numbers/leaves.h"
#include "schemas/verify/numbers/memory_order.h"
#include "schemas/verify/numbers/parts_of_places.h"
#include "schemas/verify/numbers/shared_calls.h"
#include "schemas/verify/numbers/sums.h"

namespace piper::verify {

using plan::KernelCall;
using plan::Operand;

namespace {

// A sum that keeps the axes that it sums over, with one place each, has the same elements as one that drops them.
std::optional<KernelCall> without_kept_axes(const KernelCall& call) {
  const auto* const keeps = call.kernel == Kernel::kSum ? plan::find_attr<bool>(call, "keepdim") : nullptr;
  const auto* const dims = plan::find_attr<std::vector<int64_t>>(call, "dims");
  if (keeps == nullptr || !*keeps || dims == nullptr || call.outputs.size() != 1 || call.inputs.size() != 1 ||
      call.outputs[0].slot == Operand::kAbsent || call.outputs[0].shape.size() != call.inputs[0].shape.size())
    return std::nullopt;
  KernelCall sum = call;
  Operand& out = sum.outputs[0];
  for (size_t axis = out.shape.size(); axis-- > 0;) {
    if (std::find(dims->begin(), dims->end(), static_cast<int64_t>(axis)) == dims->end()) continue;
    if (out.shape[axis] != 1) return std::nullopt;
    out.shape.erase(out.shape.begin() + static_cast<std::ptrdiff_t>(axis));
    out.strides.erase(out.strides.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  *plan::find_attr<bool>(sum, "keepdim") = false;
  return sum;
}

class ProgramCalls {
 public:
  ProgramCalls(NumberedProgram& run, NumberTable& table) : run_(run), table_(table), evaluation_(run, table) {}

  void evaluate() {
    for (const KernelCall& call : run_.program->calls) {
      evaluation_.begin_call(at_);
      if (plan::is_of_blocks(call.kernel)) evaluate_head(call);
      else if (const auto sum = without_kept_axes(call)) evaluate(*sum);
      else evaluate(call);
      ++at_;
    }
  }

 private:
  void evaluate(const KernelCall& call) {
    const std::vector<OperandRead> read = evaluation_.read(call);
    std::vector<View> operands;
    for (const OperandRead& operand : read) operands.push_back(operand.view);
    const int32_t place = known_place_of_rank(table_);
    const bool shared = std::any_of(read.begin(), read.end(),
                                    [&](const OperandRead& r) { return r.is_shared() && r.view.number != place; });
    if (!shared)
      if (const auto part = own_part(call, operands, run_, table_)) {
        run_.made.push_back(part->number);
        return evaluation_.put(call.outputs[0], part->number, *part);
      }
    if (evaluate_shared(call, read, evaluation_)) return change_inputs(call, {});
    if (adds_operand(call) && call.outputs.size() == 1 && call.inputs[0].shape == call.outputs[0].shape)
      return evaluation_.add_alike(call.outputs[0], std::move(operands[0]));
    if (call.kernel == Kernel::kFill && !call.accumulate && call.outputs.size() == 1) return fill(call);
    if (is_sum_by_number(call, operands)) return sum_by_number(call, std::move(operands));
    if (operands.size() == 1 && call.outputs[0].strides == plan::contiguous_strides(call.outputs[0].shape) &&
        take_back_cast(call, operands[0], table_))
      return evaluation_.put(call.outputs[0], operands[0].number);
    if (auto parts = selected_parts(call, operands, run_, table_)) {
      run_.made.push_back(parts->number);
      return evaluation_.put(call.outputs[0], parts->number, *parts);
    }
    if (add_bias(call, operands)) return;
    int32_t none = -1;  // the number of all results, where nothing is known of them
    const std::vector<RowResult> results = evaluation_.apply(call, operands, run_.samples, none);
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      const Operand& out = call.outputs[i];
      if (out.slot == Operand::kAbsent) continue;
      HeldValue held;
      int32_t number = none;
      if (none < 0) {
        const RowResult& result = results[std::min(i, results.size() - 1)];
        number = evaluation_.made(call, operands, result, i, run_.samples, held);
      }
      evaluation_.keep(call, out, number, held);
    }
    change_inputs(call, operands);
  }

  // As the calls that it stands for, on all rows at once, in memory after the program's own. Whether logits are
  // converted before or after they are rows is the model's choice, and no difference.
  void evaluate_head(const KernelCall& call) {
    const int64_t memory = (run_.program->workspace_bytes / kLine + 1) * kLine;
    const size_t work = call.kernel == Kernel::kLinearCrossEntropy ? 2 : 1;
    const auto place = [&](std::vector<Operand>& operands) {
      for (Operand& operand : operands) {
        if (operand.slot < 0) continue;
        const auto at = static_cast<size_t>(operand.slot);
        const bool is_work = at == call.inputs.size() + work;
        const Operand& whole = at < call.inputs.size() ? call.inputs[at] : call.outputs[at - call.inputs.size()];
        operand.slot = is_work ? Operand::kWorkspace : whole.slot;
        operand.offset += is_work ? memory : whole.offset;
      }
    };
    const size_t before = run_.made.size();
    for (const bool as_rows : {false, true}) {
      std::vector<KernelCall> calls = plan::calls_on_all_rows(call, as_rows);
      for (KernelCall& each : calls) place(each.inputs), place(each.outputs);
      size_t next = 0;
      const auto is_known = [&](const KernelCall& made) {
        const HeldValue* const value = evaluation_.held(made.outputs[0]);
        return value != nullptr && value->number < run_.known;
      };
      evaluate(calls[next++]);
      if (!is_known(calls[0]) && calls[0].inputs.back().slot == Operand::kAbsent) {  // of a model that lists none
        run_.made.resize(before);
        calls[0].inputs.pop_back();
        evaluate(calls[0]);
      }
      if (calls[next].kernel == Kernel::kCast) {
        evaluate(calls[next]);
        if (!is_known(calls[next++]) && !as_rows) {
          run_.made.resize(before);
          continue;
        }
      }
      while (next < calls.size()) evaluate(calls[next++]);
      break;
    }
    evaluation_.put(call.outputs[work], table_.unknown("memory that a call works in"));
  }
  static constexpr int64_t kLine = 128;

  // A bias that is added to a product by itself, where the model's product adds it.
  bool add_bias(const KernelCall& call, const std::vector<View>& operands) {
    if (run_.index == kReferenceProgram) return false;
    auto product = product_with_bias(call, operands, table_);
    if (!product) return false;
    int32_t none = -1;
    HeldValue held;
    const std::vector<RowResult> results = evaluation_.apply(product->call, product->operands, run_.samples, none);
    if (none >= 0) return false;
    const size_t before = run_.made.size();
    const int32_t number = evaluation_.made(product->call, product->operands, results[0], 0, run_.samples, held);
    if (number >= run_.known) {
      run_.made.resize(before);
      return false;
    }
    evaluation_.put(call.outputs[0], number, held);
    return true;
  }

  void fill(const KernelCall& call) {
    const Operand& out = call.outputs[0];
    if (evaluation_.is_sum(out) && plan::is_zero_fill(call)) return evaluation_.clear(out);
    HeldValue value;
    value.period = 1;
    if (has_no_gaps(out)) evaluation_.put(out, filled(call), value);
    else evaluation_.put(out, table_.unknown("a result of fill with gaps"));
  }

  // What a fill makes is the constant of that one element, where bytes of the type are known here.
  int32_t filled(const KernelCall& fill) {
    const DType dtype = fill.outputs[0].dtype;
    for (const auto& attr : fill.attrs) {
      const auto* const number = std::get_if<double>(&attr.value);
      if (attr.name != "value" || number == nullptr || !can_convert_elements(DType::kF32, dtype)) continue;
      const auto value = static_cast<float>(*number);
      if (dtype == DType::kF32) return constant_of(value, table_);
      char bytes[sizeof value];
      convert_elements(DType::kF32, &value, dtype, bytes, 1);
      const auto size = static_cast<size_t>(dtype_bytes(dtype));
      return table_.constant("constant " + plan::sha256({bytes, size}), dtype_bytes(dtype));
    }
    const std::string what = attrs_text(fill) + " " + std::string(dtype_name(dtype));
    return table_.constant("fill " + what, dtype_bytes(dtype));
  }

  // A mean over samples, of which it is known how many there are, is a sum times a number (constants.h), and so is a
  // sum of repetitions: how often a value is added up is the number.
  bool is_sum_by_number(const KernelCall& call, const std::vector<View>& operands) {
    const bool mean = call.kernel == Kernel::kMean;
    if ((!mean && call.kernel != Kernel::kSum) || operands.size() != 1 || operands[0].number < 0) return false;
    const Operand& out = call.outputs[0];
    if (!has_known_values(out.dtype) || out.strides != plan::contiguous_strides(out.shape)) return false;
    if (out.dtype == DType::kBF16 && (!mean || !is_in_bf16(added_by_mean(call)))) return false;
    std::vector<View> once = operands;
    const bool repeated = repetitions(call, once[0]) > 1;
    if (repeated && out.dtype == DType::kBF16) return false;
    const Over over = sum_of(call, once).over;
    return (repeated && over != Over::kEach && over != Over::kUnknown) ||
           (mean && over == Over::kSum && table_[operands[0].number].over == Over::kEach);
  }
  // How many elements are added for each of a mean, by which bf16 can divide if it holds the number.
  double added_by_mean(const KernelCall& call) const {
    return static_cast<double>(of_step(plan::elements(call.inputs[0]))) /
           static_cast<double>(std::max<int64_t>(plan::elements(call.outputs[0]), 1));
  }
  static bool is_in_bf16(double count) {
    const auto exact = static_cast<float>(count);
    uint16_t narrow = 0;
    float rounded = 0;
    convert_elements(DType::kF32, &exact, DType::kBF16, &narrow, 1);
    convert_elements(DType::kBF16, &narrow, DType::kF32, &rounded, 1);
    return exact == rounded;
  }
  RowResult sum_of(const KernelCall& call, std::vector<View>& operands) {
    if (table_[operands[0].number].over == Over::kPiece) return {Over::kPiece, -1, ""};
    return apply_row(*find_row(Kernel::kSum), call, table_, run_.samples, operands)[0];
  }
  void sum_by_number(const KernelCall& call, std::vector<View> operands) {
    const Operand& out = call.outputs[0];
    KernelCall sum = call, product;
    sum.kernel = Kernel::kSum;
    if (auto without = without_kept_axes(sum)) sum = std::move(*without);
    product.kernel = Kernel::kMul;
    product.outputs = call.outputs;
    product.accumulate = sum.accumulate;
    double times = static_cast<double>(repetitions(call, operands[0]));
    if (call.kernel == Kernel::kMean) times /= added_by_mean(call);
    HeldValue held;
    const RowResult result = sum_of(sum, operands);
    View factor;
    factor.dtype = out.dtype;
    factor.number = out.dtype == DType::kF32 ? constant_of(static_cast<float>(times), table_)
                                             : reciprocal_in_bf16(static_cast<float>(added_by_mean(call)), table_);
    View added = as_rows(out, evaluation_.made(sum, std::move(operands), result, 0, run_.samples, held));
    held = {};
    const int32_t number =
        evaluation_.made(product, {std::move(added), std::move(factor)}, result, 0, run_.samples, held);
    evaluation_.keep(call, out, number, held);
  }
  // How often a call adds each element of what it reads, which is left once.
  int64_t repetitions(const KernelCall& call, View& view) const {
    int64_t times = 1;
    for (const int64_t dim : dims_of(call)) {
      if (dim < 0 || static_cast<size_t>(dim) >= view.axes.size()) continue;
      ViewAxis& axis = view.axes[static_cast<size_t>(dim)];
      if (axis.samples || axis.stride != 0 || axis.extent < 1) continue;
      times *= of_step(std::exchange(axis.extent, 1));
    }
    return times;
  }
  static std::vector<int64_t> dims_of(const KernelCall& call) {
    const auto* const dims = plan::find_attr<std::vector<int64_t>>(call, "dims");
    return dims == nullptr ? std::vector<int64_t>() : *dims;
  }
  // An extent of a reference for any number of samples at those of the step.
  int64_t of_step(int64_t extent) const {
    constexpr int64_t kAny = plan::Reference::kSamples;
    return run_.samples == kAny && extent % kAny == 0 ? extent / kAny * run_.batch : extent;
  }

  bool is_state(const Operand& operand) const {
    return operand.slot >= 0 && run_.program->slots[static_cast<size_t>(operand.slot)].role == plan::SlotRole::kState;
  }
  // What a call reads and writes in place is another value after it; the model has such of running statistics alone.
  void change_inputs(const KernelCall& call, const std::vector<View>& operands) {
    const plan::KernelInfo* const info = plan::find_kernel(call.kernel);
    if (info == nullptr) return;
    const auto& signature = plan::signature_of(*info).inputs;
    for (size_t i = 0; i < call.inputs.size() && i < signature.size(); ++i) {
      const Operand& input = call.inputs[i];
      if (!signature[i].in_place || input.slot == Operand::kAbsent) continue;
      evaluation_.put(input, is_state(input) ? changed_state(call, operands, i)
                                             : evaluation_.unfit("a value that is changed in place"));
    }
  }
  int32_t changed_state(const KernelCall& call, const std::vector<View>& operands, size_t i) {
    if (!run_.by_pieces) return table_.unknown("running statistics");
    NumberTable::Made made;
    made.by = {Maker::How::kInPlace, call.kernel.id()};
    made.what = attrs_text(call, true) + " " + std::to_string(i) + " of " + std::to_string(run_.samples);
    made.operands = operands;
    made.over = Over::kPiece;
    made.bytes = plan::elements(call.inputs[i]) * dtype_bytes(call.inputs[i].dtype);
    made.program = run_.index;
    made.call = at_;
    return table_.result(std::move(made));
  }

  NumberedProgram& run_;
  NumberTable& table_;
  Evaluation evaluation_;
  int32_t at_ = 0;  // the call
};

}  // namespace

void number_program(NumberedProgram& run, NumberTable& table) { ProgramCalls(run, table).evaluate(); }

}  // namespace piper::verify
