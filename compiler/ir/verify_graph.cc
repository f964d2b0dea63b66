// Checks the rules of verify_graph.h in their order of number, op by op.
#include "compiler/ir/verify_graph.h"

#include <unordered_set>

#include "compiler/ir/graph.h"

namespace piper::ir {
namespace {

class GraphVerifier {
 public:
  explicit GraphVerifier(const Graph& graph) : graph_(graph) {}

  Status run() {
    PIPER_RETURN_IF_ERROR(values());
    for (size_t i = 0; i < graph_.num_ops(); ++i) {
      Status status = op(OpId(i));
      if (!status.ok()) {
        const Op& at = graph_.op(OpId(i));
        return std::move(status).with_context("op " + std::to_string(i) + " '" + std::string(op_name(at.kind)) + "' (" +
                                              graph_.provenance().describe(at.prov) + ")");
      }
    }
    return ends();
  }

 private:
  static Status broken(const char* rule, const std::string& text) { return Status::failure(rule, text); }
  bool exists(ValueId v) const { return v.valid() && v.index < graph_.num_values(); }

  // `bytes`: of what the source holds.
  Status source(const Value& v, ValueId id, ValueId listed, const WeightSource& s, int64_t bytes) const {
    if (listed != id) return broken(kRuleLinks, "the entry of '" + v.name + "' names another value");
    const int64_t has = s.data ? static_cast<int64_t>(s.data->size()) : s.file.empty() ? bytes : s.bytes;
    if (has != bytes)
      return broken(kRuleData,
                    "'" + v.name + "' is " + to_string(v.type) + " but has " + std::to_string(has) + " bytes");
    return {};
  }

  Status values() {
    std::unordered_set<std::string> names;
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      const Value& v = graph_.value(ValueId(i));
      if (v.kind == ValueKind::kOpResult && !v.producer.valid()) continue;  // left by remove_ops
      for (int64_t extent : v.type.shape)
        if (extent < 0) return broken(kRuleExtents, "'" + v.name + "' has a negative extent");
      if (v.name.empty() || !names.insert(v.name).second)
        return broken(kRuleNames, "two values are named '" + v.name + "'");
      switch (v.kind) {
        case ValueKind::kOpResult: {
          bool linked = v.producer.index < graph_.num_ops();
          if (linked) {
            const std::vector<ValueId>& results = graph_.op(v.producer).results;
            linked = v.result_index < results.size() && results[v.result_index] == ValueId(i);
          }
          if (!linked) return broken(kRuleLinks, "'" + v.name + "' is no result of its producer");
          break;
        }
        case ValueKind::kInput:
          if (v.payload >= graph_.inputs().size() || graph_.inputs()[v.payload].value != ValueId(i))
            return broken(kRuleLinks, "the entry of '" + v.name + "' names another value");
          break;
        case ValueKind::kParameter: {
          if (v.payload >= graph_.parameters().size()) return broken(kRuleLinks, "'" + v.name + "' has no entry");
          const Parameter& p = graph_.parameters()[v.payload];
          if (p.shards < 1 || (p.shards > 1 && (v.type.shape.empty() || p.shard < 0)))
            return broken(kRuleData, "'" + v.name + "' is a part of nothing");
          if (p.cut && (p.cut->cut < 0 || p.cut->places < 2 || p.cut->axis < (p.shards > 1 ? 1 : 0) ||
                        p.cut->axis >= static_cast<int64_t>(v.type.shape.size())))
            return broken(kRuleData, "'" + v.name + "' is a part along no axis");
          if (p.share >= 0 && (p.cut || p.matrix))
            return broken(kRuleData, "'" + v.name + "' is a part of a cut, and has a gradient in shares");
          if (p.master && (!p.trainable || !is_floating(*p.master) || *p.master == v.type.dtype))
            return broken(kRuleData, "'" + v.name + "' is a copy of nothing");
          if (p.matrix && (!p.trainable || p.shards > 1 || p.cut || v.type.shape.size() != 2))
            return broken(kRuleData, "'" + v.name + "' is no whole matrix");
          if (p.buffer != plan::ModelBuffer::kNone && p.trainable)
            return broken(kRuleData, "'" + v.name + "' is a buffer that is trained");
          PIPER_RETURN_IF_ERROR(source(v, ValueId(i), p.value, p.source, p.in_source(v.type).bytes()));
          break;
        }
        case ValueKind::kBuffer: {
          if (v.payload >= graph_.buffers().size()) return broken(kRuleLinks, "'" + v.name + "' has no entry");
          const Parameter& p = graph_.buffers()[v.payload];
          PIPER_RETURN_IF_ERROR(source(v, ValueId(i), p.value, p.source, v.type.bytes()));
          break;
        }
        case ValueKind::kConstant: {
          if (v.payload >= graph_.constants().size()) return broken(kRuleLinks, "'" + v.name + "' has no entry");
          const Constant& c = graph_.constants()[v.payload];
          PIPER_RETURN_IF_ERROR(source(v, ValueId(i), c.value, c.source, v.type.bytes()));
          break;
        }
        case ValueKind::kSeedStep:
        case ValueKind::kSampleOffset:
        case ValueKind::kPlace:
        case ValueKind::kLossScale: break;
      }
    }
    return {};
  }

  Status op(OpId id) {
    const Op& op = graph_.op(id);
    std::vector<const TensorType*> types;
    for (ValueId operand : op.operands) {
      if (!operand.valid()) {
        types.push_back(nullptr);
        continue;
      }
      if (!exists(operand)) return broken(kRuleOperands, "an operand is no value of the graph");
      const Value& v = graph_.value(operand);
      if (v.kind == ValueKind::kOpResult) {
        if (!v.producer.valid()) return broken(kRuleOperands, "reads '" + v.name + "', whose op was dropped");
        if (!(v.producer < id)) return broken(kRuleOrder, "reads '" + v.name + "' before it is made");
        PIPER_RETURN_IF_ERROR(phases(op, graph_.op(v.producer), v.name));
      }
      types.push_back(&v.type);
    }
    if (op.kind == OpKind::kStepSum && op.phase != Phase::kCount)
      return broken(kRulePhases, "step_sum must be of phase count");
    Result<std::vector<TensorType>> inferred = infer_types(op.kind, op.attrs, types);
    if (!inferred.ok()) return broken(kRuleTypes, inferred.error().message);
    if (inferred->size() != op.results.size()) return broken(kRuleTypes, "has the wrong number of results");
    for (size_t i = 0; i < op.results.size(); ++i) {
      if (!exists(op.results[i])) return broken(kRuleLinks, "a result is no value of the graph");
      const Value& v = graph_.value(op.results[i]);
      if (v.producer != id || v.result_index != i) return broken(kRuleLinks, "'" + v.name + "' names another producer");
      if (!(v.type == (*inferred)[i]))
        return broken(kRuleTypes,
                      "'" + v.name + "' is " + to_string(v.type) + ", inference gives " + to_string((*inferred)[i]));
    }
    return op.kind == OpKind::kAccumulateGrad ? gradient(op) : Status();
  }

  static Status phases(const Op& reader, const Op& producer, const std::string& name) {
    auto fails = [&](const char* why) { return broken(kRulePhases, "reads '" + name + "': " + why); };
    switch (reader.phase) {
      case Phase::kCount:
        if (producer.phase != Phase::kCount) return fails("a count op reads only count ops");
        if (producer.kind == OpKind::kStepSum) return fails("a sum over the step is known only after all counts");
        break;
      case Phase::kCountFinish:
        if (producer.phase != Phase::kCountFinish && producer.kind != OpKind::kStepSum)
          return fails("an op that finishes a count reads step_sum or its like");
        break;
      case Phase::kForward:
        if (producer.phase == Phase::kBackward || producer.phase == Phase::kBackwardWeight)
          return fails("forward reads backward");
        break;
      case Phase::kBackward:
        if (producer.phase == Phase::kBackwardWeight) return fails("an input part reads a weight part");
        break;
      case Phase::kBackwardWeight: break;
    }
    return {};
  }

  Status gradient(const Op& op) const {
    const auto* attrs = std::get_if<AccumulateGradAttrs>(&op.attrs);
    if (!attrs || !exists(attrs->parameter) || graph_.value(attrs->parameter).kind != ValueKind::kParameter)
      return broken(kRuleGradients, "its parameter is none");
    const Value& v = graph_.value(attrs->parameter);
    if (!graph_.parameters()[v.payload].trainable) return broken(kRuleGradients, "'" + v.name + "' is not trained");
    if (!(graph_.type(op.operands[0]) == graph_.parameters()[v.payload].trained(v.type)))
      return broken(kRuleGradients, "the gradient of '" + v.name + "' is " + to_string(graph_.type(op.operands[0])));
    return {};
  }

  Status ends() const {
    auto made = [&](ValueId v) {
      return exists(v) && (graph_.value(v).kind != ValueKind::kOpResult || graph_.value(v).producer.valid());
    };
    for (const Graph::Output& output : graph_.outputs)
      if (!made(output.value)) return broken(kRuleOperands, "output '" + output.name + "' is no value of the graph");
    for (ValueId loss : graph_.all_losses()) {
      if (!made(loss)) return broken(kRuleOperands, "the loss is no value of the graph");
      const TensorType& type = graph_.type(loss);
      if (!type.shape.empty() || !is_floating(type.dtype)) return broken(kRuleLoss, "the loss is " + to_string(type));
    }
    for (ValueId number : graph_.dropped) {
      if (!made(number)) return broken(kRuleOperands, "a number of dropped rows is no value of the graph");
      if (graph_.type(number) != TensorType{DType::kI64, {}})
        return broken(kRuleLoss, "a number of dropped rows is " + to_string(graph_.type(number)));
    }
    return {};
  }

  const Graph& graph_;
};

}  // namespace

Status verify(const Graph& graph) { return GraphVerifier(graph).run(); }

}  // namespace piper::ir
