#include "compiler/frontend/experts/recognise_experts.h"

#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/frontend/experts/find_products.h"
#include "compiler/frontend/experts/recognise_sorted.h"
#include "compiler/frontend/experts/row_wise.h"
#include "compiler/frontend/fold.h"
#include "compiler/ir/copy_graph.h"
#include "compiler/ir/shapes.h"
#include "schemas/base/check.h"

namespace piper::frontend {
namespace {

using experts::Product;
using experts::Role;
using experts::RowWise;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Shape;
using ir::ValueId;

// One list of expert ids, and the values whose rows are in the order of its experts.
struct Routing {
  ValueId root;  // of the graph as given
  int64_t rows = 0, experts = 0;
  ValueId order, position, counts;  // of the new graph
  std::map<uint32_t, size_t>
      prefix;  // values of the given graph that are made row by row of products -> leading row axes
  std::map<uint32_t, ValueId> sorted;  // the same -> [rows, ..] in the new graph
};

class ExpertRecogniser {
 public:
  explicit ExpertRecogniser(const ir::Graph& from) : from_(from) {}

  bool find() {
    for (size_t i = 0; i < from_.num_ops(); ++i) {
      const Op& op = from_.op(OpId(static_cast<uint32_t>(i)));
      if (std::optional<Product> product = experts::product_of(from_, op)) {
        Routing& routing = routing_of(*product);
        if (routing.rows != product->rows || routing.experts != from_.type(product->weight).shape[0]) continue;
        routing.prefix[op.results[0].index] = product->prefix;
        products_.emplace(static_cast<uint32_t>(i), *product);
      } else {
        for (Routing& routing : routings_) mark(routing, op);
      }
    }
    return !products_.empty();
  }

  ir::Graph run() {
    ir::Graph to;
    ir::CopyGraph copy(from_, to);
    to_ = &to;
    copy_ = &copy;
    for (size_t i = 0; i < from_.num_ops(); ++i) {
      const OpId id(static_cast<uint32_t>(i));
      const auto found = products_.find(id.index);
      if (found != products_.end()) put_product(from_.op(id), found->second);
      else if (Routing* routing = reads_expert_table(from_.op(id))) put_sorted(*routing, from_.op(id));
      else copy.copy_op(id);
    }
    copy.finish();
    ir::drop_unread(to);
    return to;
  }

 private:
  // ---------------------------------------------------------------- finding
  Routing& routing_of(const Product& product) {
    const ValueId root = experts::root_of_index(from_, product.index);
    for (Routing& routing : routings_)
      if (routing.root == root) return routing;
    Routing routing;
    routing.root = root;
    routing.rows = product.rows;
    routing.experts = from_.type(product.weight).shape[0];
    routings_.push_back(std::move(routing));
    return routings_.back();
  }

  static std::vector<size_t> prefixes(const Routing& routing, const Op& op) {
    std::vector<size_t> out;
    for (ValueId v : op.operands) {
      const auto found = v.valid() ? routing.prefix.find(v.index) : routing.prefix.end();
      out.push_back(found == routing.prefix.end() ? 0 : found->second);
    }
    return out;
  }

  // Files the result of an op that works row by row on what products made.
  void mark(Routing& routing, const Op& op) const {
    const std::vector<size_t> rows = prefixes(routing, op);
    bool any = false;
    for (size_t prefix : rows) any = any || prefix != 0;
    if (!any) return;
    const std::optional<RowWise> how = experts::row_wise(from_, op, rows);
    if (!how) return;
    for (Role role : how->roles)
      if (role == Role::kOther) return;
    routing.prefix[op.results[0].index] = how->prefix;
  }

  // ---------------------------------------------------------------- building
  ir::GraphBuilder builder(const Op& op) {
    return {*to_, copy_->moved_scope(op.scope), to_->provenance().derived("recognise_experts", {op.prov})};
  }
  // Reshapes `v`, or the value below where `v` is made by reshapes itself.
  ValueId reshaped(ir::GraphBuilder& b, ValueId v, Shape shape) const {
    while (to_->value(v).kind == ir::ValueKind::kOpResult && to_->op(to_->value(v).producer).kind == OpKind::kReshape)
      v = to_->op(to_->value(v).producer).operands[0];
    return b.reshape(v, std::move(shape));
  }
  ValueId checked(const ir::GraphBuilder& b, ValueId v) const {
    PIPER_CHECK(b.status().ok(), "rows of experts: ", b.status().error().message);
    return v;
  }

  const Op* producer(ValueId v) const {
    if (!v.valid() || from_.value(v).kind != ir::ValueKind::kOpResult) return nullptr;
    return &from_.op(from_.value(v).producer);
  }

  void put_product(const Op& op, const Product& product) {
    Routing& routing = routing_of(product);
    ir::GraphBuilder b = builder(op);
    if (!routing.order.valid()) {
      // An index that may count from the end is used as the model wraps it.
      const ValueId ids = experts::is_never_negative(from_, routing.root) ? routing.root : product.index;
      const std::vector<ValueId> made = b.add(OpKind::kExpertOrder, {reshaped(b, copy_->moved(ids), {routing.rows})},
                                              ir::ExpertOrderAttrs{routing.experts, 1, routing.rows});
      PIPER_CHECK(made.size() == 4, "expert_order: ", b.status().ok() ? "" : b.status().error().message);
      routing.order = made[0];
      routing.position = made[1];
      routing.counts = made[2];
    }
    const ValueId row = reshaped(b, sorted(routing, product.row, product.row_prefix, op), {routing.rows, product.in});
    const ValueId y = b.add1(OpKind::kGroupedMatmul, {row, copy_->moved(product.weight), routing.counts},
                             ir::GroupedMatmulAttrs{product.transposed});
    const Shape shape = from_.type(op.results[0]).shape;
    Shape behind(shape.begin() + static_cast<std::ptrdiff_t>(product.prefix), shape.end());
    behind.insert(behind.begin(), routing.rows);
    routing.sorted[op.results[0].index] = reshaped(b, y, behind);
    const ValueId back = b.add1(OpKind::kTakeRows, {y, routing.position, routing.order}, ir::TakeRowsAttrs{1});
    copy_->place(op.results[0], checked(b, reshaped(b, back, shape)));
  }

  // Biases and scales of experts belong to the experts: the op that adds them works in their order as well.
  Routing* reads_expert_table(const Op& op) {
    for (Routing& routing : routings_) {
      if (op.results.empty() || routing.prefix.count(op.results[0].index) == 0) continue;
      for (ValueId x : op.operands)
        if (x.valid() && routing.prefix.count(x.index) == 0 && expert_table(routing, x) != nullptr) return &routing;
    }
    return nullptr;
  }
  void put_sorted(Routing& routing, const Op& op) {
    const ValueId y = sorted(routing, op.results[0], routing.prefix.at(op.results[0].index), op);
    ir::GraphBuilder b = builder(op);
    const ValueId back = b.add1(OpKind::kTakeRows, {y, routing.position, routing.order}, ir::TakeRowsAttrs{1});
    copy_->place(op.results[0], checked(b, reshaped(b, back, from_.type(op.results[0]).shape)));
  }

  // `v`, whose rows are in its leading `prefix` axes, as [rows, ..] in the order of the experts.
  ValueId sorted(Routing& routing, ValueId v, size_t prefix, const Op& reader) {
    if (const auto found = routing.sorted.find(v.index); found != routing.sorted.end()) return found->second;
    const bool made_of_products = routing.prefix.count(v.index) != 0;
    const ValueId out = made_of_products ? recomputed(routing, v) : taken(routing, v, prefix, reader);
    routing.sorted[v.index] = out;
    return out;
  }

  // The op that makes v, on rows in the order of the experts.
  ValueId recomputed(Routing& routing, ValueId v) {
    const Op& op = *producer(v);
    const std::vector<size_t> rows = prefixes(routing, op);
    const std::optional<RowWise> how = experts::row_wise(from_, op, rows);
    PIPER_CHECK(how.has_value(), "an op that is not row by row");
    std::vector<ValueId> operands;
    size_t operand_prefix = how->prefix;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId x = op.operands[i];
      if (rows[i] != 0) operand_prefix = rows[i];
      if (!x.valid()) operands.push_back(x);
      else if (how->roles[i] == Role::kRows)
        operands.push_back(sorted(routing, x, rows[i] != 0 ? rows[i] : how->prefix, op));
      else operands.push_back(shared(op, x, how->prefix));
    }
    ir::GraphBuilder b = builder(op);
    const ir::Attrs attrs = experts::merged_attrs(from_, op, how->prefix, operand_prefix, routing.rows);
    if (op.kind == OpKind::kReshape)
      return checked(b, reshaped(b, operands[0], std::get<ir::ReshapeAttrs>(attrs).shape));
    const std::vector<ValueId> made = b.add(op.kind, std::move(operands), attrs);
    return checked(b, made[0]);
  }

  // An operand that every row reads: without the axes of extent 1 that stand for the rows.
  ValueId shared(const Op& op, ValueId x, size_t prefix) {
    const Shape shape = from_.type(x).shape;
    const size_t rank = from_.type(op.results[0]).shape.size();
    if (shape.size() + prefix <= rank || op.kind == OpKind::kLinear) return copy_->moved(x);
    if (op.kind == OpKind::kLayerNorm || op.kind == OpKind::kRmsNorm) return copy_->moved(x);
    ir::GraphBuilder b = builder(op);
    const Shape behind(shape.begin() + static_cast<std::ptrdiff_t>(shape.size() + prefix - rank), shape.end());
    return checked(b, reshaped(b, copy_->moved(x), behind));
  }

  // Rows that no product has made: entries of a table of experts, or rows that are read in their new order.
  ValueId taken(Routing& routing, ValueId v, size_t prefix, const Op& reader) {
    const Shape shape = from_.type(v).shape;
    Shape behind(shape.begin() + static_cast<std::ptrdiff_t>(prefix), shape.end());
    behind.insert(behind.begin(), routing.rows);
    const int64_t lead = ir::elements_before(shape, prefix);
    ir::GraphBuilder b = builder(reader);
    if (lead == routing.rows) {
      if (const Op* table = expert_table(routing, v)) {
        const ValueId entries = b.add1(OpKind::kGroupedExpand, {copy_->moved(table->operands[0]), routing.counts},
                                       ir::RowsAttrs{routing.rows});
        return checked(b, reshaped(b, entries, behind));
      }
      if (const std::optional<std::pair<ValueId, int64_t>> few = before_repetition(v, routing.rows)) {
        const ValueId x = reshaped(b, copy_->moved(few->first), merged(few->first, routing.rows / few->second));
        return checked(b, reshaped(b, take(b, routing, x, few->second), behind));
      }
    }
    // The rows may be broadcast over trailing axes of the prefix: [T, 1, K] for T * k rows.
    PIPER_CHECK(lead > 0 && routing.rows % lead == 0, "rows that do not fit");
    const ValueId x = take(b, routing, reshaped(b, copy_->moved(v), merged(v, lead)), routing.rows / lead);
    return checked(b, reshaped(b, x, behind));
  }

  ValueId take(ir::GraphBuilder& b, const Routing& routing, ValueId x, int64_t repeat) {
    return b.add1(OpKind::kTakeRows, {x, routing.order, routing.position}, ir::TakeRowsAttrs{repeat});
  }

  // k where a constant index reads each of `extent` rows k times in their order: 0, 0, 1, 1, ..; else 0.
  int64_t repetition(ValueId index, int64_t extent) const {
    const std::optional<ConstantTensor> c = constant_of(from_, index);
    if (!c || c->type.dtype != DType::kI64 || extent < 1 || c->type.elements() % extent != 0) return 0;
    const int64_t count = c->type.elements(), repeat = count / extent;
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = 0;
      std::memcpy(&at, c->data()->data() + i * 8, 8);
      if (at != i / repeat) return 0;
    }
    return repeat;
  }

  // The op below reshapes that makes v.
  const Op* producer_of_elements(ValueId v) const {
    const Op* op = producer(v);
    while (op != nullptr && op->kind == OpKind::kReshape) op = producer(op->operands[0]);
    return op;
  }

  // The index_select of a table with one entry for each expert, read by the routing's ids; else null.
  const Op* expert_table(const Routing& routing, ValueId v) const {
    const Op* op = producer_of_elements(v);
    if (op == nullptr || op->kind != OpKind::kIndexSelect || std::get<ir::DimAttrs>(op->attrs).dim != 0) return nullptr;
    const bool fits = from_.type(op->operands[0]).shape[0] == routing.experts &&
                      experts::root_of_index(from_, op->operands[1]) == routing.root;
    return fits ? op : nullptr;
  }

  // x and k where v repeats each of x's rows k times: an index that counts 0, 0, 1, 1, .. or reshape(expand(x)).
  std::optional<std::pair<ValueId, int64_t>> before_repetition(ValueId v, int64_t rows) const {
    const Op* op = producer_of_elements(v);
    if (op == nullptr) return std::nullopt;
    if (op->kind == OpKind::kIndexSelect && std::get<ir::DimAttrs>(op->attrs).dim == 0) {
      const int64_t repeat = repetition(op->operands[1], from_.type(op->operands[0]).shape[0]);
      if (repeat == 0 || from_.type(op->operands[1]).elements() != rows) return std::nullopt;
      return std::make_pair(op->operands[0], repeat);
    }
    if (op->kind != OpKind::kExpand) return std::nullopt;
    const Shape &x = from_.type(op->operands[0]).shape, &y = from_.type(op->results[0]).shape;
    if (x.size() != y.size()) return std::nullopt;
    int64_t reached = 1;
    for (size_t axis = 0; axis < y.size(); ++axis) {
      reached *= y[axis];
      if (x[axis] == y[axis]) continue;
      const Shape rest(y.begin() + static_cast<std::ptrdiff_t>(axis) + 1, y.end());
      const Shape rest_of_x(x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end());
      if (reached != rows || rest != rest_of_x) return std::nullopt;
      return std::make_pair(op->operands[0], y[axis]);
    }
    return std::nullopt;
  }
  Shape merged(ValueId x, int64_t rows) const { return {rows, rows == 0 ? 0 : from_.type(x).elements() / rows}; }

  const ir::Graph& from_;
  ir::Graph* to_ = nullptr;
  ir::CopyGraph* copy_ = nullptr;
  std::vector<Routing> routings_;
  std::map<uint32_t, Product> products_;  // by op
};

}  // namespace

ir::Graph recognise_experts(ir::Graph graph) {
  graph = experts::recognise_sorted(std::move(graph));
  ExpertRecogniser recogniser(graph);
  return recogniser.find() ? recogniser.run() : std::move(graph);
}

}  // namespace piper::frontend
