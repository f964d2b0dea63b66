// One ATen call while it is imported: its arguments by the names of ATen's schema, and the ops it
// becomes. The table's functions (pointwise.cc, views.cc, ...) use nothing else. Ops on constants
// are evaluated as they are appended, so that the functions can look at index tensors. A misfit is
// kept as the first failure; the functions go on with harmless values and need no check per line.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/frontend/aten/item.h"
#include "compiler/frontend/extents.h"
#include "compiler/frontend/fold.h"
#include "compiler/ir/graph.h"

namespace piper::frontend::aten {

using ir::Attrs;
using ir::OpKind;
using ir::ValueId;

// How the result of a call shares memory with an operand: not, always, or in some cases.
enum class Sharing : uint8_t { kNone, kView, kMaybe };

// One parameter of an ATen schema: `int dim=-1`.
struct Parameter {
  std::string type;  // "Tensor", "Tensor?", "Tensor[]", "Operand" (tensor or number), "int", "int[]", ...
  std::string name;
  bool has_default = false;
  Item fallback;
  Sharing sharing = Sharing::kNone;  // "Tensor(a)", "Tensor(a?)"
};
struct Schema {
  std::string target;  // "aten.linear.default"
  std::vector<Parameter> parameters;
};

// State that outlives one call of a model.
struct ImportState {
  ir::Graph* graph = nullptr;
  int64_t made_bytes = 0;                             // of constants that calls make of numbers alone
  std::map<std::string, int64_t> dropouts;            // module path -> dropouts seen
  std::map<std::pair<int64_t, bool>, ValueId> waves;  // matrices of Fourier transforms: (points, of sines)
  std::function<bool(const std::string&)> per_piece;  // of a module: it computes with the extent of a piece
  // Results of ops on constants. The ops stay in the graph: what becomes a constant, and what stays
  // a view of a small one, is decided when the whole graph is folded.
  std::unordered_map<uint32_t, ConstantTensor> known;
};

class Call {
 public:
  // `bound`: one item per parameter of the schema; `kind`: the operator the table names, if any.
  Call(ImportState& state, const Schema& schema, OpKind kind, std::vector<Item> bound, std::string name,
       std::string module, ir::ScopeId scope, ir::ProvId prov);

  const std::string& target() const { return schema_.target; }
  OpKind kind() const { return kind_; }
  const std::string& module() const { return module_; }
  ImportState& state() { return state_; }

  // --- arguments
  const Item& arg(std::string_view name) const;
  bool has(std::string_view name) const { return !arg(name).is_none(); }
  ValueId tensor(std::string_view name);          // a number becomes a scalar of its default dtype
  ValueId tensor_or_none(std::string_view name);  // an invalid id where absent
  std::vector<ValueId> tensors(std::string_view name);
  int64_t integer(std::string_view name);
  double real(std::string_view name);
  bool flag(std::string_view name);
  std::string text(std::string_view name);
  std::vector<int64_t> ints(std::string_view name, size_t count = 0);  // one value is repeated to `count`
  DType dtype_or(std::string_view name, DType fallback);
  int64_t dim(std::string_view name, size_t rank);                       // non-negative
  std::vector<int64_t> dims(std::string_view name, size_t rank);         // sorted; all where None or empty
  std::vector<int64_t> listed_dims(std::string_view name, size_t rank);  // sorted; none where empty

  // What a function of the table makes of the call; a misfit is the call's failure.
  Item made_by(Item (*function)(Call&));

  // Whether it may make so many numbers as a constant, or so many ops; else a failure. What a file asks for must not
  // fill the memory.
  static constexpr int64_t kBytesOfOp = 8 << 10;
  bool may_make(int64_t count, int64_t bytes_of_each = 8);

  // --- failures
  Item fail(const std::string& message);  // the first one is kept
  Item refuse(std::string code, const std::string& message);
  Status status() const;

  // --- values
  // Copies: appending an op may move the graph's storage.
  ir::TensorType type(ValueId v) const { return graph().type(v); }
  Extents shape(ValueId v) const { return graph().type(v).shape; }
  int64_t rank(ValueId v) const { return static_cast<int64_t>(graph().type(v).shape.size()); }
  int64_t extent(ValueId v, int64_t dim) const;
  int64_t product(int64_t a, int64_t b);  // of extents; a failure where no tensor can be so large
  DType dtype(ValueId v) const { return graph().type(v).dtype; }
  const ir::Graph& graph() const { return *state_.graph; }

  // --- ops
  ir::GraphBuilder& builder() { return builder_; }
  ValueId op(OpKind kind, std::vector<ValueId> operands, Attrs attrs = ir::NoAttrs{});
  std::vector<ValueId> ops(OpKind kind, std::vector<ValueId> operands, Attrs attrs = ir::NoAttrs{});
  ValueId reshape(ValueId x, std::vector<int64_t> shape);
  ValueId permute(ValueId x, std::vector<int64_t> dims);
  ValueId transpose(ValueId x, int64_t a, int64_t b);
  ValueId expand(ValueId x, std::vector<int64_t> shape);
  ValueId slice(ValueId x, int64_t dim, int64_t start, int64_t end, int64_t step = 1);
  ValueId unsqueeze(ValueId x, int64_t dim);
  ValueId squeeze(ValueId x, int64_t dim);
  // A scalar as a vector of one element, which ATen takes it for along an axis.
  ValueId with_axis(ValueId x) { return rank(x) == 0 ? reshape(x, {1}) : x; }
  ValueId cast(ValueId x, DType to);
  ValueId cat(std::vector<ValueId> parts, int64_t dim);
  ValueId sum(ValueId x, std::vector<int64_t> dims, bool keepdim);
  ValueId mean(ValueId x, std::vector<int64_t> dims, bool keepdim);
  ValueId scalar(double value, DType dtype);  // a failure where an integer type does not hold it
  ValueId scalar_i64(int64_t value);          // exact, where a double would round
  ValueId constant(ConstantTensor tensor);
  ValueId filled(std::vector<int64_t> shape, double value, DType dtype);
  // start, start + step, ..; `may_be_of_batch`: see WeightSource::Range.
  ValueId range(int64_t start, int64_t count, int64_t step, DType dtype, bool may_be_of_batch = true);
  // Element-wise on two operands of any dtypes: promoted as PyTorch does.
  ValueId binary(OpKind kind, const Item& a, const Item& b);
  ValueId binary(OpKind kind, ValueId a, ValueId b) { return binary(kind, Item::of_tensor(a), Item::of_tensor(b)); }
  ValueId binary(OpKind kind, ValueId a, double b);
  // A number that enters the model's arithmetic: where it is made of the batch's extent, that of the step's batch,
  // but in modules of `per_piece` that of the piece. Shapes are those of the piece always.
  double value(const Item& number) const;
  // `item` as a tensor of `dtype`.
  ValueId as(const Item& item, DType dtype);
  std::vector<int64_t> all_dims(ValueId x) const;
  // A value whose elements are known; nullopt where it is none.
  std::optional<ConstantTensor> known(ValueId x) const;
  // Its elements where they are integers that an axis, an extent or an index can be; false otherwise.
  bool known_ints(ValueId x, std::vector<int64_t>& out) const;

 private:
  std::string next_name() { return name_ + "." + std::to_string(++made_); }

  ImportState& state_;
  const Schema& schema_;
  OpKind kind_;
  std::vector<Item> bound_;
  std::string name_, module_;
  ir::GraphBuilder builder_;
  ir::ScopeId scope_;
  int64_t made_ = 0;
  Status status_;
};

// The dtype of an element-wise operator on these operands: tensors with axes go before tensors
// without, and those before Python numbers, within a category (bool, integer, floating).
// Source: PyTorch, "Tensor Attributes", type promotion.
DType promoted(const ir::Graph& graph, const std::vector<const Item*>& operands);

// "torch.int64" -> kI64; nullopt where piper has no such dtype.
std::optional<DType> dtype_of_torch(std::string_view name);

}  // namespace piper::frontend::aten
