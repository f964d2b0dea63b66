// One ONNX node while it is imported: its operands, attributes and the ops it becomes. The
// operator functions (ops_*.cc) use nothing else. Ops on known values are evaluated at once, so
// shape plumbing, masks and positions never become ops. A misfit is kept as the first failure and
// harmless values are returned, so that the functions need a check only before they index a shape.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/frontend/aten/call.h"
#include "compiler/frontend/fold.h"
#include "compiler/frontend/onnx/onnx_file.h"
#include "compiler/ir/graph.h"

namespace piper::frontend::onnx {

using ir::Attrs;
using ir::OpKind;
using ir::ValueId;

// How much may be folded. Beyond it an op stays an op, or is refused where it cannot.
struct FoldLimits {
  int64_t constant_bytes = int64_t{1} << 30;
  int64_t total_bytes = int64_t{16} << 30;
};

// What an ONNX value name stands for: one value, or the items of a sequence.
struct NamedValue {
  ValueId value;
  bool is_sequence = false;
  std::vector<ValueId> items;
};

// State that outlives one node of a model.
struct ImportState {
  const OnnxFile* file = nullptr;
  aten::ImportState calls;  // of nodes that are ATen calls; the graph
  int64_t opset = 0;
  FoldLimits limits;
  int64_t folded_bytes = 0;
  std::unordered_map<std::string, NamedValue> values;
  const std::map<std::string, ir::EmbeddingAttrs>* embeddings = nullptr;  // BoundModel::embeddings
  std::map<std::string, int64_t> readers;  // value name -> nodes and graph outputs that read it
  std::map<std::string, int64_t> keepers;  // ... of these, graph outputs, and batch norms whose running statistic it is
  // Known values that are made of the batch's extent: what they are in the step's batch, where that differs. The known
  // value itself is that of a piece: shapes are made of it.
  std::unordered_map<uint32_t, ConstantTensor> of_step;
  std::unordered_map<std::string_view, const OnnxValueInfo*> infos;  // by value name
  std::function<Result<int64_t>(const std::string&)> step_extent;    // of an expression of symbols
};

// An argument of an ATen call, as the item that the call's function reads.
struct Argument {
  Argument(ValueId v) : item(v.valid() ? aten::Item::of_tensor(v) : aten::Item::none()) {}
  Argument(bool v) : item(aten::Item::of_bool(v)) {}
  Argument(int64_t v) : item(aten::Item::of_int(v)) {}
  Argument(int v) : item(aten::Item::of_int(v)) {}
  Argument(double v) : item(aten::Item::of_float(v)) {}
  Argument(const char* v) : item(aten::Item::of_text(v)) {}
  Argument(std::string v) : item(aten::Item::of_text(std::move(v))) {}
  Argument(const std::vector<int64_t>& v) : item(list_of(v)) {}
  Argument(const std::vector<ValueId>& v) : item(list_of(v)) {}
  static Argument none() { return ValueId(); }

  aten::Item item;

 private:
  template <class T>
  static aten::Item list_of(const std::vector<T>& all) {
    std::vector<aten::Item> items;
    for (const T& v : all) items.push_back(Argument(v).item);
    return aten::Item::of_list(std::move(items));
  }
};

class NodeImport {
 public:
  NodeImport(ImportState& state, const OnnxNode& node, std::string module, ir::ScopeId scope, ir::ProvId prov);

  const OnnxNode& node() const { return node_; }
  // The name of its first result, "" where it has none.
  std::string first_output() const { return node_.outputs.empty() ? "" : node_.outputs[0]; }
  const std::string& module() const { return module_; }
  ImportState& state() { return state_; }
  int64_t opset() const { return state_.opset; }
  ir::Graph& graph() const { return *state_.calls.graph; }
  ir::GraphBuilder& builder() { return builder_; }

  // --- failures
  bool ok() const { return status_.ok(); }
  void refuse(const std::string& what, std::string code = "P0306");
  Status status() const;

  // --- operands; absent required ones are refused
  size_t num_inputs() const { return node_.inputs.size(); }
  bool has(size_t i) const { return i < node_.inputs.size() && !node_.inputs[i].empty(); }
  ValueId in(size_t i);
  ValueId in_or_none(size_t i) { return has(i) ? in(i) : ValueId(); }
  const std::vector<ValueId>& sequence(size_t i);
  // Whether anything reads the node's result i.
  bool is_read(size_t i) const;
  // Whether a node computes with it, and not only keeps it as a running statistic.
  bool is_computed_with(size_t i) const;

  // --- values
  const ir::TensorType& type(ValueId v) const { return graph().type(v); }
  // A copy: emitting an op may move the graph's storage.
  Extents shape(ValueId v) const { return type(v).shape; }
  int64_t rank(ValueId v) const { return static_cast<int64_t>(type(v).shape.size()); }
  DType dtype(ValueId v) const { return type(v).dtype; }
  bool is_parameter(ValueId v) const { return graph().value(v).kind == ir::ValueKind::kParameter; }
  std::optional<ConstantTensor> known(ValueId v) const { return constant_of(graph(), v); }
  // The elements of a known integer or bool value; refused (naming `what`) or nullopt otherwise.
  std::vector<int64_t> ints(ValueId v, const char* what);
  std::optional<std::vector<int64_t>> known_ints(ValueId v) const;
  int64_t one_int(ValueId v, const char* what);
  // The elements of a known value as doubles; only for up to `most` elements.
  std::optional<std::vector<double>> known_numbers(ValueId v, int64_t most) const;
  // The one number that all elements of a known value equal.
  std::optional<double> known_number(ValueId v) const;
  // The op that makes `v`, if it is of this kind; else null. Valid until the next emit.
  const ir::Op* made_by(ValueId v, OpKind kind) const;

  // The shape of operand i in the step's batch, where the file says it in symbols.
  std::optional<std::vector<int64_t>> step_shape(size_t i) const;
  // A known integer value that is `of_step` in the step's batch.
  ValueId constant_i64(std::vector<int64_t> shape, const std::vector<int64_t>& data,
                       const std::optional<std::vector<int64_t>>& of_step);
  std::optional<std::vector<int64_t>> known_ints_of_step(ValueId v) const;

  // --- attributes. One that is never asked for is refused: the function of an operator asks for all that it knows.
  const OnnxAttribute* attribute(std::string_view name, OnnxAttribute::Kind kind);
  int64_t int_attr(std::string_view name, int64_t fallback);
  double float_attr(std::string_view name, double fallback);  // the shortest decimal of the stored float: 1e-05
  std::string string_attr(std::string_view name, std::string fallback);
  std::vector<int64_t> ints_attr(std::string_view name, std::vector<int64_t> fallback);
  bool has_read(const OnnxAttribute& attribute) const;  // of the node's
  // A non-negative axis below `rank`; refused otherwise.
  int64_t axis(int64_t raw, int64_t rank);

  // --- ops
  ValueId emit(OpKind kind, std::vector<ValueId> operands, Attrs attrs = ir::NoAttrs{}, std::string name = "");
  std::vector<ValueId> emit_all(OpKind kind, std::vector<ValueId> operands, Attrs attrs, std::string name = "");
  ValueId reshape(ValueId x, std::vector<int64_t> shape);
  ValueId permute(ValueId x, std::vector<int64_t> dims);
  ValueId swap_last(ValueId x);  // the last two axes
  ValueId expand(ValueId x, std::vector<int64_t> shape);
  ValueId slice(ValueId x, int64_t dim, int64_t start, int64_t end, int64_t step = 1);
  ValueId unsqueeze(ValueId x, int64_t dim);
  ValueId cast(ValueId x, DType to);
  ValueId index_select(ValueId x, int64_t dim, const std::vector<int64_t>& index);
  ValueId constant(ConstantTensor tensor, std::string name = "");
  ValueId constant_i64(std::vector<int64_t> shape, const std::vector<int64_t>& data);
  ValueId constant_f32(std::vector<int64_t> shape, const std::vector<float>& data);
  ValueId constant_bool(std::vector<int64_t> shape, const std::vector<bool>& data);
  ValueId scalar(double value, DType dtype);
  ValueId scalar_like(double value, ValueId like) { return scalar(value, dtype(like)); }
  // Whether a constant of this many bytes may be made; refused otherwise.
  bool may_make(int64_t bytes);

  // --- ATen calls: what the function of that row of aten/call_table.def makes of these arguments, its first ones
  std::vector<ValueId> call_all(const std::string& target, std::vector<Argument> arguments);
  ValueId call(const std::string& target, std::vector<Argument> arguments);  // its first result
  void is_call(const std::string& target, std::vector<Argument> arguments);  // its results are the node's
  // For functions that write ops as those of such rows do; `finish` checks them, and gives what they made.
  aten::Call as_call();
  std::vector<ValueId> finish(const aten::Call& call, const aten::Item& made);

  // --- results
  void set(size_t i, ValueId v);
  void set_all(const std::vector<ValueId>& all);
  void set_sequence(size_t i, std::vector<ValueId> items);
  // The node's first result is this op's.
  void result(OpKind kind, std::vector<ValueId> operands, Attrs attrs = ir::NoAttrs{});
  // For an op on operand 0 alone.
  void unary(OpKind kind) { result(kind, {in(0)}); }
  const std::unordered_map<std::string, NamedValue>& results() const { return results_; }

 private:
  std::string part_name(const std::string& name);
  ValueId named(ValueId v, size_t i);
  ValueId harmless();
  bool sizes_fit(const Attrs& attrs);
  ValueId for_arithmetic(ValueId v);
  aten::Item for_arithmetic(aten::Item x);
  std::optional<aten::Item> of_step(const aten::Item& x);  // nullopt where nothing is another in the step's batch
  bool is_known(const aten::Item& x) const;
  void keep_of_step(OpKind kind, const Attrs& attrs, const std::vector<ValueId>& operands,
                    std::vector<ConstantTensor> constants, const std::vector<ValueId>& results);

  ImportState& state_;
  const OnnxNode& node_;
  std::string module_;
  ir::ScopeId scope_;
  ir::ProvId prov_;
  ir::GraphBuilder builder_;
  size_t first_value_;  // of those that the node makes
  int64_t parts_ = 0;
  Status status_;
  std::unordered_map<std::string, NamedValue> results_;
  std::vector<ValueId> no_items_;
  std::vector<std::string> read_attributes_;
};

// The product of extents; nullopt where one is negative or the product is beyond ir::kMostElements.
std::optional<int64_t> count_elements(const std::vector<int64_t>& shape);

}  // namespace piper::frontend::onnx
