#include "tests/numeric/rule_cases.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace piper::numeric {

namespace {
int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}
ir::WeightSource in_memory(std::vector<std::byte> bytes) {
  ir::WeightSource source;
  source.bytes = static_cast<int64_t>(bytes.size());
  source.data = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return source;
}
}  // namespace

double CaseBuilder::uniform(double low, double high) {
  const double unit = static_cast<double>(random_() >> 11) * 0x1p-53;
  return low + (high - low) * unit;
}

ir::WeightSource CaseBuilder::numbers(const std::vector<double>& elements) {
  const size_t size = static_cast<size_t>(dtype_bytes(dtype_));
  std::vector<std::byte> bytes(elements.size() * size);
  for (size_t i = 0; i < elements.size(); ++i) {
    const float narrow = static_cast<float>(elements[i]);
    if (dtype_ == DType::kF64) std::memcpy(bytes.data() + i * size, &elements[i], size);
    else std::memcpy(bytes.data() + i * size, &narrow, size);
  }
  return in_memory(std::move(bytes));
}

ir::ValueId CaseBuilder::parameter(std::vector<int64_t> shape, double low, double high) {
  std::vector<double> elements(static_cast<size_t>(elements_of(shape)));
  for (double& element : elements) element = uniform(low, high);
  return parameter_of(std::move(shape), elements);
}

ir::ValueId CaseBuilder::spaced(std::vector<int64_t> shape) {
  std::vector<double> elements(static_cast<size_t>(elements_of(shape)));
  for (size_t i = 0; i < elements.size(); ++i)
    elements[i] = 0.1 * (static_cast<double>(i) - static_cast<double>(elements.size()) / 2) + 0.037;
  for (size_t i = elements.size(); i > 1; --i) std::swap(elements[i - 1], elements[random_() % i]);
  return parameter_of(std::move(shape), elements);
}

ir::ValueId CaseBuilder::parameter_of(std::vector<int64_t> shape, const std::vector<double>& elements) {
  const std::string name = "p" + std::to_string(b.graph().parameters().size());
  return b.graph().add_parameter({name}, {dtype_, std::move(shape)}, true, numbers(elements));
}

ir::ValueId CaseBuilder::constant(std::vector<int64_t> shape, double low, double high) {
  std::vector<double> elements(static_cast<size_t>(elements_of(shape)));
  for (double& element : elements) element = uniform(low, high);
  return b.graph().add_constant("", {dtype_, std::move(shape)}, numbers(elements));
}

ir::ValueId CaseBuilder::bools(std::vector<int64_t> shape) {
  std::vector<std::byte> bytes(static_cast<size_t>(elements_of(shape)));
  for (std::byte& byte : bytes) byte = std::byte(random_() % 2);
  return b.graph().add_constant("", {DType::kBool, std::move(shape)}, in_memory(std::move(bytes)));
}

ir::ValueId CaseBuilder::indices(std::vector<int64_t> shape, int64_t bound) {
  std::vector<int64_t> elements(static_cast<size_t>(elements_of(shape)));
  for (int64_t& element : elements) element = static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  return b.constant_i64(std::move(shape), elements);
}

ir::ValueId CaseBuilder::loss_of(const std::vector<ir::ValueId>& values) {
  ir::ValueId loss;
  for (ir::ValueId value : values) {
    const std::vector<int64_t> shape = b.type(value).shape;
    std::vector<int64_t> dims;
    for (size_t i = 0; i < shape.size(); ++i) dims.push_back(static_cast<int64_t>(i));
    const ir::ValueId weighted = b.add1(ir::OpKind::kMul, {value, constant(shape)});
    const ir::ValueId sum = b.sum(weighted, dims, false);
    loss = loss.valid() ? b.add1(ir::OpKind::kAdd, {loss, sum}) : sum;
  }
  return loss;
}

std::vector<RuleCase> rule_cases() {
  std::vector<RuleCase> cases;
  add_pointwise_cases(cases);
  add_shape_cases(cases);
  add_layer_cases(cases);
  add_expert_cases(cases);
  add_factor_cases(cases);
  return cases;
}

uint64_t test_seed() {
  static const uint64_t seed = [] {
    const char* text = std::getenv("PIPER_TEST_SEED");
    const uint64_t number = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
    std::cout << "PIPER_TEST_SEED=" << number << "\n";
    return number;
  }();
  return seed;
}

}  // namespace piper::numeric
