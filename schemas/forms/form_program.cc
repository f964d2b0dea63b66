#include "schemas/forms/form_program.h"

#include <algorithm>

namespace piper::form {
namespace {

using Kind = FormNode::Kind;

class Writer {
 public:
  void write(const Form& x) {
    switch (x->kind) {
      case Kind::kSum:
        push({StepKind::kNumber, x->number});
        for (const FormNode::Term& term : x->terms) {
          write(term.form);
          pop({StepKind::kAddTimes, term.factor}, 1);
        }
        return;
      case Kind::kAxis: push({StepKind::kAxis, x->number}); return;
      case Kind::kAll:
        write(x->operands[0]);
        for (size_t i = 1; i < x->operands.size(); ++i) {
          write(x->operands[i]);
          pop({StepKind::kAnd, 0}, 1);
        }
        return;
      case Kind::kSelect:
        for (const Form& operand : x->operands) write(operand);
        pop({StepKind::kSelect, 0}, 2);
        return;
      case Kind::kRead: of_top(x, {StepKind::kRead, x->number}); return;
      case Kind::kQuotient: of_top(x, {StepKind::kQuotient, x->number}); return;
      case Kind::kNotNegative: of_top(x, {StepKind::kNotNegative, 0}); return;
      case Kind::kIsZero: of_top(x, {StepKind::kIsZero, 0}); return;
      case Kind::kNot: of_top(x, {StepKind::kNot, 0}); return;
      case Kind::kReal: deepest_ = kMostDepth + 1; return;
    }
  }
  std::optional<std::vector<Step>> done() {
    if (deepest_ > kMostDepth || steps_.size() > kMostSteps) return std::nullopt;
    return std::move(steps_);
  }

 private:
  void push(Step step) {
    steps_.push_back(step);
    deepest_ = std::max(deepest_, ++depth_);
  }
  void pop(Step step, size_t numbers) {
    steps_.push_back(step);
    depth_ -= numbers;
  }
  void of_top(const Form& x, Step step) {
    write(x->operands[0]);
    steps_.push_back(step);
  }

  std::vector<Step> steps_;
  size_t depth_ = 0, deepest_ = 0;
};

}  // namespace

std::optional<std::vector<Step>> program_of(const Form& x) {
  Writer writer;
  writer.write(x);
  return writer.done();
}

}  // namespace piper::form
