// Small programs of the step's own work, which no model operator makes: taking the loss, adding up a
// tied parameter's gradients, gradient norms and clipping, local copies. Pure functions; shared by all ranks that need
// the same one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::emit {

// A scalar that forwards added up is taken. slots: its sum (read, cleared), itself (written).
plan::Program finish_program(const std::string& what, DType dtype);
// slots: one per use of the parameter, in use order. The sum of all uses, in that order, ends in slot `target`;
// the other `local` slots are cleared for the next step, the rest are only read.
plan::Program combine_program(const std::string& parameter, int64_t elements, const std::vector<bool>& local,
                              size_t target);
// slots: norms [num_parameters] (written whole), then one gradient per entry of `owned`: its squared norm goes to
// its parameter's place, all others are 0.
struct OwnedGradient {
  uint32_t parameter = 0;
  std::string name;
  int64_t elements = 0;
};
plan::Program norm_part_program(const std::string& name, int64_t num_parameters,
                                const std::vector<OwnedGradient>& owned);
// slots: norms (read), grad_norm (written), grad_scale (written).
plan::Program clip_program(int64_t num_parameters, double max_norm);
// slots: sum (read, written), part (read): sum += part.
plan::Program add_program(int64_t bytes);
// slots: gradients that become 0.
plan::Program clear_program(int64_t bytes);
// The number of the optimizer's step is one more. slots: it (read, written).
plan::Program advance_program();
// One call of the optimizer's kernel on `count` elements. slots: parameter, gradient, moments (all read, written),
// learning_rate, optimizer_step, and grad_scale where gradients are clipped (read).
plan::Program update_program(const std::string& optimizer, int64_t count, int32_t num_moments, bool clips);
// slots: from (read), to (written); plain bytes.
plan::Program copy_program(int64_t bytes);

}  // namespace piper::emit
