#include "schemas/plan/head_blocks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "schemas/plan/attrs.h"
#include "schemas/plan/dtype.h"
#include "schemas/plan/names.h"

namespace piper::plan {
namespace {

constexpr int64_t kLine = 128;  // bytes: of a GPU's cache, as buffers begin

int64_t rounded_up(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }
int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t product_of(const std::vector<int64_t>& extents) {
  int64_t product = 1;
  for (const int64_t extent : extents) product *= extent;
  return product;
}

// Rows [first, first + count) of all, which are a range along one of the product's leading axes, at one place along
// those before it, and all of those after it: so an operand with any strides has a view of them.
struct Rows {
  std::vector<int64_t> at, extents;  // of the leading axes
  int64_t first = 0, count = 0;
};

Rows all_rows(const std::vector<int64_t>& lead) {
  return {std::vector<int64_t>(lead.size(), 0), lead, 0, product_of(lead)};
}
std::vector<Rows> blocks_of(const std::vector<int64_t>& lead, int64_t most) {
  if (lead.empty()) return {{{}, {}, 0, 1}};
  // The axis along which blocks are ranges: what is inside one step of it fits a block.
  size_t axis = lead.size() - 1;
  int64_t inside = 1;
  while (axis > 0 && inside * lead[axis] <= most) inside *= lead[axis--];
  std::vector<Rows> blocks;
  const int64_t extent = lead[axis],
                ranges = divided_up(extent, std::max<int64_t>(1, most / std::max<int64_t>(1, inside)));
  const int64_t step = divided_up(extent, std::max<int64_t>(1, ranges));
  int64_t outside = 1;
  for (size_t a = 0; a < axis; ++a) outside *= lead[a];
  for (int64_t o = 0; o < outside; ++o)
    for (int64_t begin = 0; begin < extent; begin += step) {
      Rows rows{std::vector<int64_t>(lead.size(), 0), lead, (o * extent + begin) * inside, 0};
      int64_t place = o;
      for (size_t a = axis; a-- > 0; place /= lead[a]) {
        rows.at[a] = place % lead[a];
        rows.extents[a] = 1;
      }
      rows.at[axis] = begin;
      rows.extents[axis] = std::min(step, extent - begin);
      rows.count = rows.extents[axis] * inside;
      blocks.push_back(std::move(rows));
    }
  return blocks;
}

// Whether the gradient of the logits of all rows is in the work memory, and the weight's is made of it at once: in a
// half type each block would round the sum of those before it.
bool keeps_all_rows(CalledKernel kernel, DType product) {
  return kernel == Kernel::kLinearCrossEntropyBackwardWeight && is_half(product);
}

class HeadCalls {
 public:
  // `rows_of_work`: of which the product is in the work memory at one time.
  HeadCalls(const KernelCall& call, int64_t rows_of_work, bool cast_as_rows)
      : call_(call), cast_as_rows_(cast_as_rows), backward_(call.kernel != Kernel::kLinearCrossEntropy) {
    const size_t x = backward_ ? 1 : 0;
    x_ = input(x);
    weight_ = input(x + 1);
    target_ = input(x + 2);
    lse_ = backward_ ? input(x + 3) : output(1);
    bias_ = input(x + (backward_ ? 4 : 3));
    class_weight_ = input(x + (backward_ ? 5 : 4));
    work_ = output(backward_ ? 1 : 2);
    lead_.assign(x_.shape.begin(), x_.shape.end() - 1);
    classes_ = weight_.shape[0];
    const auto* const logits = find_attr<std::string>(call, "logits");
    logits_ = logits == nullptr ? x_.dtype : dtype_from_name(*logits).value_or(x_.dtype);
    wide_at_ = rounded_up(rows_of_work * classes_ * dtype_bytes(x_.dtype));
  }

  const std::vector<int64_t>& lead() const { return lead_; }

  void append(const Rows& rows, bool first, std::vector<KernelCall>& calls) {
    calls_ = &calls;
    const int64_t at = keeps_all_rows(call_.kernel, x_.dtype) ? rows.first * classes_ * dtype_bytes(x_.dtype) : 0;
    const Operand x = part(x_, rows), product = matrix(rows, x_.dtype, at, false);
    std::vector<Operand> operands{x, weight_, bias_};
    add(Kernel::kLinear, std::move(operands), {product});
    const bool casts = logits_ != x_.dtype;
    if (casts) cast(matrix(rows, x_.dtype, at, cast_as_rows_), matrix(rows, logits_, wide_at_, cast_as_rows_));
    const Operand logits = matrix(rows, logits_, casts ? wide_at_ : at, true);
    const Operand target = part_of_list(target_, rows), lse = part_of_list(lse_, rows);
    if (!backward_) {
      operands = {logits, target};
      if (is_there(class_weight_)) operands.push_back(class_weight_);
      add(Kernel::kCrossEntropySum, std::move(operands), {output(0), lse}, !first).attrs = loss_attrs();
      return;
    }
    add(Kernel::kCrossEntropyBackward, {input(0), logits, target, lse, class_weight_}, {logits}).attrs = loss_attrs();
    if (casts) cast(matrix(rows, logits_, wide_at_, cast_as_rows_), matrix(rows, x_.dtype, at, cast_as_rows_));
    if (call_.kernel == Kernel::kLinearCrossEntropyBackwardInput) {
      add(Kernel::kLinearBackwardInput, {product, weight_}, {part(output(0), rows)}, call_.accumulate);
      return;
    }
    if (!keeps_all_rows(call_.kernel, x_.dtype)) add_gradients(product, x, call_.accumulate || !first);
    else if (rows.first + rows.count == product_of(lead_))
      add_gradients(matrix(all_rows(lead_), x_.dtype, 0, false), x_, call_.accumulate);
  }

 private:
  static bool is_there(const Operand& operand) { return operand.slot != Operand::kAbsent; }
  static Operand placed(const std::vector<Operand>& operands, size_t i, size_t before) {
    Operand operand;
    if (i >= operands.size() || operands[i].slot == Operand::kAbsent) return operand;
    operand = operands[i];
    operand.slot = static_cast<int32_t>(before + i);
    operand.offset = 0;
    return operand;
  }
  Operand input(size_t i) const { return placed(call_.inputs, i, 0); }
  Operand output(size_t i) const { return placed(call_.outputs, i, call_.inputs.size()); }

  // The gradients of the weight and of the bias.
  void add_gradients(const Operand& product, const Operand& x, bool adds) {
    if (is_there(output(0))) add(Kernel::kLinearBackwardWeight, {product, x}, {output(0)}, adds);
    if (!is_there(output(2))) return;
    std::vector<int64_t> dims;
    for (size_t axis = 0; axis < lead_.size(); ++axis) dims.push_back(static_cast<int64_t>(axis));
    add(Kernel::kSum, {product}, {output(2)}, adds).attrs = {{"dims", std::move(dims)}, {"keepdim", false}};
  }

  // The rows of an operand [lead.., n].
  static Operand part(Operand whole, const Rows& rows) {
    for (size_t axis = 0; axis < rows.at.size(); ++axis) {
      whole.offset += rows.at[axis] * whole.strides[axis] * dtype_bytes(whole.dtype);
      whole.shape[axis] = rows.extents[axis];
    }
    return whole;
  }
  static Operand part_of_list(Operand list, const Rows& rows) {
    list.offset += rows.first * list.strides[0] * dtype_bytes(list.dtype);
    list.shape[0] = rows.count;
    return list;
  }
  // Rows by classes in the work memory.
  Operand matrix(const Rows& rows, DType dtype, int64_t offset, bool as_rows) const {
    Operand operand = work_;
    operand.dtype = dtype;
    operand.offset = offset;
    operand.shape = as_rows ? std::vector<int64_t>{rows.count} : rows.extents;
    operand.shape.push_back(classes_);
    operand.strides = contiguous_strides(operand.shape);
    return operand;
  }
  std::vector<Attr> loss_attrs() const {
    std::vector<Attr> attrs;
    for (const Attr& attr : call_.attrs)
      if (attr.name == "ignore_index" || attr.name == "label_smoothing") attrs.push_back(attr);
    return attrs;
  }
  KernelCall& add(Kernel kernel, std::vector<Operand> inputs, std::vector<Operand> outputs, bool accumulate = false) {
    KernelCall call;
    call.kernel = kernel;
    call.inputs = std::move(inputs);
    call.outputs = std::move(outputs);
    call.accumulate = accumulate;
    call.origin = call_.origin;
    calls_->push_back(std::move(call));
    return calls_->back();
  }
  void cast(Operand from, Operand to) {
    const std::string type(dtype_name(to.dtype));
    add(Kernel::kCast, {std::move(from)}, {std::move(to)}).attrs = {{"to", type}};
  }

  const KernelCall& call_;
  const bool cast_as_rows_, backward_;
  Operand x_, weight_, target_, lse_, bias_, class_weight_, work_;
  std::vector<int64_t> lead_;
  int64_t classes_ = 0, wide_at_ = 0;
  DType logits_ = DType::kF32;
  std::vector<KernelCall>* calls_ = nullptr;
};

int64_t rows_of_block(int64_t rows, int64_t blocks) {
  return std::max<int64_t>(1, divided_up(rows, std::max<int64_t>(1, blocks)));
}
const Operand& rows_operand(const KernelCall& call) {
  return call.inputs[call.kernel == Kernel::kLinearCrossEntropy ? 0 : 1];
}

}  // namespace

bool is_of_blocks(const CalledKernel& kernel) {
  return kernel == Kernel::kLinearCrossEntropy || kernel == Kernel::kLinearCrossEntropyBackwardInput ||
         kernel == Kernel::kLinearCrossEntropyBackwardWeight;
}

int64_t head_work_elements(CalledKernel kernel, int64_t rows, int64_t classes, int64_t blocks, DType product,
                           DType logits) {
  const int64_t elements = rows_of_block(rows, blocks) * classes;
  int64_t bytes = rounded_up((keeps_all_rows(kernel, product) ? rows * classes : elements) * dtype_bytes(product));
  if (logits != product) bytes += rounded_up(elements * dtype_bytes(logits));
  return bytes / dtype_bytes(DType::kF32);
}

std::string head_misfit(const KernelCall& call) {
  const Operand& x = rows_operand(call);
  const size_t first = call.kernel == Kernel::kLinearCrossEntropy ? 0 : 1;
  const Operand &weight = call.inputs[first + 1], &target = call.inputs[first + 2];
  if (x.shape.size() < 2) return "x has no rows";
  const int64_t rows = product_of(x.shape) / std::max<int64_t>(1, x.shape.back());
  if (x.shape.back() > 0 && target.shape[0] != rows)
    return "target has " + std::to_string(target.shape[0]) + " rows, x has " + std::to_string(rows);
  const auto* const blocks = find_attr<int64_t>(call, "blocks");
  const auto* const name = find_attr<std::string>(call, "logits");
  const auto logits = name == nullptr ? std::nullopt : dtype_from_name(*name);
  if (blocks == nullptr || *blocks < 1) return "it does not say of how many blocks";
  if (!logits || !is_floating(*logits)) return "it does not say of which type its logits are";
  const Operand& work = call.outputs[call.kernel == Kernel::kLinearCrossEntropy ? 2 : 1];
  const int64_t wanted = head_work_elements(call.kernel, rows, weight.shape[0], *blocks, x.dtype, *logits);
  return work.shape[0] >= wanted
             ? ""
             : "its work memory has " + std::to_string(work.shape[0]) + " elements, not " + std::to_string(wanted);
}

std::vector<KernelCall> calls_on_blocks(const KernelCall& call) {
  const std::vector<int64_t>& shape = rows_operand(call).shape;
  const std::vector<int64_t> lead(shape.begin(), shape.end() - 1);
  const auto* const blocks = find_attr<int64_t>(call, "blocks");
  const int64_t rows_of_all = product_of(lead), most = rows_of_block(rows_of_all, blocks == nullptr ? 1 : *blocks);
  HeadCalls head(call, keeps_all_rows(call.kernel, rows_operand(call).dtype) ? rows_of_all : most, false);
  std::vector<KernelCall> calls;
  for (const Rows& rows : blocks_of(lead, most)) head.append(rows, calls.empty(), calls);
  return calls;
}

std::vector<KernelCall> calls_on_all_rows(const KernelCall& call, bool cast_as_rows) {
  const std::vector<int64_t>& shape = rows_operand(call).shape;
  const std::vector<int64_t> lead(shape.begin(), shape.end() - 1);
  HeadCalls head(call, product_of(lead), cast_as_rows);
  std::vector<KernelCall> calls;
  head.append(all_rows(lead), true, calls);
  return calls;
}

}  // namespace piper::plan
