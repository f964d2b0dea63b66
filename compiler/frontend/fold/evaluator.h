// Shared by the families of the constant evaluator (evaluate_*.cc); no one else includes it.
// Which operator is of which family says its row in ir/ops.def. A family function gets operands of supported dtypes and
// result types that already passed type inference; it returns nullopt for a dtype it does not know or an index outside
// its axis.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/frontend/fold.h"
#include "compiler/ir/shapes.h"
#include "schemas/base/check.h"

namespace piper::frontend::eval {

using ir::Shape;
using Tensors = std::vector<ConstantTensor>;
using Evaluated = std::optional<Tensors>;

struct Call {
  ir::OpKind kind;
  const ir::Attrs& attrs;
  const Tensors& x;
  const std::vector<ir::TensorType>& results;

  template <class A>
  const A& as() const {
    const A* a = std::get_if<A>(&attrs);
    PIPER_CHECK(a != nullptr, "wrong attribute struct for ", ir::op_name(kind));
    return *a;
  }
};

// Elements of a tensor; bool is stored as uint8_t 0 or 1. The allocator aligns for every dtype.
template <class T>
const T* elements(const ConstantTensor& t) {
  return reinterpret_cast<const T*>(t.data()->data());
}

// A result under construction.
struct Buffer {
  explicit Buffer(const ir::TensorType& t) : type(t), bytes(static_cast<size_t>(t.bytes())) {}
  template <class T>
  T* data() {
    return reinterpret_cast<T*>(bytes.data());
  }
  ConstantTensor done() { return {type, std::make_shared<const std::vector<std::byte>>(std::move(bytes))}; }
  ir::TensorType type;
  std::vector<std::byte> bytes;
};

// Calls f(T{}) with the element type of dtype; false for bf16 and f16, which are never folded.
template <class F>
bool with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32: f(float{}); return true;
    case DType::kF64: f(double{}); return true;
    case DType::kI64: f(int64_t{}); return true;
    case DType::kI32: f(int32_t{}); return true;
    case DType::kBool: f(uint8_t{}); return true;
    case DType::kBF16:
    case DType::kF16: return false;
  }
  return false;
}
// Calls f(T{}) with an unsigned type of the element's size: for ops that only move elements.
template <class F>
void with_size(DType dtype, F&& f) {
  switch (dtype_bytes(dtype)) {
    case 1: f(uint8_t{}); break;
    case 2: f(uint16_t{}); break;
    case 4: f(uint32_t{}); break;
    default: f(uint64_t{}); break;
  }
}

// Visits all positions of `shape` in row-major order with the offset of each operand.
template <size_t N, class F>
void for_each(const Shape& shape, const std::array<Shape, N>& strides, F&& f) {
  const int64_t count = ir::elements(shape);
  if (count == 0) return;
  const int64_t row = shape.empty() ? 1 : shape.back();
  Shape at(shape.size(), 0);
  std::array<int64_t, N> begin{}, step{};  // of a row
  for (size_t n = 0; n < N && !shape.empty(); ++n) step[n] = strides[n].back();
  for (int64_t i = 0; i < count;) {
    std::array<int64_t, N> offset = begin;
    for (const int64_t end = i + row; i < end; ++i) {
      f(i, offset);
      for (size_t n = 0; n < N; ++n) offset[n] += step[n];
    }
    for (size_t d = shape.size(); d-- > 1;) {
      for (size_t n = 0; n < N; ++n) begin[n] += strides[n][d - 1];
      if (++at[d - 1] < shape[d - 1]) break;
      for (size_t n = 0; n < N; ++n) begin[n] -= strides[n][d - 1] * shape[d - 1];
      at[d - 1] = 0;
    }
  }
}

Evaluated views(const Call& c);  // reshape, permute, expand, slice, detach, copy, fill
Evaluated cast(const Call& c);
Evaluated unary(const Call& c);
Evaluated binary(const Call& c);      // with where
Evaluated reductions(const Call& c);  // sum, mean, amax, max_dim, cumsum, topk, matmul
Evaluated indexing(const Call& c);
inline Evaluated never(const Call&) { return std::nullopt; }  // left to the run time

}  // namespace piper::frontend::eval
