// Compiles a strategy's text in memory and prices its plans: the one judge of every change that tune.h tries.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "compiler/driver/compile.h"
#include "compiler/driver/compilation.h"
#include "schemas/plan/kernel_times.h"
#include "schemas/timeline/machine.h"
#include "schemas/timeline/priced.h"
#include "schemas/timeline/profile_times.h"
#include "schemas/timeline/timeline.h"

namespace piper::tune {

// A strategy that compiles, with its simulated time and its peak memory.
struct Trial {
  std::string text;
  std::unique_ptr<driver::Compilation> compilation;
  timeline::Timeline timeline;  // priced
  double step_us = 0;
  int64_t peak_bytes = 0;    // of the rank that needs most
  int64_t limit_bytes = 0;   // a rank
  int64_t excess_bytes = 0;  // over the limit, the sum over ranks
};

class Judge {
 public:
  // `options`: the model's file, the strategy's name, overrides and what plans are made for. `limit`: bytes a rank.
  Judge(driver::CompileOptions options, std::shared_ptr<frontend::ModelFile> model, timeline::Machine machine,
        plan::KernelTimes times, int64_t limit);

  // For texts that say themselves what the overrides say.
  void leave_overrides_out() { options_.overrides.clear(); }

  // Adds measured kernel times, which go before the given ones, and takes their correction factors in place of earlier
  // ones.
  void measure(timeline::ProfiledTimes measured);

  // Fails where it does not compile; what is wrong is in `diags`.
  Result<Trial> judge(const std::string& text, diag::Diagnostics& diags);
  // The same of a text that a search made up: nothing where it does not compile.
  std::optional<Trial> judge(const std::string& text);
  // Compiles the text again, with the model's own step, and proves the plans; a refutation is a bug and throws. Returns
  // whether time and memory are those of the trial.
  Result<bool> prove(const Trial& trial);
  // The step of the trial's plans where messages take no time, in microseconds; 0: they could not be played.
  double without_links_us(const Trial& trial) const;
  // Bounds of the trial's plans, in microseconds: the work of the busiest processor alone, and that of the busiest port
  // of a link, or stream that sends one transfer after the other. A step is never shorter, whatever the order of its
  // passes.
  struct LeastTime {
    double processor_us = 0, link_us = 0;
  };
  LeastTime least_time(const Trial& trial) const;

  int64_t compiled() const { return compiled_; }
  int64_t limit() const { return limit_; }
  const timeline::Machine& machine() const { return machine_; }
  timeline::Priced prices(const plan::Bundle& bundle) const { return {bundle, machine_, 1, times_, factors_}; }

 private:
  Result<Trial> price(const std::string& text, bool reference, diag::Diagnostics& diags);

  driver::CompileOptions options_;
  std::shared_ptr<frontend::ModelFile> model_;
  timeline::Machine machine_;
  plan::KernelTimes times_;
  timeline::RooflineFactors factors_;
  int64_t limit_;
  int64_t compiled_ = 0;
};

}  // namespace piper::tune
