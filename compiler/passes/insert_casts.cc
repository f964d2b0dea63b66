#include "compiler/passes/insert_casts.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/ir/copy_graph.h"
#include "compiler/analysis/operand_types.h"
#include "schemas/base/check.h"

namespace piper::passes {
namespace {

using ir::ChunkId;
using ir::Op;
using ir::OpId;
using ir::Takes;
using ir::ValueId;
using ir::ValueKind;

// One variant of the model: the new graph is a copy with casts.
class Casts {
 public:
  Casts(const ir::ChunkedGraph& from, const ir::Precision& precision, ir::Graph& to)
      : from_(from.graph),
        chunks_(from.chunks),
        precision_(precision),
        takes_(analysis::operand_types(from.graph, precision.keep)),
        to_(to),
        copy_(from.graph, to),
        narrow_(readers_want_narrow()),
        uses_(from_.uses()) {}

  void run() {
    for (const ir::Parameter& parameter : from_.parameters()) make_master(parameter);
    for (size_t i = 0; i < from_.num_ops(); ++i) copy_op(OpId(i));
    copy_.finish();
    if (precision_.scales()) (void)to_.loss_scale();
  }

 private:
  // [value] of `from`: every reader takes it in the type `compute`.
  std::vector<bool> readers_want_narrow() const {
    std::vector<bool> narrow(from_.num_values(), false), wide(from_.num_values(), false);
    if (!precision_.compute) return narrow;
    for (ValueId loss : from_.all_losses()) wide[loss.index] = true;
    for (size_t i = from_.num_ops(); i-- > 0;) {
      const Op& op = from_.op(OpId(i));
      const ValueId result = op.results.empty() ? ValueId() : op.results[0];
      const bool passed_on = takes_[i] == Takes::kAsReaders && narrow[result.index] && !wide[result.index];
      for (ValueId operand : op.operands)
        if (operand.valid()) (takes_[i] == Takes::kCompute || passed_on ? narrow : wide)[operand.index] = true;
    }
    for (size_t v = 0; v < narrow.size(); ++v) narrow[v] = narrow[v] && !wide[v];
    return narrow;
  }

  bool narrows(DType dtype) const {
    return precision_.compute && is_floating(dtype) && dtype != DType::kF64 && dtype != *precision_.compute;
  }

  void make_master(const ir::Parameter& old) {
    const ValueId v = copy_.moved(old.value);
    const DType own = from_.type(old.value).dtype;
    if (!old.trainable || !precision_.master || !is_floating(own)) return;
    DType& read = to_.value(v).type.dtype;
    if (narrow_[old.value.index] && narrows(own)) read = *precision_.compute;
    const DType master = is_half(own) ? *precision_.master : own;
    if (read == master) return;
    ir::Parameter& parameter = to_.parameters()[to_.value(v).payload];
    parameter.master = master;
    if (own != read) parameter.stored = own;
  }

  DType widest(const std::vector<ValueId>& operands) const {
    std::optional<DType> result;
    for (const bool scalars : {false, true}) {
      for (ValueId operand : operands) {
        if (!operand.valid()) continue;
        const ir::TensorType& type = to_.type(operand);
        if (is_floating(type.dtype) && type.shape.empty() == scalars)
          result = result ? analysis::wider_type(*result, type.dtype) : type.dtype;
      }
      if (result) break;
    }
    return result.value_or(DType::kF32);
  }

  // The type in which the op takes an operand. State that an op writes cannot be converted.
  DType wanted(OpId id, ValueId operand, const std::vector<ValueId>& operands) const {
    const DType own = to_.type(operand).dtype;
    if (!is_floating(own) || to_.value(operand).kind == ValueKind::kBuffer) return own;
    if (!precision_.compute) return own;  // the model's own types fit each other
    const DType narrowed = narrows(own) ? *precision_.compute : own;
    switch (takes_[id.index]) {
      case Takes::kAny: return own;
      case Takes::kWidest: return widest(operands);
      case Takes::kAsReaders: return narrow_[from_.op(id).results[0].index] ? narrowed : own;
      case Takes::kCompute: return narrowed;
      case Takes::kF32: return is_half(own) ? DType::kF32 : own;
    }
    return own;
  }

  void copy_op(OpId id) {
    const Op& op = from_.op(id);
    std::vector<ValueId> operands;
    for (ValueId operand : op.operands) operands.push_back(copy_.moved(operand));
    const std::vector<ValueId> before = operands;
    for (size_t k = 0; k < operands.size(); ++k) {
      if (!operands[k].valid()) continue;
      const DType type = wanted(id, operands[k], before);
      if (type != to_.type(operands[k]).dtype) operands[k] = converted(op, op.operands[k], operands[k], type);
    }
    std::vector<const ir::TensorType*> types;
    for (ValueId operand : operands) types.push_back(operand.valid() ? &to_.type(operand) : nullptr);
    const auto results = ir::infer_types(op.kind, op.attrs, types);
    PIPER_CHECK(results.ok(), "casts do not fit: ", results.ok() ? "" : results.error().message);
    const OpId made = copy_.append_like(id, op.kind, op.attrs, operands);
    for (size_t r = 0; r < results->size(); ++r) to_.value(to_.op(made).results[r]).type = (*results)[r];
  }

  // `v`, a copy of `old`, in another type for an op of `from`.
  ValueId converted(const Op& reader, ValueId old, ValueId v, DType type) {
    const ir::Value& value = to_.value(v);
    ChunkId chunk = reader.chunk;
    if (value.kind == ValueKind::kOpResult) {
      const ChunkId producer = to_.op(value.producer).chunk;
      const bool where_made =
          (is_half(type) ? narrow_[old.index] : chunks_that_widen(old) > 1) || exchanges(reader.chunk);
      if (where_made && !exchanges(producer)) chunk = producer;
    }
    const auto key = std::make_tuple(v.index, type, chunk.index);
    if (const auto known = converted_.find(key); known != converted_.end()) return known->second;
    ir::GraphBuilder b(to_, copy_.moved_scope(reader.scope), to_.provenance().derived("insert_casts", {reader.prov}));
    b.set_chunk(chunk);
    const std::optional<double> number = number_of(value);
    return converted_[key] = number ? b.scalar(*number, type) : b.cast(v, type);
  }

  // In how many chunks a value of 16 bits may be read in f32. Its gradients are added up in f32, before they are
  // rounded, only where all these read one cast.
  size_t chunks_that_widen(ValueId old) const {
    std::set<ChunkId> chunks;
    for (const OpId reader : uses_[old.index])
      if (takes_[reader.index] == Takes::kF32 || takes_[reader.index] == Takes::kWidest)
        chunks.insert(from_.op(reader).chunk);
    return chunks.size();
  }

  bool exchanges(ChunkId chunk) const { return chunk.valid() && chunks_[chunk.index].exchange; }

  // The value of a constant of shape [], which is converted here.
  std::optional<double> number_of(const ir::Value& value) const {
    if (value.kind != ValueKind::kConstant || !value.type.shape.empty() || value.type.dtype != DType::kF32)
      return std::nullopt;
    const ir::ConstantData& data = to_.constants()[value.payload].source.data;
    float number = 0;
    if (data == nullptr || data->size() != sizeof number) return std::nullopt;
    std::memcpy(&number, data->data(), sizeof number);
    return number;
  }

  const ir::Graph& from_;
  const std::vector<ir::Chunk>& chunks_;
  const ir::Precision& precision_;
  const std::vector<ir::Takes> takes_;  // [op of `from`]
  ir::Graph& to_;
  ir::CopyGraph copy_;
  const std::vector<bool> narrow_;                                      // [value of `from`]
  const ir::Uses uses_;                                                 // of `from`
  std::map<std::tuple<uint32_t, DType, uint32_t>, ValueId> converted_;  // (value, type, chunk)
};

}  // namespace

void insert_casts(ir::Module& module) {
  if (!module.precision.compute && !module.precision.master) return;
  for (ir::ModelVariant& variant : module.variants) {
    ir::Graph typed;
    Casts(variant.chunked, module.precision, typed).run();
    variant.chunked.graph = std::move(typed);
  }
}

}  // namespace piper::passes
