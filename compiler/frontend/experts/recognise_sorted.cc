#include "compiler/frontend/experts/recognise_sorted.h"

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "compiler/frontend/experts/find_products.h"
#include "compiler/frontend/fold.h"
#include "compiler/ir/copy_graph.h"
#include "schemas/base/check.h"

namespace piper::frontend::experts {
namespace {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

// topk over all of -ids: the exporter's form of an ascending sort.
struct Sort {
  ValueId ids, values, order;     // of the graph as given; values = -sorted ids
  int64_t rows = 0, experts = 0;  // experts 0: no product by its groups
  ValueId new_order, position, counts;
};

class SortedExpertRecogniser {
 public:
  explicit SortedExpertRecogniser(const ir::Graph& from) : from_(from) {}

  bool find() {
    bool any = false;
    for (size_t i = 0; i < from_.num_ops(); ++i) {
      const Op& op = from_.op(OpId(static_cast<uint32_t>(i)));
      if (op.kind == OpKind::kTopk) add_sort(op);
      if (op.kind != OpKind::kGroupedMatmul) continue;
      if (Sort* sort = counted(op.operands[2])) {
        sort->experts = from_.type(op.operands[2]).shape[1];
        any = true;
      }
    }
    return any;
  }

  ir::Graph run() {
    ir::Graph to;
    ir::CopyGraph copy(from_, to);
    to_ = &to;
    copy_ = &copy;
    for (size_t i = 0; i < from_.num_ops(); ++i) {
      const OpId id(static_cast<uint32_t>(i));
      const Op& op = from_.op(id);
      if (put_sort(op) || put_inverse(op) || put_rows(op) || put_product(op)) continue;
      copy.copy_op(id);
    }
    copy.finish();
    ir::drop_unread(to);
    return to;
  }

 private:
  const Op* producer(ValueId v) const {
    if (!v.valid() || from_.value(v).kind != ir::ValueKind::kOpResult) return nullptr;
    return &from_.op(from_.value(v).producer);
  }
  const Op* made_by(ValueId v, OpKind kind) const {
    const Op* op = producer(v);
    return op != nullptr && op->kind == kind ? op : nullptr;
  }
  // Below reshapes and casts.
  ValueId root(ValueId v) const {
    for (const Op* op = producer(v); op != nullptr && (op->kind == OpKind::kReshape || op->kind == OpKind::kCast);
         op = producer(v))
      v = op->operands[0];
    return v;
  }
  // The number that an i64 constant of one element is.
  std::optional<int64_t> integer(ValueId v) const {
    const std::optional<ConstantTensor> c = constant_of(from_, v);
    if (!c || c->type.dtype != DType::kI64 || c->type.elements() != 1) return std::nullopt;
    int64_t out = 0;
    std::memcpy(&out, c->data()->data(), sizeof(out));
    return out;
  }
  // Whether v is the constant 0, 1, .., count - 1. There may be as many as a step has rows.
  bool counts_up(ValueId v, int64_t count) const {
    const std::optional<ConstantTensor> c = constant_of(from_, v);
    if (!c || c->type.dtype != DType::kI64 || c->type.elements() != count) return false;
    if (c->form() != nullptr) return form::equal(c->form(), form::axis(0, count));
    const std::byte* const bytes = c->data()->data();
    for (int64_t i = 0; i < count; ++i)
      if (std::memcmp(bytes + i * static_cast<int64_t>(sizeof(i)), &i, sizeof(i)) != 0) return false;
    return true;
  }

  void add_sort(const Op& op) {
    const auto& shape = from_.type(op.operands[0]).shape;
    const Op* negative = made_by(op.operands[0], OpKind::kNeg);
    if (negative == nullptr || shape.size() != 1 || std::get<ir::TopkAttrs>(op.attrs).k != shape[0]) return;
    if (from_.type(negative->operands[0]).dtype != DType::kI64) return;
    Sort sort;
    sort.ids = negative->operands[0];
    sort.values = op.results[0];
    sort.order = op.results[1];
    sort.rows = shape[0];
    sorts_.push_back(sort);
  }

  // v holds the ids of a sort, sorted or not.
  bool is_ids(const Sort& sort, ValueId v) const {
    v = root(v);
    const Op* negative = made_by(v, OpKind::kNeg);
    return v == root(sort.ids) || (negative != nullptr && negative->operands[0] == sort.values);
  }

  // The sort whose ids `counts` counts: sum over rows of (id = 0, 1, ..).
  Sort* counted(ValueId counts) {
    const int64_t experts = from_.type(counts).shape[1];
    const Op* sum = made_by(root(counts), OpKind::kSum);
    if (sum == nullptr || std::get<ir::ReduceAttrs>(sum->attrs).dims != std::vector<int64_t>{0}) return nullptr;
    const Op* same = made_by(root(sum->operands[0]), OpKind::kEq);
    if (same == nullptr || from_.type(same->results[0]).shape.size() != 2) return nullptr;
    if (!counts_up(same->operands[1], experts)) return nullptr;
    for (Sort& sort : sorts_)
      if (is_ids(sort, same->operands[0]) && from_.type(same->operands[0]).elements() == sort.rows) return &sort;
    return nullptr;
  }

  // ---------------------------------------------------------------- building
  ir::GraphBuilder builder(const Op& op) {
    return {*to_, copy_->moved_scope(op.scope), to_->provenance().derived("recognise_experts", {op.prov})};
  }
  ValueId checked(const ir::GraphBuilder& b, ValueId v) const {
    PIPER_CHECK(b.status().ok(), "rows sorted by their experts: ", b.status().error().message);
    return v;
  }
  ValueId take(ir::GraphBuilder& b, ValueId x, ValueId index, ValueId inverse, int64_t repeat) {
    return b.add1(OpKind::kTakeRows, {x, index, inverse}, ir::TakeRowsAttrs{repeat});
  }

  bool put_sort(const Op& op) {
    for (Sort& sort : sorts_) {
      if (op.results.empty() || sort.values != op.results[0] || sort.experts == 0) continue;
      ir::GraphBuilder b = builder(op);
      const ValueId ids = copy_->moved(sort.ids);
      const std::vector<ValueId> made =
          b.add(OpKind::kExpertOrder, {ids}, ir::ExpertOrderAttrs{sort.experts, 1, sort.rows});
      PIPER_CHECK(made.size() == 4, "expert_order: ", b.status().ok() ? "" : b.status().error().message);
      sort.new_order = made[0];
      sort.position = made[1];
      sort.counts = made[2];
      copy_->place(sort.order, made[0]);
      copy_->place(sort.values, checked(b, b.add1(OpKind::kNeg, {take(b, ids, made[0], made[1], 1)})));
      return true;
    }
    return false;
  }

  // inverse[order] = 0, 1, ..
  bool put_inverse(const Op& op) {
    if (op.kind != OpKind::kScatter) return false;
    for (const Sort& sort : sorts_) {
      if (!sort.position.valid() || op.operands[1] != sort.order ||
          from_.type(op.results[0]).shape != std::vector<int64_t>{sort.rows})
        continue;
      if (!counts_up(op.operands[2], sort.rows)) continue;
      inverse_of_[op.results[0].index] = &sort;
      copy_->place(op.results[0], sort.position);
      return true;
    }
    return false;
  }

  // x[order], x[order div k], x[inverse], and tables read by the sorted ids.
  bool put_rows(const Op& op) {
    if (op.kind != OpKind::kIndexSelect || std::get<ir::DimAttrs>(op.attrs).dim != 0) return false;
    const ValueId x = op.operands[0], index = root_of_index(from_, op.operands[1]);
    const int64_t extent = from_.type(x).shape[0];
    ir::GraphBuilder b = builder(op);
    ValueId y;
    if (const auto found = inverse_of_.find(index.index); found != inverse_of_.end() && extent == found->second->rows) {
      y = take(b, copy_->moved(x), found->second->position, found->second->new_order, 1);
    } else {
      const Op* divided = made_by(index, OpKind::kDiv);
      const std::optional<int64_t> divisor = divided != nullptr ? integer(divided->operands[1]) : std::nullopt;
      for (const Sort& sort : sorts_) {
        if (!sort.position.valid() || y.valid()) continue;
        if (index == sort.order && extent == sort.rows) y = take(b, copy_->moved(x), sort.new_order, sort.position, 1);
        if (divisor && divided->operands[0] == sort.order && extent * *divisor == sort.rows)
          y = take(b, copy_->moved(x), sort.new_order, sort.position, *divisor);
        const Op* negative = made_by(index, OpKind::kNeg);
        if (negative != nullptr && negative->operands[0] == sort.values && extent == sort.experts)
          y = b.add1(OpKind::kGroupedExpand, {copy_->moved(x), sort.counts}, ir::RowsAttrs{sort.rows});
      }
    }
    if (!y.valid()) return false;
    copy_->place(op.results[0], checked(b, y));
    return true;
  }

  bool put_product(const Op& op) {
    if (op.kind != OpKind::kGroupedMatmul) return false;
    const Sort* sort = counted(op.operands[2]);
    if (sort == nullptr || !sort->counts.valid() || sort->experts != from_.type(op.operands[2]).shape[1]) return false;
    ir::GraphBuilder b = builder(op);
    copy_->place(op.results[0],
                 checked(b, b.add1(op.kind, {copy_->moved(op.operands[0]), copy_->moved(op.operands[1]), sort->counts},
                                   op.attrs)));
    return true;
  }

  const ir::Graph& from_;
  ir::Graph* to_ = nullptr;
  ir::CopyGraph* copy_ = nullptr;
  std::vector<Sort> sorts_;
  std::map<uint32_t, const Sort*> inverse_of_;  // by value of the given graph
};

}  // namespace

ir::Graph recognise_sorted(ir::Graph graph) {
  SortedExpertRecogniser recogniser(graph);
  return recogniser.find() ? recogniser.run() : std::move(graph);
}

}  // namespace piper::frontend::experts
