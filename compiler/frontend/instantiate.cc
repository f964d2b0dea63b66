#include "compiler/frontend/instantiate.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/frontend/fold.h"
#include "compiler/ir/attrs_text.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend {
namespace {

using ir::OpId;
using ir::ValueId;

class Line {
 public:
  Line(int64_t few, int64_t many, int64_t at) : few_(few), many_(many), at_(at) {}
  // False where no whole number is on it.
  bool move(int64_t& number, int64_t of_more) const {
    const int64_t rise = of_more - number, run = many_ - few_;
    if (rise % run != 0) return false;
    number += rise / run * (at_ - few_);
    return number >= 0 || rise == 0;
  }
  // A number that has as much for each sample; nullopt where it does not.
  std::optional<double> multiple(double of_few, double of_more) const {
    const double each = of_few / static_cast<double>(few_);
    if (each * static_cast<double>(few_) != of_few || each * static_cast<double>(many_) != of_more) return std::nullopt;
    return each * static_cast<double>(at_);
  }
  bool move(std::vector<int64_t>& numbers, const std::vector<int64_t>& of_more) const {
    bool fits = numbers.size() == of_more.size();
    for (size_t i = 0; fits && i < numbers.size(); ++i) fits = move(numbers[i], of_more[i]);
    return fits;
  }

 private:
  int64_t few_, many_, at_;
};

// Which axis has the samples is no extent.
bool is_extent(std::string_view name) { return name != "samples"; }

struct Integers {
  std::vector<std::vector<int64_t>> all;
  template <class T>
  void operator()(const char* name, const T& value) {
    if (!is_extent(name)) return;
    if constexpr (std::is_same_v<T, int64_t>) all.push_back({value});
    if constexpr (std::is_same_v<T, std::vector<int64_t>>) all.push_back(value);
  }
};
struct Mover {
  const Line& line;
  const Integers& of_more;
  size_t next = 0;
  bool fits = true;
  template <class T>
  void operator()(const char* name, T& value) {
    if (!is_extent(name)) return;
    if constexpr (std::is_same_v<T, int64_t>) fits = fits && line.move(value, of_more.all[next++][0]);
    if constexpr (std::is_same_v<T, std::vector<int64_t>>) fits = fits && line.move(value, of_more.all[next++]);
  }
};

class Instance {
 public:
  Instance(ir::Graph fewer, const ir::Graph& more, Line line)
      : graph_(std::move(fewer)), more_(more), line_(line), of_more_(graph_.num_values()) {}

  std::optional<ir::Graph> make() {
    if (graph_.num_ops() != more_.num_ops() || graph_.inputs().size() != more_.inputs().size() ||
        graph_.parameters().size() != more_.parameters().size() || graph_.buffers().size() != more_.buffers().size() ||
        graph_.outputs.size() != more_.outputs.size())
      return std::nullopt;
    const auto pair = [&](const auto& a, const auto& b) {
      for (size_t i = 0; i < a.size(); ++i) of_more_[a[i].value.index] = b[i].value;
    };
    pair(graph_.inputs(), more_.inputs());
    pair(graph_.parameters(), more_.parameters());
    pair(graph_.buffers(), more_.buffers());
    for (size_t i = 0; i < graph_.num_ops(); ++i)
      if (!move(OpId(i))) return std::nullopt;
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      if (!matches(graph_.outputs[i].value, more_.outputs[i].value)) return std::nullopt;
    for (size_t v = 0; v < of_more_.size(); ++v)
      if (of_more_[v].valid() && !line_.move(graph_.value(ValueId(v)).type.shape, more_.type(of_more_[v]).shape))
        return std::nullopt;
    return std::move(graph_);
  }

 private:
  bool move(OpId id) {
    const ir::Op& of_more = more_.op(id);
    if (graph_.op(id).kind != of_more.kind || graph_.op(id).operands.size() != of_more.operands.size() ||
        graph_.op(id).results.size() != of_more.results.size())
      return false;
    for (size_t k = 0; k < of_more.operands.size(); ++k) {
      ValueId v = graph_.op(id).operands[k];
      if (!matches(v, of_more.operands[k])) return false;
      graph_.op(id).operands[k] = v;
    }
    ir::Op& op = graph_.op(id);
    for (size_t r = 0; r < op.results.size(); ++r) of_more_[op.results[r].index] = of_more.results[r];
    // What a dropout says of samples is set by lay_out_dropout.
    return op.kind == ir::OpKind::kDropout || move(op.attrs, of_more.attrs);
  }

  bool move(ir::Attrs& attrs, const ir::Attrs& of_more) const {
    if (attrs.index() != of_more.index()) return false;
    if (ir::equal(attrs, of_more)) return true;
    Integers numbers;
    std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields(a, numbers); }, of_more);
    Mover mover{line_, numbers};
    std::visit([&](auto& a) { std::decay_t<decltype(a)>::fields(a, mover); }, attrs);
    return mover.fits;
  }

  // Whether v is to the graph of fewer samples what `other` is to that of more. A constant may take another's place.
  bool matches(ValueId& v, ValueId other) {
    if (!v.valid() || !other.valid()) return v.valid() == other.valid();
    const ir::ValueKind kind = graph_.value(v).kind;
    if (kind != more_.value(other).kind) return false;
    if (kind == ir::ValueKind::kConstant) return matches_constant(v, other);
    if (kind == ir::ValueKind::kSeedStep || kind == ir::ValueKind::kSampleOffset) return true;
    return v.index < of_more_.size() && of_more_[v.index] == other;
  }

  bool matches_constant(ValueId& v, ValueId other) {
    const ir::TensorType type = graph_.type(v), type_of_more = more_.type(other);
    const std::optional<ConstantTensor> few = constant_of(graph_, v), many = constant_of(more_, other);
    if (!few || !many) return !few && !many && type == type_of_more;
    if (type == type_of_more && same_elements(*few, *many)) return true;
    const auto key = std::pair(v.index, other.index);
    if (const auto found = made_.find(key); found != made_.end()) {
      v = found->second;
      return true;
    }
    std::optional<ConstantTensor> made = type == type_of_more ? count(*few, *many) : beginning(*few, *many);
    if (!made) return false;
    ir::WeightSource source;
    source.bytes = made->type.bytes();
    source.data = made->data();
    v = graph_.add_constant(graph_.value(v).name, made->type, std::move(source));
    made_.emplace(key, v);
    return true;
  }

  // One number, which counts something of the samples.
  std::optional<ConstantTensor> count(const ConstantTensor& few, const ConstantTensor& many) const {
    if (few.type.elements() != 1) return std::nullopt;
    switch (few.type.dtype) {
      case DType::kF32: return count_of<float>(few, many);
      case DType::kF64: return count_of<double>(few, many);
      case DType::kI64: return count_of<int64_t>(few, many);
      default: return std::nullopt;
    }
  }
  template <class T>
  std::optional<ConstantTensor> count_of(const ConstantTensor& few, const ConstantTensor& many) const {
    T of_few, of_many;
    std::memcpy(&of_few, few.data()->data(), sizeof(T));
    std::memcpy(&of_many, many.data()->data(), sizeof(T));
    const std::optional<double> number = line_.multiple(static_cast<double>(of_few), static_cast<double>(of_many));
    const T made = static_cast<T>(number.value_or(0));
    if (!number || static_cast<double>(made) != *number) return std::nullopt;
    std::vector<std::byte> bytes(sizeof(T));
    std::memcpy(bytes.data(), &made, sizeof(T));
    return ConstantTensor(few.type, std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
  }

  // Numbers of samples along one axis, which begin alike.
  std::optional<ConstantTensor> beginning(const ConstantTensor& few, const ConstantTensor& many) const {
    const ir::Shape &shape = few.type.shape, &shape_of_more = many.type.shape;
    ir::TensorType wanted = few.type;
    if (few.type.dtype != many.type.dtype || !line_.move(wanted.shape, shape_of_more)) return std::nullopt;
    const auto axis = static_cast<size_t>(
        std::mismatch(shape.begin(), shape.end(), shape_of_more.begin(), shape_of_more.end()).first - shape.begin());
    if (axis == shape.size() || !std::equal(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end(),
                                            shape_of_more.begin() + static_cast<std::ptrdiff_t>(axis) + 1))
      return std::nullopt;
    const int64_t rows = ir::elements_before(shape, axis);
    const int64_t row = few.type.bytes() / std::max<int64_t>(rows, 1);
    const int64_t row_of_more = many.type.bytes() / std::max<int64_t>(rows, 1);
    const int64_t row_wanted = wanted.bytes() / std::max<int64_t>(rows, 1);
    if (row > row_of_more || row_wanted > row) return std::nullopt;
    std::vector<std::byte> bytes;
    for (int64_t r = 0; r < rows; ++r) {
      const auto begin = few.data()->begin() + r * row;
      if (!std::equal(begin, begin + row, many.data()->begin() + r * row_of_more)) return std::nullopt;
      bytes.insert(bytes.end(), begin, begin + row_wanted);
    }
    return ConstantTensor(wanted, std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
  }

  ir::Graph graph_;
  const ir::Graph& more_;
  const Line line_;
  std::vector<ValueId> of_more_;  // [value] the same in the graph of more samples; constants have none
  std::map<std::pair<uint32_t, uint32_t>, ValueId> made_;  // constants of this number of samples
};

}  // namespace

std::optional<ir::Graph> instantiate(ir::Graph fewer, int64_t few, const ir::Graph& more, int64_t many,
                                     int64_t samples) {
  return Instance(std::move(fewer), more, Line(few, many, samples)).make();
}

}  // namespace piper::frontend
