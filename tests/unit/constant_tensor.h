// Small constants for tests of the evaluator.
#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "compiler/frontend/fold.h"

namespace piper::frontend {

template <class T>
ConstantTensor constant_tensor(DType dtype, std::vector<int64_t> shape, const std::vector<T>& data) {
  auto bytes = std::make_shared<std::vector<std::byte>>(data.size() * sizeof(T));
  if (!data.empty()) std::memcpy(bytes->data(), data.data(), bytes->size());
  return {{dtype, std::move(shape)}, bytes};
}

}  // namespace piper::frontend
