// What one compilation has in hand while it goes through the pipeline: the files it was given, the module that passes
// work on, and the plans at the end.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "compiler/diag/diagnostics.h"
#include "compiler/driver/expand_schedule.h"
#include "compiler/emit/emit_bundle.h"
#include "compiler/frontend/model_file.h"
#include "compiler/ir/module.h"
#include "compiler/strategy/families.h"
#include "compiler/strategy/strategy.h"
#include "schemas/base/ahead.h"

namespace piper::driver {

struct Digests {
  std::string model, strategy;
};

struct WholeSteps;  // make_reference

struct Compilation {
  strategy::Strategy strategy;
  std::optional<strategy::ScheduleTable> table;  // of `schedule: {csv: ...}`
  // Null where a module is read from a text that names none; shared with the compilation of the reference.
  std::shared_ptr<frontend::ModelFile> model;
  bool reference = true;     // the bundle gets one
  std::string no_reference;  // why it got none
  double sample_flops = 0;   // of the model, a sample (analysis/model_flops.h); 0: not known, bind_model did not run
  Ahead<Digests> digests;    // made beside the passes, for emit_plans
  // Likewise, of what the reference is made; none: make_reference makes it itself.
  Ahead<std::shared_ptr<const WholeSteps>> whole_steps;
  ExpandedSchedule schedule;  // the directives that the schedule was turned into; --expand prints them
  plan::Target target;
  bool packs = true;  // CompileOptions
  ir::Module module;
  std::optional<ir::Module> evaluation;  // where the strategy has `eval`; after derive_evaluation
  emit::Emitted emitted;

  // Nothing is made beside the passes any more.
  void settle() {
    digests.abandon();
    whole_steps.abandon();
  }
};

}  // namespace piper::driver
