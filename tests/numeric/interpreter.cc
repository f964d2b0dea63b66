#include "tests/numeric/interpreter.h"

#include <cstring>
#include <fstream>
#include <functional>
#include <utility>

#include "compiler/ir/op_traits.h"
#include "compiler/ir/shapes.h"

namespace piper::numeric {

namespace {

struct AttrCollector {
  std::vector<plan::Attr>& attrs;
  template <class T>
  void operator()(const char* name, const T& field) {
    if constexpr (std::is_same_v<T, DType>) attrs.push_back({name, std::string(dtype_name(field))});
    else if constexpr (!std::is_same_v<T, ir::ValueId>) attrs.push_back({name, field});
  }
};

bool is_dense(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

// Calls visit(position) for every element in row-major order; position counts elements.
void each_element(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, int64_t offset,
                  const std::function<void(int64_t)>& visit) {
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t extent : shape)
    if (extent == 0) return;
  for (;;) {
    int64_t position = offset;
    for (size_t i = 0; i < shape.size(); ++i) position += index[i] * strides[i];
    visit(position);
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

// parameter = stored with its axes put back: stored.shape[i] = parameter.shape[permutation[i]].
std::vector<std::byte> unpermute(const std::vector<std::byte>& stored, const ir::TensorType& type,
                                 const std::vector<int64_t>& permutation) {
  std::vector<int64_t> stored_shape;
  for (int64_t axis : permutation) stored_shape.push_back(type.shape[static_cast<size_t>(axis)]);
  const std::vector<int64_t> stored_strides = ir::row_major_strides(stored_shape);
  std::vector<int64_t> strides(type.shape.size());
  for (size_t i = 0; i < permutation.size(); ++i) strides[static_cast<size_t>(permutation[i])] = stored_strides[i];
  const size_t size = static_cast<size_t>(dtype_bytes(type.dtype));
  std::vector<std::byte> result(stored.size());
  size_t to = 0;
  each_element(type.shape, strides, 0, [&](int64_t from) {
    std::memcpy(result.data() + to, stored.data() + static_cast<size_t>(from) * size, size);
    to += size;
  });
  return result;
}

}  // namespace

std::vector<plan::Attr> plan_attrs(const ir::Attrs& attrs) {
  std::vector<plan::Attr> result;
  std::visit([&](const auto& held) { held.fields(held, AttrCollector{result}); }, attrs);
  return result;
}

double Tensor::at(int64_t index) const {
  const std::byte* place = bytes.data() + index * dtype_bytes(type.dtype);
  const auto read = [&](auto number) {
    std::memcpy(&number, place, sizeof number);
    return static_cast<double>(number);
  };
  switch (type.dtype) {
    case DType::kF32: return read(float{});
    case DType::kF64: return read(double{});
    case DType::kI64: return read(int64_t{});
    case DType::kI32: return read(int32_t{});
    case DType::kBool: return read(uint8_t{});
    case DType::kF16: PIPER_CHECK(false, "f16 values are not interpreted");
    case DType::kBF16: {
      uint32_t bits = 0;
      std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, place, 2);
      float number = 0;
      std::memcpy(&number, &bits, sizeof number);
      return static_cast<double>(number);
    }
  }
  return 0;
}

void Tensor::set(int64_t index, double number) {
  std::byte* place = bytes.data() + index * dtype_bytes(type.dtype);
  const auto write = [&](auto typed) { std::memcpy(place, &typed, sizeof typed); };
  switch (type.dtype) {
    case DType::kF32: return write(static_cast<float>(number));
    case DType::kF64: return write(number);
    case DType::kI64: return write(static_cast<int64_t>(number));
    case DType::kI32: return write(static_cast<int32_t>(number));
    case DType::kBool: return write(static_cast<uint8_t>(number != 0));
    case DType::kBF16:
    case DType::kF16: PIPER_CHECK(false, "narrow values are only read");
  }
}

Result<std::unique_ptr<Interpreter>> Interpreter::make(const ir::Graph& graph) {
  std::unique_ptr<Interpreter> interpreter(new Interpreter(graph));
  PIPER_RETURN_IF_ERROR(interpreter->prepare());
  return interpreter;
}

Status Interpreter::prepare() {
  views_.resize(graph_.num_values());
  gradient_of_.assign(graph_.num_values(), -1);
  for (size_t i = 0; i < graph_.num_values(); ++i)
    if (graph_.value(ir::ValueId(i)).kind != ir::ValueKind::kOpResult)
      PIPER_RETURN_IF_ERROR(prepare_source(ir::ValueId(i)));
  for (size_t i = 0; i < graph_.num_ops(); ++i) {
    const ir::Op& op = graph_.op(ir::OpId(i));
    Status status = prepare_op(op);
    if (!status.ok()) return std::move(status).with_context(graph_.provenance().describe(op.prov));
  }
  return {};
}

Status Interpreter::prepare_source(ir::ValueId id) {
  const ir::Value& value = graph_.value(id);
  views_[id.index] = new_buffer(value.type);
  Tensor& tensor = *buffers_[views_[id.index].buffer];
  const ir::WeightSource* source = nullptr;
  switch (value.kind) {
    case ir::ValueKind::kParameter: source = &graph_.parameters()[value.payload].source; break;
    case ir::ValueKind::kBuffer: source = &graph_.buffers()[value.payload].source; break;
    case ir::ValueKind::kConstant: source = &graph_.constants()[value.payload].source; break;
    case ir::ValueKind::kInput:
    case ir::ValueKind::kSeedStep:
    case ir::ValueKind::kSampleOffset:
    case ir::ValueKind::kPlace:
    case ir::ValueKind::kLossScale:
    case ir::ValueKind::kOpResult: return {};
  }
  std::vector<std::byte> bytes;
  if (source->data != nullptr) {
    bytes = *source->data;
  } else if (!source->file.empty()) {
    std::ifstream file(source->file, std::ios::binary);
    bytes.resize(static_cast<size_t>(source->bytes));
    file.seekg(source->offset);
    file.read(reinterpret_cast<char*>(bytes.data()), source->bytes);
    if (!file) return Status::failure("", "cannot read '" + value.name + "' from " + source->file);
  } else {
    return {};
  }
  if (bytes.size() != tensor.bytes.size()) return Status::failure("", "'" + value.name + "' has a wrong size");
  tensor.bytes = source->permutation.empty() ? std::move(bytes) : unpermute(bytes, value.type, source->permutation);
  return {};
}

Interpreter::View Interpreter::new_buffer(const ir::TensorType& type) {
  auto tensor = std::make_unique<Tensor>();
  tensor->type = type;
  tensor->bytes.resize(static_cast<size_t>(type.bytes()));
  buffers_.push_back(std::move(tensor));
  return {buffers_.size() - 1, 0, type.shape, ir::row_major_strides(type.shape), type.dtype};
}

plan::Operand Interpreter::operand_of(const View& view) const {
  plan::Operand operand;
  operand.slot = static_cast<int32_t>(view.buffer);
  operand.offset = view.offset * dtype_bytes(view.dtype);
  operand.dtype = view.dtype;
  operand.shape = view.shape;
  operand.strides = view.strides;
  return operand;
}

kernels::BoundOperand Interpreter::bound(const View& view, const plan::Operand& operand) {
  return {hal::Address(buffers_[view.buffer]->bytes.data()) + operand.offset, &operand};
}

Status Interpreter::bind(Step& step, const std::string& kernel, const std::vector<View>& outputs,
                         const std::vector<const View*>& inputs, std::vector<plan::Attr> attrs) {
  step.call = std::make_unique<plan::KernelCall>();
  plan::KernelCall& call = *step.call;
  call.kernel = kernel;
  call.attrs = std::move(attrs);
  for (const View& view : outputs) call.outputs.push_back(operand_of(view));
  for (const View* view : inputs) call.inputs.push_back(view == nullptr ? plan::Operand{} : operand_of(*view));
  std::vector<kernels::BoundOperand> bound_outputs, bound_inputs;
  for (size_t i = 0; i < outputs.size(); ++i) bound_outputs.push_back(bound(outputs[i], call.outputs[i]));
  for (size_t i = 0; i < inputs.size(); ++i)
    bound_inputs.push_back(inputs[i] == nullptr ? kernels::BoundOperand{{}, &call.inputs[i]}
                                                : bound(*inputs[i], call.inputs[i]));
  PIPER_ASSIGN(step.kernel, kernels::cpu_library().bind(call, bound_outputs, bound_inputs));
  return {};
}

Status Interpreter::prepare_op(const ir::Op& op) {
  Step& step = steps_.emplace_back();
  const View* x = op.operands.empty() || !op.operands[0].valid() ? nullptr : &views_[op.operands[0].index];
  switch (op.kind) {
    case ir::OpKind::kDetach:
    case ir::OpKind::kEnter:
    case ir::OpKind::kStepSum: views_[op.results[0].index] = *x; return {};
    case ir::OpKind::kReshape: {
      View y = *x;
      if (!is_dense(x->shape, x->strides)) {
        y = new_buffer(graph_.type(op.operands[0]));
        PIPER_RETURN_IF_ERROR(bind(step, "copy", {y}, {x}, {}));
      }
      y.shape = graph_.type(op.results[0]).shape;
      y.strides = ir::row_major_strides(y.shape);
      views_[op.results[0].index] = std::move(y);
      return {};
    }
    case ir::OpKind::kPermute: {
      View y = *x;
      const auto& dims = std::get<ir::PermuteAttrs>(op.attrs).dims;
      for (size_t i = 0; i < dims.size(); ++i) {
        y.shape[i] = x->shape[static_cast<size_t>(dims[i])];
        y.strides[i] = x->strides[static_cast<size_t>(dims[i])];
      }
      views_[op.results[0].index] = std::move(y);
      return {};
    }
    case ir::OpKind::kExpand: {
      View y = *x;
      y.shape = graph_.type(op.results[0]).shape;
      y.strides.assign(y.shape.size(), 0);
      const size_t lead = y.shape.size() - x->shape.size();
      for (size_t i = 0; i < x->shape.size(); ++i)
        if (x->shape[i] == y.shape[lead + i]) y.strides[lead + i] = x->strides[i];
      views_[op.results[0].index] = std::move(y);
      return {};
    }
    case ir::OpKind::kSlice: {
      View y = *x;
      const auto& attrs = std::get<ir::SliceAttrs>(op.attrs);
      const size_t dim = static_cast<size_t>(attrs.dim);
      y.offset += attrs.start * x->strides[dim];
      y.strides[dim] *= attrs.step;
      y.shape = graph_.type(op.results[0]).shape;
      views_[op.results[0].index] = std::move(y);
      return {};
    }
    case ir::OpKind::kAccumulateGrad: {
      const ir::ValueId parameter = std::get<ir::AccumulateGradAttrs>(op.attrs).parameter;
      int64_t& index = gradient_of_[parameter.index];
      if (index < 0) {
        index = static_cast<int64_t>(gradients_.size());
        const ir::TensorType& type = graph_.type(parameter);
        gradients_.push_back(std::make_unique<Tensor>());
        *gradients_.back() = {type, std::vector<std::byte>(static_cast<size_t>(type.bytes()))};
      }
      step.accumulate_into = index;
      step.accumulate_from = *x;
      return {};
    }
    case ir::OpKind::kAllReduce:
    case ir::OpKind::kAllToAll: {  // alone, a rank hears from itself; several ranks overwrite the result
      const View y = views_[op.results[0].index] = new_buffer(graph_.type(op.results[0]));
      return bind(step, "copy", {y}, {x}, {});
    }
    case ir::OpKind::kAllGather:
    case ir::OpKind::kReduceScatter: {  // likewise: of several places the first part
      const View y = views_[op.results[0].index] = new_buffer(graph_.type(op.results[0]));
      View from = *x, to = y;
      const bool gathers = op.kind == ir::OpKind::kAllGather;
      View& larger = gathers ? to : from;
      larger.shape = (gathers ? from : to).shape;
      larger.strides.erase(larger.strides.begin());
      return bind(step, "copy", {to}, {&from}, {});
    }
    case ir::OpKind::kOwnPart: {
      const View y = views_[op.results[0].index] = new_buffer(graph_.type(op.results[0]));
      View row = y;
      row.shape.insert(row.shape.begin(), 1);
      row.strides.insert(row.strides.begin(), graph_.type(op.results[0]).elements());
      return bind(step, "index_select", {row}, {x, &views_[op.operands[1].index]}, {{"dim", int64_t{0}}});
    }
    default: break;  // every other operator is a kernel of the same name
  }
  std::vector<View> outputs;
  for (ir::ValueId result : op.results) outputs.push_back(views_[result.index] = new_buffer(graph_.type(result)));
  std::vector<const View*> inputs;
  for (ir::ValueId operand : op.operands) inputs.push_back(operand.valid() ? &views_[operand.index] : nullptr);
  return bind(step, std::string(op_name(op.kind)), outputs, inputs, plan_attrs(op.attrs));
}

Tensor& Interpreter::source(ir::ValueId value) {
  PIPER_CHECK(graph_.value(value).kind != ir::ValueKind::kOpResult, graph_.value(value).name, " is computed");
  return *buffers_[views_[value.index].buffer];
}

Tensor& Interpreter::received(ir::ValueId value) {
  PIPER_CHECK(ir::is_communication(graph_.op(graph_.value(value).producer).kind), graph_.value(value).name,
              " is not received");
  return *buffers_[views_[value.index].buffer];
}

void Interpreter::run(size_t first, size_t end) {
  hal::Queue queue;
  for (size_t i = first; i < end; ++i) {
    Step& step = steps_[i];
    if (step.kernel != nullptr) step.kernel->run(queue);
    if (step.accumulate_into >= 0) add_gradient(step);
  }
}

void Interpreter::add_gradient(const Step& step) {
  Tensor& sum = *gradients_[static_cast<size_t>(step.accumulate_into)];
  const View& from = step.accumulate_from;
  const Tensor& buffer = *buffers_[from.buffer];
  int64_t to = 0;
  each_element(from.shape, from.strides, from.offset, [&](int64_t position) {
    sum.set(to, sum.at(to) + buffer.at(position));
    ++to;
  });
}

Tensor Interpreter::value(ir::ValueId value) const {
  const View& view = views_[value.index];
  const Tensor& buffer = *buffers_[view.buffer];
  Tensor result{graph_.type(value), {}};
  result.bytes.resize(static_cast<size_t>(result.type.bytes()));
  int64_t to = 0;
  each_element(view.shape, view.strides, view.offset, [&](int64_t from) { result.set(to++, buffer.at(from)); });
  return result;
}

const Tensor* Interpreter::gradient(ir::ValueId parameter) const {
  const int64_t index = gradient_of_[parameter.index];
  return index < 0 ? nullptr : gradients_[static_cast<size_t>(index)].get();
}

void Interpreter::clear_gradients() {
  for (const std::unique_ptr<Tensor>& gradient : gradients_)
    std::fill(gradient->bytes.begin(), gradient->bytes.end(), std::byte{0});
}

}  // namespace piper::numeric
