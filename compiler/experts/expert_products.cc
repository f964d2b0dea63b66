#include "compiler/experts/expert_products.h"

#include <optional>

#include "compiler/ir/shapes.h"

namespace piper::experts {
namespace {

using ir::Shape;
using ir::ValueId;
using Kind = ExpertTransfer::Kind;

constexpr int64_t kContracted = -1;

class Product {
 public:
  Product(const ExpertRules& rules, const ir::Op& op, const std::vector<const ExpertMark*>& marks)
      : rules_(rules),
        op_(op),
        marks_(marks),
        rank_(static_cast<int64_t>(rules.graph.type(op.results[0]).shape.size())) {
    transfer_.results.resize(1);
    transfer_.wishes.resize(op.operands.size());
  }

  ExpertTransfer run() {
    const bool follows = marks_[0] != nullptr && marks_[1] != nullptr ? both() : one(marks_[0] != nullptr ? 0 : 1);
    return follows ? std::move(transfer_) : ExpertTransfer();
  }

 private:
  const Shape& shape(size_t i) const { return rules_.graph.type(op_.operands[i]).shape; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(shape(i).size()); }
  // The axis of operand i that is summed over.
  int64_t contracted(size_t i) const { return rank(i) - (i == 0 ? 1 : 2); }
  // The axis of operand i that the other one does not have.
  int64_t own(size_t i) const { return rank(i) - (i == 0 ? 2 : 1); }
  // Where an axis of operand i is in the result.
  int64_t place(size_t i, int64_t axis) const { return axis == contracted(i) ? kContracted : axis + rank_ - rank(i); }
  bool is_batch(int64_t in_result) const { return in_result >= 0 && in_result < rank_ - 2; }
  // Extent of operand i at a batch axis of the result; 1 where it has none.
  int64_t batch_extent(size_t i, int64_t in_result) const {
    const int64_t axis = in_result - (rank_ - rank(i));
    return axis < 0 ? 1 : shape(i)[static_cast<size_t>(axis)];
  }
  ExpertMark& result() { return transfer_.results[0]; }

  void set_expert(ExpertFactor factor, int64_t at) {
    transfer_.kind = at == kContracted ? Kind::kSums : Kind::kFollows;
    factor.axis = at;
    if (at != kContracted) result().expert = factor;
  }
  void set_token(TokenCut cut, int64_t at) {
    cut.axis = at;
    result().token = cut;
  }

  // Both were made by experts.
  bool both() {
    const ExpertMark &a = *marks_[0], &b = *marks_[1];
    if (!a.expert.present() || !b.expert.present()) return false;
    const int64_t at = place(0, a.expert.axis);
    if (at != place(1, b.expert.axis) || (at != kContracted && !is_batch(at))) return false;
    if (a.expert.outer != b.expert.outer || a.expert.inner != b.expert.inner) return false;
    set_expert(a.expert, at);
    for (size_t i = 0; i < 2; ++i) {
      const TokenCut& token = marks_[i]->token;
      if (!token.present()) continue;
      const int64_t in_result = place(i, token.axis);
      if (in_result == kContracted) return false;
      const TokenCut& other = marks_[1 - i]->token;
      if (other.present()) {
        if (place(1 - i, other.axis) != in_result || other.outer != token.outer || other.rest != token.rest)
          return false;
      } else if (is_batch(in_result) && batch_extent(1 - i, in_result) != 1) {
        return false;
      }
      set_token(token, in_result);
    }
    return at != kContracted || result().token.present();
  }

  // Operand i was made by experts, the other was not.
  bool one(size_t i) {
    const size_t other = 1 - i;
    const ExpertMark& mark = *marks_[i];
    const bool same = rules_.same_for_all[op_.operands[other].index];
    if (!mark.expert.present()) {  // rows of all experts, times a matrix that all share
      if (i != 0 || !same || mark.token.axis != own(0)) return false;
      transfer_.kind = Kind::kFollows;
      set_token(mark.token, place(0, mark.token.axis));
      return true;
    }
    const int64_t at = place(i, mark.expert.axis);
    set_expert(mark.expert, at);
    OperandWish wish{{}, shape(other)};
    if (at == kContracted) {
      wish.mark.expert = {contracted(other), mark.expert.outer, mark.expert.inner};
    } else if (is_batch(at) && batch_extent(other, at) != 1) {
      wish.mark.expert = {at - (rank_ - rank(other)), mark.expert.outer, mark.expert.inner};
    }
    if (mark.token.present()) return with_tokens(i, wish, same);
    if (same) return !wish.mark.expert.present();
    // Weights meet an activation: its rows are the tokens.
    int64_t axis = own(other);
    if (shape(other)[static_cast<size_t>(axis)] == 1)
      for (int64_t d = 0; d < rank(other) - 2; ++d)
        if (d != wish.mark.expert.axis && shape(other)[static_cast<size_t>(d)] > 1 &&
            batch_extent(i, place(other, d)) == 1)
          axis = d;
    wish.mark.token = {axis, 1, shape(other)[static_cast<size_t>(axis)]};
    set_token(wish.mark.token, place(other, axis));
    transfer_.wishes[other] = std::move(wish);
    return true;
  }

  bool with_tokens(size_t i, OperandWish wish, bool same) {
    const size_t other = 1 - i;
    const TokenCut& token = marks_[i]->token;
    const int64_t in_result = place(i, token.axis);
    if (in_result == kContracted) return false;
    set_token(token, in_result);
    if (!is_batch(in_result)) return same && !wish.mark.expert.present();
    if (batch_extent(other, in_result) == 1) {
      if (same && !wish.mark.expert.present()) return true;
      const int64_t missing = rank_ - rank(other);
      wish.shape.insert(wish.shape.begin(), static_cast<size_t>(missing), 1);
      if (wish.mark.expert.present()) wish.mark.expert.axis += missing;
      wish.shape[static_cast<size_t>(in_result)] =
          rules_.graph.type(op_.results[0]).shape[static_cast<size_t>(in_result)];
      wish.mark.token = {in_result, token.outer, token.rest};
    } else {
      wish.mark.token = {in_result - (rank_ - rank(other)), token.outer, token.rest};
    }
    transfer_.wishes[other] = std::move(wish);
    return true;
  }

  const ExpertRules& rules_;
  const ir::Op& op_;
  const std::vector<const ExpertMark*>& marks_;
  int64_t rank_;
  ExpertTransfer transfer_;
};

class Linear {
 public:
  Linear(const ExpertRules& rules, const ir::Op& op, const std::vector<const ExpertMark*>& marks)
      : rules_(rules), op_(op), marks_(marks), last_(static_cast<int64_t>(shape(0).size()) - 1) {}

  ExpertTransfer run() {
    const bool biased = op_.operands.size() > 2 && op_.operands[2].valid();
    const ExpertMark* bias = biased ? marks_[2] : nullptr;
    ExpertTransfer t;
    t.results.resize(1);
    t.wishes.resize(op_.operands.size());
    ExpertMark& y = t.results[0];
    if (marks_[1] == nullptr) {  // experts' tokens through a layer that all experts share
      const bool shared = rules_.same_for_all[op_.operands[1].index] && bias == nullptr &&
                          (!biased || rules_.same_for_all[op_.operands[2].index]);
      if (marks_[0] == nullptr || !shared || marks_[0]->expert.axis == last_ || marks_[0]->token.axis == last_)
        return {};
      t.kind = Kind::kFollows;
      y = *marks_[0];
      return t;
    }
    const ExpertMark& w = *marks_[1];
    if (w.token.present()) return {};
    const bool sums = w.expert.axis == 1;
    if (sums && biased) return {};
    if (!sums && biased && (bias == nullptr || bias->token.present() || bias->expert != w.expert)) return {};
    t.kind = sums ? Kind::kSums : Kind::kFollows;
    if (marks_[0] != nullptr) {
      const ExpertFactor at_last{last_, w.expert.outer, w.expert.inner};
      if (!sums || marks_[0]->expert != at_last || !marks_[0]->token.present()) return {};
      y.token = marks_[0]->token;
      return y.token.axis == last_ ? ExpertTransfer() : t;
    }
    if (last_ < 1 || rules_.same_for_all[op_.operands[0].index]) return {};
    int64_t axis = last_ - 1;
    while (axis > 0 && shape(0)[static_cast<size_t>(axis)] == 1) --axis;
    y.token = {axis, 1, shape(0)[static_cast<size_t>(axis)]};
    OperandWish wish{{{}, y.token}, shape(0)};
    if (sums) wish.mark.expert = {last_, w.expert.outer, w.expert.inner};
    else y.expert = {last_, w.expert.outer, w.expert.inner};
    t.wishes[0] = std::move(wish);
    return t;
  }

 private:
  const Shape& shape(size_t i) const { return rules_.graph.type(op_.operands[i]).shape; }
  const ExpertRules& rules_;
  const ir::Op& op_;
  const std::vector<const ExpertMark*>& marks_;
  int64_t last_;
};

}  // namespace

ExpertTransfer transfer_matmul(const ExpertRules& rules, const ir::Op& op,
                               const std::vector<const ExpertMark*>& marks) {
  return Product(rules, op, marks).run();
}

ExpertTransfer transfer_linear(const ExpertRules& rules, const ir::Op& op,
                               const std::vector<const ExpertMark*>& marks) {
  return Linear(rules, op, marks).run();
}

}  // namespace piper::experts
