// Constant folding over a bound graph: evaluates every op whose operands are all constants (int64, bool, float32),
// removes what nothing reads, and replaces masks of attention: the lower triangle by is_causal, a mask that is always
// true by none, any other that is a predicate of the places by `attends` (fold/attention_mask.h). The evaluator is
// shared by both import routes, which fold shape plumbing while they build.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "schemas/forms/form.h"
#include "compiler/ir/graph.h"

namespace piper::frontend {

// A constant: its bytes; or a form (schemas/forms/form.h) and how its bytes are made; or how they are made alone: a
// table, as those of rotary embeddings. Copies are cheap and share all of it.
class ConstantTensor {
 public:
  struct Recipe;  // an operator on constants

  ConstantTensor() = default;
  ConstantTensor(ir::TensorType type_given, ir::ConstantData data)
      : type(std::move(type_given)), data_(std::move(data)) {}
  ConstantTensor(ir::TensorType type_given, Form form, std::shared_ptr<const Recipe> recipe)
      : type(std::move(type_given)), form_(std::move(form)), recipe_(std::move(recipe)) {}

  // Makes the bytes where there are none yet: as many as the type says, so that has_bytes() or the type is asked first.
  const ir::ConstantData& data() const;
  bool has_bytes() const;
  // Whether its bytes are there, or few enough to be made.
  bool is_of_bytes() const;
  // Whether it may be a constant of the plan: the model's own, or no large mask that operators make.
  bool is_stored() const;
  const Form& form() const { return form_; }  // null: bytes alone, or a table
  // Whether it is a large tensor of floats that an operator makes of small constants. Its bytes are made where somebody
  // reads them; the plan has none of them, the run computes the table.
  bool is_table() const;
  // Whether it is a large tensor of integers that are counted, or made of such: the run counts them, the plan has none.
  bool is_counted() const;

  ir::TensorType type;

 private:
  friend std::optional<ConstantTensor> repeated_part(const ConstantTensor& tensor);
  friend bool same_elements(const ConstantTensor& a, const ConstantTensor& b);
  friend std::optional<std::vector<ConstantTensor>> evaluate(ir::OpKind kind, const ir::Attrs& attrs,
                                                             const std::vector<ConstantTensor>& operands);
  static bool makes_table(ir::OpKind kind, const ir::Attrs& attrs, const std::vector<ConstantTensor>& operands,
                          const ir::TensorType& result);
  bool may_have_samples() const;
  // Tables that the same operators make of the same constants.
  static bool are_made_alike(const ConstantTensor& a, const ConstantTensor& b);
  // The first element along each of these axes.
  static std::optional<ConstantTensor> first_of(const ConstantTensor& tensor, const std::vector<size_t>& axes);

  ir::ConstantData data_;
  Form form_;
  std::shared_ptr<const Recipe> recipe_;
};
// What a tensor of a form repeats: the same with an extent of 1 on each axis that the form does not depend on; nullopt
// where there is none of those, or few elements are repeated, so that what a caller does with it does not hang on how
// often. Its bytes are made without those of the tensor.
std::optional<ConstantTensor> repeated_part(const ConstantTensor& tensor);
// Whether both have the same type and elements, to the bit. Two of a form each are compared by it: the same form is the
// same elements, and what has another is written out where it is not too large.
bool same_elements(const ConstantTensor& a, const ConstantTensor& b);
// The results of an op on constants; nullopt where the evaluator does not know the op or dtype. A large result that has
// a form is not written out.
std::optional<std::vector<ConstantTensor>> evaluate(ir::OpKind kind, const ir::Attrs& attrs,
                                                    const std::vector<ConstantTensor>& operands);
// A constant value of the graph, where its bytes are in memory (a WeightSource with `data`) or are counted (`range`).
std::optional<ConstantTensor> constant_of(const ir::Graph& graph, ir::ValueId value);

// Folds, recognises masks, removes dead ops (nothing that leads to an output, an effect or a kept
// value). Keeps op order. Values keep their names.
ir::Graph fold(const ir::Graph& graph);

}  // namespace piper::frontend
