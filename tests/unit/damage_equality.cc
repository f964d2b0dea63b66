// Damages to what programs compute that rule 12 of the proof must find: all bytes are right, the numbers are not.
#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "schemas/verify/numbers/equality.h"
#include "tests/unit/plan_damages.h"

namespace piper::damages {
namespace {

using namespace plan;

// Whether rule 12 covers all of the plan; of pieces of one sample it refutes nothing.
bool is_covered(const Bundle& b) {
  const auto report = verify::check_equality(b);
  return report.ok() && report->whole() &&
         std::none_of(b.programs.begin(), b.programs.end(),
                      [](const Program& program) { return program.of && program.of->samples == 1; });
}

// Whether `change` did something to the calls of a kernel in backwards.
template <class Change>
bool in_backwards(Bundle& b, const std::string& kernel, Change change) {
  if (!is_covered(b)) return false;
  for (Program& program : b.programs) {
    if (!program.of || program.of->pass == Pass::kForward) continue;
    for (KernelCall& call : program.calls)
      if (call.kernel == kernel && change(call)) return true;
  }
  return false;
}

bool labels_that_count_ignored_in_the_backward(Bundle& b) {
  return in_backwards(b, "cross_entropy_backward", [](KernelCall& call) {
    for (Attr& attr : call.attrs)
      if (attr.name == "ignore_index") attr.value = int64_t{3};
    return true;
  });
}
bool square_weight_read_transposed_in_the_backward(Bundle& b) {
  return in_backwards(b, "linear_backward_input", [](KernelCall& call) {
    Operand& weight = call.inputs[1];
    if (weight.shape[0] != weight.shape[1]) return false;
    std::swap(weight.strides[0], weight.strides[1]);
    return true;
  });
}
bool operands_of_a_product_exchanged(Bundle& b) {
  return in_backwards(b, "linear_backward_weight", [](KernelCall& call) {
    if (call.inputs[0].shape != call.inputs[1].shape) return false;
    std::swap(call.inputs[0], call.inputs[1]);
    return true;
  });
}
bool derivative_of_another_function(Bundle& b) {
  return in_backwards(b, "gelu_backward", [](KernelCall& call) {
    for (Attr& attr : call.attrs)
      if (attr.name == "approximate")
        attr.value = std::string(attr.value == AttrValue(std::string("tanh")) ? "none" : "tanh");
    return true;
  });
}

// What reads the samples of a piece together is held to the model too.
bool changed_in_a_norm_over_the_batch(Bundle& b, std::string_view attribute) {
  if (!is_covered(b)) return false;
  for (Program& program : b.programs)
    for (KernelCall& call : program.calls)
      for (Attr& attr : call.attrs)
        if (call.kernel == "batch_norm" && attr.name == attribute && std::holds_alternative<double>(attr.value)) {
          attr.value = std::get<double>(attr.value) * 2;
          return true;
        }
  return false;
}
bool statistics_of_another_momentum(Bundle& b) { return changed_in_a_norm_over_the_batch(b, "momentum"); }
bool norm_over_the_batch_by_another_epsilon(Bundle& b) { return changed_in_a_norm_over_the_batch(b, "eps"); }

// Tokens as labels, labels as tokens: each is predicted from what it is.
bool feeds_exchanged(Bundle& b) {
  if (!is_covered(b)) return false;
  std::vector<InputDecl>& inputs = b.manifest.inputs;
  for (InputDecl& one : inputs)
    for (InputDecl& other : inputs)
      if (one.feed == Feed::kTokens && other.feed == Feed::kNextTokens) {
        std::swap(one.feed, other.feed);
        return true;
      }
  return false;
}
bool labels_are_the_tokens(Bundle& b) {
  if (!is_covered(b)) return false;
  for (InputDecl& input : b.manifest.inputs)
    if (input.feed == Feed::kNextTokens) {
      input.feed = Feed::kTokens;
      return true;
    }
  return false;
}

}  // namespace

std::vector<Damage> of_equality() {
  return {
      PIPER_DAMAGE(feeds_exchanged, "P0641"),
      PIPER_DAMAGE(labels_are_the_tokens, "P0641"),
      PIPER_DAMAGE(labels_that_count_ignored_in_the_backward, "P0641"),
      PIPER_DAMAGE(square_weight_read_transposed_in_the_backward, "P0641"),
      PIPER_DAMAGE(statistics_of_another_momentum, "P0641"),
      PIPER_DAMAGE(norm_over_the_batch_by_another_epsilon, "P0641"),
      PIPER_DAMAGE(operands_of_a_product_exchanged, "P0641"),
      PIPER_DAMAGE(derivative_of_another_function, "P0641"),
  };
}

}  // namespace piper::damages
