#include "tests/numeric/torch_reference.h"

#include <cstring>
#include <exception>
#include <thread>
#include <tuple>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include "schemas/forms/attends.h"
#include "tests/unit/form_value.h"

namespace piper::numeric {

namespace {

using ir::OpKind;
constexpr int64_t kSumReduction = 2;  // at::Reduction::Sum

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return at::kFloat;
    case DType::kF64: return at::kDouble;
    case DType::kBF16: return at::kBFloat16;
    case DType::kF16: return at::kHalf;
    case DType::kI64: return at::kLong;
    case DType::kI32: return at::kInt;
    case DType::kBool: return at::kBool;
  }
  return at::kFloat;
}

at::Tensor to_torch(const Tensor& tensor) {
  at::Tensor result = at::empty(tensor.type.shape, at::TensorOptions(scalar_type(tensor.type.dtype)));
  if (!tensor.bytes.empty()) std::memcpy(result.data_ptr(), tensor.bytes.data(), tensor.bytes.size());
  return result;
}

Tensor from_torch(const at::Tensor& tensor, const ir::TensorType& type) {
  const at::Tensor dense = tensor.detach().contiguous();
  PIPER_CHECK(dense.sizes() == at::IntArrayRef(type.shape), "LibTorch gives another shape than ", to_string(type));
  Tensor result{type, std::vector<std::byte>(static_cast<size_t>(type.bytes()))};
  if (!result.bytes.empty()) std::memcpy(result.bytes.data(), dense.data_ptr(), result.bytes.size());
  return result;
}

// One op on ATen tensors.
class Call {
 public:
  Call(const ir::Op& op, std::vector<at::Tensor> operands) : op_(op), x_(std::move(operands)) {}

  std::vector<at::Tensor> run() {
    if (auto result = view(); result.defined()) return {result};
    if (auto result = unary(); result.defined()) return {result};
    if (auto result = binary(); result.defined()) return {result};
    if (auto result = reduce(); !result.empty()) return result;
    if (auto result = index(); result.defined()) return {result};
    if (auto result = experts(); !result.empty()) return result;
    if (auto result = factors(); !result.empty()) return result;
    return layer();
  }

 private:
  template <class T>
  const T& as() const {
    return std::get<T>(op_.attrs);
  }
  at::Tensor optional(size_t i) const { return i < x_.size() ? x_[i] : at::Tensor(); }
  // The mask that a predicate says, written out.
  static at::Tensor mask_of(const std::string& text, const at::Tensor& q, const at::Tensor& k,
                            const std::optional<at::Tensor>& vectors) {
    const int64_t queries = q.size(2), keys = k.size(2);
    const at::Tensor read = vectors ? vectors->contiguous() : at::zeros({1, 1, 0, 0}, at::kLong);
    const form::Attends attends = form::parse_attends(text, queries, keys, read.size(2), read.size(3)).value();
    at::Tensor mask = at::empty({read.size(0), 1, queries, keys}, at::kBool);
    for (int64_t sample = 0; sample < read.size(0); ++sample) {
      const int64_t* first = read.const_data_ptr<int64_t>() + sample * read.stride(0);
      form::At at{{0, 0}, {first, first + read.size(2) * read.size(3)}, read.size(3)};
      for (int64_t i = 0; i < queries * keys; ++i) {
        at.place = {i / keys, i % keys};
        mask.data_ptr<bool>()[sample * queries * keys + i] = form::value_in(attends.where, at) != 0;
      }
    }
    return mask;
  }
  std::optional<at::Tensor> maybe(size_t i) const {
    return optional(i).defined() ? std::optional<at::Tensor>(x_[i]) : std::nullopt;
  }

  at::Tensor view() const {
    switch (op_.kind) {
      case OpKind::kReshape: return x_[0].reshape(as<ir::ReshapeAttrs>().shape);
      case OpKind::kPermute: return x_[0].permute(as<ir::PermuteAttrs>().dims);
      case OpKind::kExpand: return x_[0].expand(as<ir::ExpandAttrs>().shape);
      case OpKind::kSlice: {
        const auto& a = as<ir::SliceAttrs>();
        return x_[0].slice(a.dim, a.start, a.end, a.step);
      }
      case OpKind::kDetach: return x_[0].detach();
      case OpKind::kStepSum:
      case OpKind::kEnter:
      case OpKind::kAllReduce:
      case OpKind::kAllToAll: return x_[0];
      case OpKind::kAllGather: return x_[0].unsqueeze(0);  // of one place
      case OpKind::kReduceScatter:
      case OpKind::kOwnPart: return x_[0].squeeze(0);
      case OpKind::kCast: return x_[0].to(scalar_type(as<ir::CastAttrs>().to));
      default: return {};
    }
  }

  at::Tensor unary() const {
    const at::Tensor& x = x_.empty() ? at::Tensor() : x_[0];
    switch (op_.kind) {
      case OpKind::kNeg: return at::neg(x);
      case OpKind::kAbs: return at::abs(x);
      case OpKind::kSign: return at::sign(x);
      case OpKind::kLogSigmoid: return at::log_sigmoid(x);
      case OpKind::kSoftplus: return at::softplus(x, 1, 20);
      case OpKind::kRelu: return at::relu(x);
      case OpKind::kLeakyRelu: return at::leaky_relu(x, as<ir::SlopeAttrs>().slope);
      case OpKind::kGelu: return at::gelu(x, as<ir::GeluAttrs>().approximate);
      case OpKind::kPowScalar: return at::pow(x, as<ir::ExponentAttrs>().exponent);
      case OpKind::kPolygamma: return at::polygamma(as<ir::PolygammaAttrs>().n, x);
      case OpKind::kClamp: return at::clamp(x, as<ir::ClampAttrs>().min, as<ir::ClampAttrs>().max);
      case OpKind::kLogicalNot: return at::logical_not(x);
      case OpKind::kIsNan: return at::isnan(x);
#define PIPER_UNARY(kernel, name, onnx, precision, low, high, value, derivative) \
  case OpKind::kernel: return at::name(x);
#define PIPER_BINARY(kernel, name, precision, value, of_a, of_b)
#include "schemas/plan/elementwise.def"
      default: return {};
    }
  }

  at::Tensor binary() const {
    switch (op_.kind) {
      case OpKind::kAdd: return at::add(x_[0], x_[1]);
      case OpKind::kSub: return at::sub(x_[0], x_[1]);
      case OpKind::kMul: return at::mul(x_[0], x_[1]);
      case OpKind::kDiv: return x_[0].is_floating_point() ? at::div(x_[0], x_[1]) : at::div(x_[0], x_[1], "floor");
      case OpKind::kMaximum: return at::maximum(x_[0], x_[1]);
      case OpKind::kMinimum: return at::minimum(x_[0], x_[1]);
      case OpKind::kEq: return at::eq(x_[0], x_[1]);
      case OpKind::kNe: return at::ne(x_[0], x_[1]);
      case OpKind::kLt: return at::lt(x_[0], x_[1]);
      case OpKind::kLe: return at::le(x_[0], x_[1]);
      case OpKind::kGt: return at::gt(x_[0], x_[1]);
      case OpKind::kGe: return at::ge(x_[0], x_[1]);
      case OpKind::kLogicalAnd: return at::logical_and(x_[0], x_[1]);
      case OpKind::kLogicalOr: return at::logical_or(x_[0], x_[1]);
      case OpKind::kWhere: return at::where(x_[0], x_[1], x_[2]);
      case OpKind::kMatmul: return at::matmul(x_[0], x_[1]);
#define PIPER_UNARY(kernel, name, onnx, precision, low, high, value, derivative)
#define PIPER_BINARY(kernel, name, precision, value, of_a, of_b) \
  case OpKind::kernel: return at::name(x_[0], x_[1]);
#include "schemas/plan/elementwise.def"
      default: return {};
    }
  }

  std::vector<at::Tensor> reduce() const {
    switch (op_.kind) {
      case OpKind::kSum:
      case OpKind::kMean:
      case OpKind::kAmax: {
        const auto& a = as<ir::ReduceAttrs>();
        if (a.dims.empty()) return {x_[0]};
        if (op_.kind == OpKind::kSum) return {at::sum(x_[0], a.dims, a.keepdim)};
        if (op_.kind == OpKind::kMean) return {at::mean(x_[0], a.dims, a.keepdim)};
        return {at::amax(x_[0], a.dims, a.keepdim)};
      }
      case OpKind::kMaxDim: {
        const auto both = at::max(x_[0], as<ir::TopkAttrs>().dim, true);
        return {std::get<0>(both), std::get<1>(both)};
      }
      case OpKind::kTopk: {
        const auto both = at::topk(x_[0], as<ir::TopkAttrs>().k, as<ir::TopkAttrs>().dim);
        return {std::get<0>(both), std::get<1>(both)};
      }
      case OpKind::kCumsum: return {at::cumsum(x_[0], as<ir::DimAttrs>().dim)};
      case OpKind::kSoftmax: return {at::softmax(x_[0], as<ir::DimAttrs>().dim)};
      case OpKind::kLogSoftmax: return {at::log_softmax(x_[0], as<ir::DimAttrs>().dim)};
      default: return {};
    }
  }

  at::Tensor index() const {
    switch (op_.kind) {
      case OpKind::kEmbedding: {
        const auto& a = as<ir::EmbeddingAttrs>();
        return at::embedding(x_[0], x_[1], a.padding_idx, a.scale_grad_by_freq);
      }
      case OpKind::kGather: return at::gather(x_[0], as<ir::DimAttrs>().dim, x_[1]);
      case OpKind::kScatter: return at::scatter(x_[0], as<ir::DimAttrs>().dim, x_[1], x_[2]);
      case OpKind::kScatterAdd: return at::scatter_add(x_[0], as<ir::DimAttrs>().dim, x_[1], x_[2]);
      case OpKind::kIndexSelect: return at::index_select(x_[0], as<ir::DimAttrs>().dim, x_[1]);
      case OpKind::kIndexAdd: return at::index_add(x_[0], as<ir::DimAttrs>().dim, x_[1], x_[2]);
      case OpKind::kCat: return at::cat(x_, as<ir::DimAttrs>().dim);
      case OpKind::kPad: {
        const auto& a = as<ir::PadAttrs>();
        std::vector<int64_t> widths;  // last axis first
        for (size_t i = a.low.size(); i-- > 0;) {
          widths.push_back(a.low[i]);
          widths.push_back(a.high[i]);
        }
        return at::constant_pad_nd(x_[0], widths, a.value);
      }
      case OpKind::kFill: {
        const auto& a = as<ir::FillAttrs>();
        return at::full(a.shape, a.value, at::TensorOptions(scalar_type(a.to)));
      }
      default: return {};
    }
  }

  // For each row of groups the expert it belongs to, -1 for padding.
  at::Tensor expert_of_row(const at::Tensor& counts, int64_t rows) const {
    std::vector<int64_t> expert(static_cast<size_t>(rows), -1);
    const int64_t segments = counts.size(0), segment_rows = rows / segments;
    const at::Tensor dense = counts.contiguous();
    const int64_t* count = dense.const_data_ptr<int64_t>();
    for (int64_t s = 0; s < segments; ++s) {
      int64_t row = s * segment_rows;
      for (int64_t e = 0; e < counts.size(1); ++e, ++count)
        for (int64_t i = 0; i < *count; ++i) expert[static_cast<size_t>(row++)] = e;
    }
    return at::tensor(expert, at::TensorOptions(at::kLong));
  }
  // table[expert], zero where the expert is -1.
  static at::Tensor entries(const at::Tensor& table, const at::Tensor& expert) {
    std::vector<int64_t> shape(static_cast<size_t>(table.dim()), 1);
    shape[0] = -1;
    const at::Tensor real = at::ge(expert, 0).reshape(shape).to(table.scalar_type());
    return at::mul(at::index_select(table, 0, at::clamp_min(expert, 0)), real);
  }

  std::vector<at::Tensor> experts() const {
    switch (op_.kind) {
      case OpKind::kExpertOrder: {
        const auto& a = as<ir::ExpertOrderAttrs>();
        PIPER_CHECK(a.segments == 1 && a.capacity == x_[0].size(0), "only the plain order has a reference");
        const at::Tensor order = std::get<1>(at::sort(x_[0], true, 0, false)), position = at::argsort(order);
        return {order, position, at::bincount(x_[0], {}, a.experts).reshape({1, -1}),
                at::zeros({}, at::TensorOptions(at::kLong))};
      }
      case OpKind::kTakeRows: return {entries(at::repeat_interleave(x_[0], as<ir::TakeRowsAttrs>().repeat, 0), x_[1])};
      case OpKind::kGroupedExpand: return {entries(x_[0], expert_of_row(x_[1], as<ir::RowsAttrs>().rows))};
      case OpKind::kGroupedMatmul: {
        const at::Tensor w = entries(as<ir::GroupedMatmulAttrs>().transposed ? x_[1].transpose(1, 2) : x_[1],
                                     expert_of_row(x_[2], x_[0].size(0)));
        return {at::bmm(x_[0].unsqueeze(1), w).squeeze(1)};
      }
      default: return {};
    }
  }

  template <class T>
  static std::vector<at::Tensor> all_of(T&& results) {
    return std::apply([](auto&... each) { return std::vector<at::Tensor>{each...}; }, results);
  }
  // A right side with the leading axes of the result, which is no vector then.
  at::Tensor right_side() const { return x_[1].expand(at::matmul(x_[0], x_[1]).sizes()); }

  std::vector<at::Tensor> factors() const {
    switch (op_.kind) {
      case OpKind::kCholesky: return {at::linalg_cholesky(x_[0])};
      case OpKind::kTriangularSolve: {
        const auto& a = as<ir::TriangularAttrs>();
        return {at::linalg_solve_triangular(x_[0], right_side(), a.upper, true, a.unitriangular)};
      }
      case OpKind::kSolve: return {at::linalg_solve(x_[0].expand(matrices()), right_side())};
      case OpKind::kLuFactor: return {std::get<0>(at::linalg_lu_factor(x_[0]))};
      case OpKind::kDet: return {at::linalg_det(x_[0])};
      case OpKind::kSlogdet: return all_of(at::linalg_slogdet(x_[0]));
      case OpKind::kQr: return all_of(at::linalg_qr(x_[0]));
      case OpKind::kEigh: return all_of(at::linalg_eigh(x_[0]));
      case OpKind::kSvd: return all_of(at::linalg_svd(x_[0], as<ir::SvdAttrs>().full));
      case OpKind::kPinv: {
        const auto& a = as<ir::PinvAttrs>();
        return {at::linalg_pinv(x_[0], a.atol, a.rtol, a.hermitian)};
      }
      case OpKind::kMatrixExp: return {at::linalg_matrix_exp(x_[0])};
      default: return {};
    }
  }
  std::vector<int64_t> matrices() const {
    std::vector<int64_t> shape = right_side().sizes().vec();
    shape.back() = shape[shape.size() - 2];
    return shape;
  }

  std::vector<at::Tensor> layer() const {
    switch (op_.kind) {
      case OpKind::kLinear: return {at::linear(x_[0], x_[1], maybe(2))};
      case OpKind::kConvolution: {
        const auto& a = as<ir::ConvolutionAttrs>();
        const std::vector<int64_t> none(a.stride.size(), 0);
        return {at::convolution(x_[0], x_[1], maybe(2), a.stride, a.padding, a.dilation, false, none, a.groups)};
      }
      case OpKind::kLayerNorm: {
        const auto& a = as<ir::LayerNormAttrs>();
        return {at::layer_norm(x_[0], x_[0].sizes().slice(x_[0].dim() - a.axes), maybe(1), maybe(2), a.eps)};
      }
      case OpKind::kRmsNorm: {
        const auto& a = as<ir::LayerNormAttrs>();
        return {at::rms_norm(x_[0], x_[0].sizes().slice(x_[0].dim() - a.axes), maybe(1), a.eps)};
      }
      case OpKind::kGroupNorm: {
        const auto& a = as<ir::GroupNormAttrs>();
        return {at::group_norm(x_[0], a.groups, maybe(1), maybe(2), a.eps)};
      }
      case OpKind::kBatchNorm: {
        const auto& a = as<ir::BatchNormAttrs>();
        return {at::batch_norm(x_[0], maybe(1), maybe(2), {}, {}, true, a.momentum, a.eps, false)};
      }
      case OpKind::kMaxPool2d: {
        const auto& a = as<ir::PoolAttrs>();
        const auto both = at::max_pool2d_with_indices(x_[0], a.kernel, a.stride, a.padding, a.dilation, a.ceil_mode);
        return {std::get<0>(both), std::get<1>(both)};
      }
      case OpKind::kAvgPool2d: {
        const auto& a = as<ir::PoolAttrs>();
        return {at::avg_pool2d(x_[0], a.kernel, a.stride, a.padding, a.ceil_mode, true, std::nullopt)};
      }
      case OpKind::kRotary: {
        const std::vector<at::Tensor> halves = x_[0].chunk(2, -1);
        return {at::add(at::mul(x_[0], x_[1]), at::mul(at::cat({at::neg(halves[1]), halves[0]}, -1), x_[2]))};
      }
      case OpKind::kSdpa: {
        const auto& a = as<ir::SdpaAttrs>();
        const bool grouped = x_[0].size(1) != x_[1].size(1);
        const std::optional<at::Tensor> mask =
            a.attends.empty() ? maybe(3) : mask_of(a.attends, x_[0], x_[1], maybe(3));
        return {at::scaled_dot_product_attention(x_[0], x_[1], x_[2], mask, 0.0, a.is_causal, a.scale, grouped)};
      }
      case OpKind::kCrossEntropySum: {
        const auto& a = as<ir::CrossEntropyAttrs>();
        return {at::cross_entropy_loss(x_[0], x_[1], maybe(2), kSumReduction, a.ignore_index, a.label_smoothing)};
      }
      case OpKind::kLinearCrossEntropy: {
        const auto& a = as<ir::LinearCrossEntropyAttrs>();
        return {at::cross_entropy_loss(at::linear(x_[0], x_[1], maybe(3)).flatten(0, -2), x_[2], maybe(4),
                                       kSumReduction, a.ignore_index, a.label_smoothing)};
      }
      case OpKind::kNllSum: {
        const auto& a = as<ir::CrossEntropyAttrs>();
        return {at::nll_loss_nd(x_[0], x_[1], maybe(2), kSumReduction, a.ignore_index)};
      }
      case OpKind::kCrossEntropyCount: {
        const auto& a = as<ir::CrossEntropyAttrs>();
        const at::Tensor counts = at::ne(x_[0], a.ignore_index);
        if (!optional(1).defined()) return {at::sum(counts).to(at::kFloat)};
        const at::Tensor classes = at::where(counts, x_[0], at::zeros_like(x_[0])).reshape({-1});
        const at::Tensor weights = at::index_select(x_[1], 0, classes).reshape(x_[0].sizes());
        return {at::sum(at::mul(weights, counts)).to(at::kFloat)};
      }
      default: break;
    }
    PIPER_CHECK(false, "no LibTorch reference of ", op_name(op_.kind));
    return {};
  }

  const ir::Op& op_;
  std::vector<at::Tensor> x_;
};

TorchResult gradients_on_this_thread(const ir::Graph& graph, size_t num_ops, Interpreter& values) {
  const c10::AutoGradMode autograd(true);
  std::vector<at::Tensor> tensors(graph.num_values());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (graph.value(ir::ValueId(i)).kind != ir::ValueKind::kOpResult)
      tensors[i] = to_torch(values.source(ir::ValueId(i)));
  for (const ir::Parameter& parameter : graph.parameters())
    if (parameter.trainable && is_floating(graph.type(parameter.value).dtype))
      tensors[parameter.value.index].set_requires_grad(true);

  for (size_t i = 0; i < num_ops; ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    std::vector<at::Tensor> operands;
    for (ir::ValueId operand : op.operands) operands.push_back(operand.valid() ? tensors[operand.index] : at::Tensor());
    const std::vector<at::Tensor> results = Call(op, std::move(operands)).run();
    for (size_t k = 0; k < results.size() && k < op.results.size(); ++k) tensors[op.results[k].index] = results[k];
  }

  const at::Tensor loss = tensors[graph.loss.index];
  loss.backward();
  TorchResult result{from_torch(loss, graph.type(graph.loss)), {}};
  for (const ir::Parameter& parameter : graph.parameters()) {
    const at::Tensor& gradient = tensors[parameter.value.index].grad();
    result.gradients.push_back(
        gradient.defined() ? std::optional<Tensor>(from_torch(gradient, graph.type(parameter.value))) : std::nullopt);
  }
  return result;
}

}  // namespace

// On a thread of its own: the caller's runs kernels, which switch autograd off for their thread.
TorchResult torch_gradients(const ir::Graph& graph, size_t num_ops, Interpreter& values) {
  TorchResult result;
  std::exception_ptr failure;
  std::thread thread([&] {
    try {
      result = gradients_on_this_thread(graph, num_ops, values);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
  return result;
}

}  // namespace piper::numeric
