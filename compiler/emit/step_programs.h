// Small programs of the step's own work, which no model operator makes: taking the loss, adding up a
// tied parameter's gradients, gradient norms and clipping, local copies. Pure functions; shared by all ranks that need
// the same one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "schemas/plan/plan.h"

namespace piper::emit {

// Takes a scalar that forwards have added up. slots: the sum (read, cleared), the scalar (written).
plan::Program finish_program(const std::string& what, DType dtype);
// slots: one per use of the parameter, in use order. The sum of all uses, in that order, ends in slot `target`;
// the other `local` slots are cleared for the next step, the rest are only read.
plan::Program combine_program(const std::string& parameter, int64_t elements, DType dtype,
                              const std::vector<bool>& local, size_t target);
// slots: norms [num_parameters] (written whole), then one gradient per entry of `owned`: its squared norm is added to
// its parameter's place, all others are 0.
struct OwnedGradient {
  uint32_t parameter = 0;
  std::string name;
  int64_t elements = 0;
  DType dtype = DType::kF32;
};
plan::Program norm_part_program(const std::string& name, int64_t num_parameters,
                                const std::vector<OwnedGradient>& owned);
// slots: overflow (written), then one gradient per entry of `owned`: how many of them have an element that is not
// finite.
plan::Program check_program(const std::string& name, const std::vector<OwnedGradient>& owned);
// slots: norms (read), grad_norm (written), grad_scale (written), and loss_scale where gradients are scaled (read).
plan::Program clip_program(int64_t num_parameters, bool scaled);
// slots: loss_scale (read), grad_scale (written): 1 / loss scale.
plan::Program unscale_program();
// slots: sum (read, written), part (read): sum += part.
plan::Program add_program(int64_t bytes, DType dtype);
// slots: gradients that become 0.
plan::Program clear_program(int64_t bytes, DType dtype);
// Adds one to the optimizer's step. slots: the step (read, written).
plan::Program advance_program();
// The same, but leaves the step as it is after an overflow, and then adjusts the loss scale. slots: optimizer_step,
// loss_scale, good_steps (read, written), overflow (read).
plan::Program advance_program(const ir::Precision& precision);
// What an update is about.
struct UpdateShape {
  std::string optimizer;       // the kernel
  std::vector<int64_t> shape;  // of what it updates: [elements], or of one matrix
  DType dtype = DType::kF32;
  std::optional<DType> working;  // of the copy that it writes
  int32_t num_moments = 0;
  bool scales = false;  // gradients have a factor
  bool skips = false;   // an overflow leaves everything but the gradient as it is
};
// One call of the optimizer's kernel. slots: parameter, gradient, moments (all read, written), learning_rate,
// optimizer_step, grad_scale and overflow where the shape says so (read), working copy (written).
plan::Program update_program(const UpdateShape& shape);
// slots: from (read), to (written); plain bytes. `cut`: of shares over it; -1: of what is the same everywhere.
plan::Program copy_program(int64_t bytes, int32_t cut = -1);

}  // namespace piper::emit
