#include "compiler/tensors/why_converted.h"

#include <algorithm>
#include <set>
#include <variant>
#include <vector>

#include "compiler/ir/op_traits.h"

namespace piper::tensors {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

constexpr size_t kNamed = 3;  // operators in one list

// What lays a value out otherwise, or adds up several: the operators beyond it are those that a reader knows.
bool is_passed(OpKind kind) {
  return kind == OpKind::kReshape || kind == OpKind::kPermute || kind == OpKind::kCast || kind == OpKind::kExpand ||
         ir::is_conversion(kind);
}

// Operators, each named once, in the order in which they were met.
class Names {
 public:
  void add(const ir::Graph& graph, OpId id) {
    const ir::Op& op = graph.op(id);
    const std::string& scope = graph.scope(op.scope);
    add("'" + std::string(ir::op_name(op.kind)) + "'" + (scope.empty() ? "" : " of " + scope));
  }
  void add(std::string name) {
    if (std::find(all_.begin(), all_.end(), name) == all_.end()) all_.push_back(std::move(name));
  }
  bool empty() const { return all_.empty(); }
  std::string text() const {
    std::string list;
    for (size_t i = 0; i < std::min(all_.size(), kNamed); ++i)
      list += (i == 0 ? "" : all_.size() <= kNamed && i + 1 == all_.size() ? " and " : ", ") + all_[i];
    return list + (all_.size() > kNamed ? " and " + std::to_string(all_.size() - kNamed) + " more" : "");
  }

 private:
  std::vector<std::string> all_;
};

// The operators that make a value; of a sum of shares, those of its addends.
void add_makers(const ir::Graph& graph, ValueId v, bool shares, std::set<uint32_t>& seen, Names& names) {
  if (!v.valid() || !seen.insert(v.index).second) return;
  const ir::Value& value = graph.value(v);
  if (value.kind != ir::ValueKind::kOpResult) return names.add("'" + value.name + "'");
  const ir::Op& op = graph.op(value.producer);
  const bool adds_up = shares && op.kind == OpKind::kAdd;
  if (!adds_up && !is_passed(op.kind)) return names.add(graph, value.producer);
  for (size_t i = 0; i < (adds_up ? op.operands.size() : 1); ++i)
    add_makers(graph, op.operands[i], shares, seen, names);
}

// The operators of a pass that read a value, however it is laid out for them.
void add_readers(const ir::Graph& graph, const ir::Uses& uses, ValueId v, ir::Phase phase, std::set<uint32_t>& seen,
                 Names& names) {
  if (!seen.insert(v.index).second) return;
  for (const OpId id : uses[v.index]) {
    const ir::Op& op = graph.op(id);
    if (is_passed(op.kind)) add_readers(graph, uses, op.results[0], phase, seen, names);
    else if (op.phase == phase) names.add(graph, id);
  }
}

}  // namespace

std::string why_converted(const ir::Graph& graph, const ir::Uses& uses, OpId conversion) {
  const ir::Op& op = graph.op(conversion);
  Names makers, readers;
  std::set<uint32_t> made, read;
  add_makers(graph, op.operands[0], op.kind != OpKind::kAllGather, made, makers);
  add_readers(graph, uses, op.results[0], op.phase, read, readers);
  if (readers.empty()) readers.add("the end of the pass");
  const std::string met = op.kind == OpKind::kAllGather ? "parts of " + makers.text() + " are gathered before "
                                                        : "partial sums of " + makers.text() + " are summed before ";
  return std::string(op.phase == ir::Phase::kForward ? "" : "in the backward pass, ") + met + readers.text() +
         (op.kind == OpKind::kReduceScatter ? ", and each device gets its part of the sum" : "");
}

std::optional<ir::DirectiveOrigin> asked_by(const ir::Provenance& provenance, ir::ProvId id) {
  if (!id.valid()) return std::nullopt;
  const ir::ProvEntry& entry = provenance.entry(id);
  if (const auto* directive = std::get_if<ir::DirectiveOrigin>(&entry)) return *directive;
  if (const auto* derived = std::get_if<ir::DerivedOrigin>(&entry))  // a pass names the operator first, then the line
    for (auto parent = derived->parents.rbegin(); parent != derived->parents.rend(); ++parent)
      if (const auto found = asked_by(provenance, *parent)) return found;
  return std::nullopt;
}

}  // namespace piper::tensors
