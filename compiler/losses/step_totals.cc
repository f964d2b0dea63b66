#include "compiler/losses/step_totals.h"

#include <utility>
#include <vector>

#include "compiler/ir/shapes.h"

namespace piper::losses {

using ir::OpKind;
using ir::Phase;
using ir::ValueId;

namespace {

Result<ValueId> built(const ir::GraphBuilder& b, ValueId v) {
  if (!b.status().ok()) return Status(b.status().error());
  return v;
}

}  // namespace

ir::GraphBuilder StepTotals::builder(const ir::Op& like, ir::ChunkId chunk, Phase phase) {
  ir::GraphBuilder b(graph_, like.scope, graph_.provenance().derived("normalise_losses", {like.prov}));
  b.set_chunk(chunk);
  b.set_phase(phase);
  return b;
}

Result<ValueId> StepTotals::wide(const ir::Op& reader, ValueId v) {
  if (batch_.of(v).kind != analysis::BatchKind::kTotal) return v;
  PIPER_ASSIGN(const ValueId made, finish_count(reader, v));
  if (graph_.made_by(made, OpKind::kStepSum) == nullptr) return made;
  // Forwards read what a program makes of a sum over the step, not the sum.
  ir::GraphBuilder b = builder(reader, reader.chunk, Phase::kCountFinish);
  const ValueId result = b.add1(OpKind::kReshape, {made}, ir::ReshapeAttrs{graph_.type(made).shape});
  made_[{reader.chunk.index, v.index}] = result;
  return built(b, result);
}

// v by operators of the phases kCount and kCountFinish.
Result<ValueId> StepTotals::finish_count(const ir::Op& reader, ValueId v) {
  if (graph_.value(v).kind != ir::ValueKind::kOpResult) return v;
  if (const auto found = made_.find({reader.chunk.index, v.index}); found != made_.end()) return found->second;
  const ir::Op op = graph_.op(graph_.value(v).producer);
  ValueId result;
  if (analysis::adds_samples(graph_, op, batch_)) {
    PIPER_ASSIGN(result, added_up(reader, op));
  } else {
    std::vector<ValueId> operands;
    for (ValueId operand : op.operands) {
      PIPER_ASSIGN(const ValueId moved, finish_count(reader, operand));
      operands.push_back(moved);
    }
    ir::GraphBuilder b = builder(op, reader.chunk, Phase::kCountFinish);
    PIPER_ASSIGN(result, built(b, b.add1(op.kind, std::move(operands), op.attrs)));
  }
  made_.emplace(std::make_pair(reader.chunk.index, v.index), result);
  return result;
}

Result<ValueId> StepTotals::added_up(const ir::Op& reader, const ir::Op& op) {
  Copies copies;
  std::vector<ValueId> operands;
  for (ValueId operand : op.operands) {
    PIPER_ASSIGN(const ValueId copied, copy(reader, operand, copies));
    operands.push_back(copied);
  }
  const ir::TensorType type = graph_.type(op.results[0]);
  ir::GraphBuilder b = builder(op, reader.chunk, Phase::kCount);
  const auto* reduced = std::get_if<ir::ReduceAttrs>(&op.attrs);
  ValueId sum = reduced != nullptr ? b.sum(operands[0], reduced->dims, false) : b.add1(op.kind, operands, op.attrs);
  sum = b.cast(b.reshape(sum, type.elements() == 1 ? ir::Shape() : type.shape), DType::kF32);
  sum = b.add1(OpKind::kStepSum, {sum});
  b.set_phase(Phase::kCountFinish);
  if (op.kind == OpKind::kMean) {
    int64_t terms = pieces_;
    for (int64_t dim : reduced->dims) terms *= graph_.type(op.operands[0]).shape[static_cast<size_t>(dim)];
    sum = b.add1(OpKind::kDiv, {sum, b.scalar(static_cast<double>(terms), DType::kF32)});
  }
  return built(b, b.reshape(b.cast(sum, type.dtype), type.shape));
}

Result<ValueId> StepTotals::copy(const ir::Op& reader, ValueId v, Copies& copies) {
  const ir::Value& value = graph_.value(v);
  const bool total = batch_.of(v).kind == analysis::BatchKind::kTotal;
  if (total || (value.kind == ir::ValueKind::kParameter && !graph_.is_unchanging(v))) {
    auto error = diags_.error("P0332");
    error.help("use labels and class weights that are inputs or constants");
    error << "the number of labels that " << graph_.provenance().describe(reader.prov) << " divides by depends on ";
    if (total) error << "'" << value.name << "', a number of the whole batch that is counted at the same time";
    else error << "the parameter '" << value.name << "', so it is not known before the first forward";
    return error;
  }
  if (value.kind != ir::ValueKind::kOpResult) return v;
  if (const auto found = copies.find(v.index); found != copies.end()) return found->second;
  const ir::Op op = graph_.op(value.producer);
  std::vector<ValueId> operands;
  for (ValueId operand : op.operands) {
    if (operand.valid()) {
      PIPER_ASSIGN(operand, copy(reader, operand, copies));
    }
    operands.push_back(operand);
  }
  ir::GraphBuilder b = builder(op, reader.chunk, Phase::kCount);
  const std::vector<ValueId> results = b.add(op.kind, std::move(operands), op.attrs);
  if (!b.status().ok()) return Status(b.status().error());
  for (size_t i = 0; i < results.size(); ++i) copies.emplace(op.results[i].index, results[i]);
  return copies.at(v.index);
}

}  // namespace piper::losses
