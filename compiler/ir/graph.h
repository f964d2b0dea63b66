// The model graph: operators of the closed op set (ops.def) on statically shaped SSA values.
// Importers make it through GraphBuilder, autodiff appends the backward to it, lowering reads it.
// Ops are in a topological order (their index order); passes that reorder rebuild the graph.
// It knows nothing of devices, microbatches or ranks.
#pragma once

#include <cstdint>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/ir/ids.h"
#include "compiler/ir/op_attrs.h"
#include "compiler/ir/provenance.h"
#include "schemas/base/flat_lists.h"
#include "schemas/base/status.h"
#include "schemas/plan/dtype.h"
#include "schemas/plan/model_buffer.h"

namespace piper::ir {

enum class OpKind : uint8_t {
#define PIPER_OP(enumerator, ...) enumerator,
#include "compiler/ir/ops.def"
#undef PIPER_OP
};
std::string_view op_name(OpKind kind);  // "layer_norm"
std::optional<OpKind> op_from_name(std::string_view name);
Attrs default_attrs(OpKind kind);  // holds the op's attrs struct

struct TensorType {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t elements() const;
  int64_t bytes() const { return elements() * dtype_bytes(dtype); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::string to_string(const TensorType& type);  // "f32[8, 20, 64]"

// The bytes of a constant, row-major, little-endian; shared between graphs of one model.
using ConstantData = std::shared_ptr<const std::vector<std::byte>>;

enum class ValueKind : uint8_t {
  kOpResult,
  kInput,      // a graph input; leading axis = samples of the piece (or a static input)
  kParameter,  // trained, or frozen (see Parameter)
  kBuffer,     // state that a step may change (running statistics)
  kConstant,
  kSeedStep,      // i64 [2]: (seed, step), the same on all ranks
  kSampleOffset,  // i64 [1]: position of the piece's first sample in the step's batch
  kPlace,         // i64 [1]: which of the devices that share samples this is (Distribution::cuts)
  kLossScale,     // f32 []: what the loss's gradient is multiplied by, the same on all ranks
};

struct Value {
  ValueKind kind = ValueKind::kOpResult;
  TensorType type;
  OpId producer;              // kOpResult only
  uint32_t result_index = 0;  // kOpResult only
  uint32_t payload = 0;       // kInput, kParameter, kBuffer, kConstant: index into the graph's list
  std::string name;           // unique in the graph; the model's own name where it has one
};

// Where the initial bytes of a parameter, buffer or constant are.
struct WeightSource {
  // Element i is start + i * step, in i64: there may be as many as a step has rows. The fold leaves none.
  struct Range {
    int64_t start = 0, step = 1;
    bool may_be_of_batch = true;  // whether its extent may hang on the number of samples
  };

  std::string file;    // path as given on this machine; "" = `data` or `range` holds them
  int64_t offset = 0;  // bytes, into `file`
  int64_t bytes = 0;
  ConstantData data;                 // where file is ""
  std::optional<Range> range;        // where file is "" and there are no data; one axis
  std::vector<int64_t> permutation;  // un-done by the importer: stored = permute(parameter); empty = none
};

// An axis that is cut over places: this graph's type is one of `places` equal parts of each of equal segments of the
// axis, place p has part p of each. Of an axis that they do not divide, of one segment, the last parts have fewer: what
// is past `extent` is of no element of the model, and zero.
struct ParameterCut {
  int32_t cut = -1;  // index into Distribution::cuts
  int32_t axis = 0;
  int32_t places = 1;
  int32_t segments = 1;
  int64_t extent = 0;                 // of the whole, where the places do not divide it
  std::vector<int64_t> extents = {};  // of segments of unequal size, of the whole; empty: they are equal
  friend bool operator==(const ParameterCut&, const ParameterCut&) = default;
};

struct Parameter {
  ValueId value;
  std::vector<std::string> names;  // every name of a tied parameter; the first is the model's canonical name
  bool trainable = true;
  // Mixed precision: the type of what is trained and saved, and of its gradients; the graph's value is a copy for
  // programs. Unset: the value itself is trained.
  std::optional<DType> master;
  std::optional<DType> stored;  // of the elements in `source`, where these are of another type than the value
  WeightSource source;
  // Where the first axis is cut over an expert group: this graph's type is one of `shards` equal parts, the rank at
  // position p of its group holds part p, and `source` is the whole. `shard`: index into ChunkedGraph::shards.
  int32_t shards = 1;
  int32_t shard = -1;
  std::optional<ParameterCut> cut;  // `source` is the whole
  // Whole on every place, where readers with parts of that cut make an addend each of its gradient: index into
  // Distribution::cuts; -1: every place makes all of it, or its part. Of experts: each of these is whole on one rank,
  // to which all places send their rows.
  int32_t share = -1;
  plan::ModelBuffer buffer = plan::ModelBuffer::kNone;  // other than kNone: not trainable
  bool matrix = false;  // its update takes the whole of it: no part of a bucket ends inside
  // The type of the whole, given that of a part.
  TensorType whole(TensorType part) const {
    if (shards > 1) part.shape[0] *= shards;
    if (!cut) return part;
    int64_t& extent = part.shape[static_cast<size_t>(cut->axis)];
    extent = cut->extent > 0 ? cut->extent : extent * cut->places;
    return part;
  }
  // The same with parts as long as the first, as plans count its elements.
  TensorType counted(TensorType part) const {
    if (!cut || cut->extent == 0) return whole(std::move(part));
    part.shape[static_cast<size_t>(cut->axis)] *= cut->places;
    return part;
  }
  // The type of what is trained, given that of what programs read.
  TensorType trained(TensorType read) const {
    if (master) read.dtype = *master;
    return read;
  }
  // The type of the whole as `source` holds it.
  TensorType in_source(TensorType part) const {
    if (stored) part.dtype = *stored;
    return whole(part);
  }
};
struct Input {
  ValueId value;
  std::string name;
  bool batched = true;  // the leading axis is the batch
};
struct Constant {
  ValueId value;
  WeightSource source;
};

// Which program of a chunk an op belongs to.
enum class Phase : uint8_t {
  kCount,        // once per piece, before every forward: what mean losses divide by
  kCountFinish,  // once per step, after all pieces' counts are summed
  kForward,
  kBackward,        // of a chunk whose backward is split: the part that makes gradients of activations
  kBackwardWeight,  // the rest of a split backward
};
inline constexpr size_t kNumPhases = 5;

struct Op {
  OpKind kind = OpKind::kAdd;
  Phase phase = Phase::kForward;
  Attrs attrs;
  std::vector<ValueId> operands;  // an invalid id = an absent optional operand
  std::vector<ValueId> results;
  ScopeId scope;  // module path
  ProvId prov;
  ChunkId chunk;  // set by the chunking pass; backward ops inherit their forward op's
};

using Uses = FlatLists<OpId>;  // [value] the ops that read it, ascending, each once

class Graph {
 public:
  // --- reading
  size_t num_ops() const { return ops_.size(); }
  size_t num_values() const { return values_.size(); }
  const Op& op(OpId id) const { return ops_[id.index]; }
  Op& op(OpId id) { return ops_[id.index]; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  Value& value(ValueId id) { return values_[id.index]; }
  const TensorType& type(ValueId id) const { return values_[id.index].type; }
  // A constant, or a persistent buffer: what training does not change.
  bool is_unchanging(ValueId id) const {
    const Value& v = value(id);
    return v.kind == ValueKind::kConstant ||
           (v.kind == ValueKind::kParameter && parameters_[v.payload].buffer != plan::ModelBuffer::kNone);
  }
  // The op of that kind that made the value; nullptr where another or none did.
  const Op* made_by(ValueId id, OpKind kind) const {
    if (value(id).kind != ValueKind::kOpResult) return nullptr;
    const Op& producer = op(value(id).producer);
    return producer.kind == kind ? &producer : nullptr;
  }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& buffers() const { return buffers_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  std::vector<Input>& inputs() { return inputs_; }
  const std::vector<Constant>& constants() const { return constants_; }
  std::vector<Constant>& constants() { return constants_; }
  const std::string& scope(ScopeId id) const;  // "" for the root or an invalid id
  // Graph outputs by name; the importer lists every output of the file.
  struct Output {
    std::string name;
    ValueId value;
  };
  std::vector<Output> outputs;
  ValueId loss;                     // set by the driver from `model.loss`
  std::vector<ValueId> loss_terms;  // what the step's loss has beside `loss` (passes/spread_losses)
  std::vector<ValueId> dropped;  // i64 []: numbers of rows that experts have no place for; the step's log has their sum
  // A term of the loss that is a sum over something counted: f32 [], made by forwards. Without counts, a number of
  // which batches have the mean.
  struct Mean {
    std::vector<ValueId> sums, counts;  // addends
    bool cross_entropy = false;         // the mean is one cross entropy, unweighted and unsmoothed
  };
  std::vector<Mean> means;  // of a graph that evaluates (evaluation/take_means): what it reports instead of the loss
  std::vector<ValueId> all_losses() const;  // loss_terms, then loss; empty where there is none
  Provenance& provenance() { return provenance_; }
  const Provenance& provenance() const { return provenance_; }

  // --- making; used by GraphBuilder, the importers and the parser
  ScopeId intern_scope(std::string_view module_path);
  ValueId add_input(std::string name, TensorType type, bool batched);
  ValueId add_parameter(std::vector<std::string> names, TensorType type, bool trainable, WeightSource source);
  ValueId add_buffer(std::vector<std::string> names, TensorType type, WeightSource source);
  ValueId add_constant(std::string name, TensorType type, WeightSource source);
  ValueId seed_step();      // made at first use
  ValueId sample_offset();  // made at first use
  ValueId place();          // made at first use
  ValueId loss_scale();     // made at first use
  bool scales_loss() const { return loss_scale_.valid(); }
  // Appends an op whose result types are given. Names of results: `name`, or made from the op's
  // name and index where it is "" (unique in the graph).
  OpId append(OpKind kind, Attrs attrs, std::vector<ValueId> operands, std::vector<TensorType> results, ScopeId scope,
              ProvId prov, std::string name = "");
  // Drops the marked ops ([op]); the others keep their order. Results of dropped ops stay as values
  // without a producer, so that value ids keep their meaning; nothing may read them.
  void remove_ops(const std::vector<bool>& drop);
  // Puts ops after the producers of their operands, otherwise keeps their order. Op ids change.
  void sort_ops();
  // ... as near as data allow to the wanted order: [op] a number, equal ones in the order in which they are.
  void sort_ops(const std::vector<size_t>& wanted);
  // Keeps the order of ops, and moves what an op reads, where it is after the op, before it.
  void move_ops_before_readers();
  // Renumbers the values: those named as a value of `other` get its id, the others follow in their order. False, and
  // nothing changes, where a value of `other` has no namesake here.
  bool number_values_like(const Graph& other);
  // For each value, the ops that read it, in op order (operands named twice count once).
  Uses uses() const;

 private:
  std::string unique_name(std::string wish);
  std::vector<Op> ops_;
  std::vector<Value> values_;
  std::vector<Parameter> parameters_, buffers_;
  std::vector<Input> inputs_;
  std::vector<Constant> constants_;
  std::vector<std::string> scopes_;
  std::unordered_map<std::string, uint32_t> scope_index_, name_index_;
  ValueId seed_step_, sample_offset_, place_, loss_scale_;
  Provenance provenance_;
};

// Types of the results of an operator. Errors (code P0401): operand count, dtype or shape do not
// fit; the message names the operator and the operand types.
Result<std::vector<TensorType>> infer_types(OpKind kind, const Attrs& attrs,
                                            const std::vector<const TensorType*>& operands);

// What the short forms of builders left out as they would change nothing, in the order of their calls. Built with the
// same choices, graphs that differ in extents alone have the same values by id: with one sample in a piece, more would
// be left out.
struct BuilderChoices {
  std::vector<bool> left_out;
  bool follows = false;
  size_t next = 0;
};

// Appends ops with inferred types under one scope and provenance. A misfit is the importer's or a
// rule's bug or a broken model: it is kept as the first failure (`status()`), and an op with an
// f32 [] result is returned so that the caller can go on without a check per call.
class GraphBuilder {
 public:
  GraphBuilder(Graph& graph, ScopeId scope, ProvId prov) : graph_(graph), scope_(scope), prov_(prov) {}
  Graph& graph() { return graph_; }
  void set_scope(ScopeId scope) { scope_ = scope; }
  void set_phase(Phase phase) { phase_ = phase; }
  void set_chunk(ChunkId chunk) { chunk_ = chunk; }
  const TensorType& type(ValueId v) const { return graph_.type(v); }

  // The op's only result, or all of them.
  ValueId add1(OpKind kind, std::vector<ValueId> operands, Attrs attrs = NoAttrs{}, std::string name = "");
  std::vector<ValueId> add(OpKind kind, std::vector<ValueId> operands, Attrs attrs = NoAttrs{}, std::string name = "");
  ValueId scalar(double value, DType dtype);  // a constant of shape []
  ValueId constant_i64(std::vector<int64_t> shape, const std::vector<int64_t>& data);
  ValueId range(int64_t count, WeightSource::Range range);  // i64 [count]
  // Short forms that return x itself where nothing changes.
  ValueId reshape(ValueId x, std::vector<int64_t> shape);
  ValueId permute(ValueId x, std::vector<int64_t> dims);
  ValueId transpose(ValueId x, int64_t a, int64_t b);  // negative axes count from the end
  ValueId expand(ValueId x, std::vector<int64_t> shape);
  ValueId slice(ValueId x, int64_t dim, int64_t start, int64_t end, int64_t step = 1);
  ValueId unsqueeze(ValueId x, int64_t dim);
  ValueId squeeze(ValueId x, int64_t dim);
  ValueId cast(ValueId x, DType to);
  ValueId sum(ValueId x, std::vector<int64_t> dims, bool keepdim);
  ValueId sum_to_shape(ValueId x, const std::vector<int64_t>& shape);  // reverse of a broadcast
  // The number x, of shape [], by an operator of its own: x itself where it is made by one that is no conversion, also
  // where x is a view of that. Programs add up over the step what they make themselves.
  ValueId made_by_program(ValueId x);
  const Status& status() const { return status_; }
  // Notes what short forms leave out in `choices`, or follows them; null: neither.
  void set_choices(BuilderChoices* choices) { choices_ = choices; }
  // Whether an operator is left out that `may` be.
  bool leaves_out(bool may);

 private:
  std::vector<int64_t> summed(const std::vector<int64_t>& dims, const std::vector<int64_t>& shape);

  Graph& graph_;
  ScopeId scope_;
  ProvId prov_;
  Phase phase_ = Phase::kForward;
  ChunkId chunk_;
  BuilderChoices* choices_ = nullptr;
  Status status_;
};

// --- text form (.pir) and checks
std::string print(const Graph& graph);
Result<Graph> parse_graph(std::string_view text, std::string_view file_name);
// The numbered rules of verify_graph.h; fails with the first broken rule's number (P04xx).
Status verify(const Graph& graph);

}  // namespace piper::ir
