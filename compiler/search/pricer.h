// What strategies cost: a text is compiled in memory, and its plans are priced for a machine. The one judge of a
// search, of points and of probes alike. Several threads may ask it at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/driver/compilation.h"
#include "compiler/driver/compile.h"
#include "compiler/search/made_ahead.h"
#include "schemas/plan/kernel_times.h"
#include "schemas/timeline/kinds.h"
#include "schemas/timeline/machine.h"
#include "schemas/timeline/priced.h"
#include "schemas/timeline/timeline.h"

namespace piper::search {

struct Compiled {
  std::unique_ptr<driver::Compilation> compilation;  // null where it does not compile
  std::string why_not;                               // then: the first error, a line
  const plan::Bundle& bundle() const { return compilation->emitted.bundle; }
};

struct PlayedStep {
  std::unique_ptr<const timeline::Kinds> kinds;
  std::unique_ptr<const timeline::Priced> prices;
  timeline::Timeline timeline;  // of kinds->bundle
};

struct Cost {
  double step_us = 0;
  int64_t peak_bytes = 0;             // of the rank that needs most
  std::vector<int64_t> peak_of_kind;  // by kind of rank, in their order
  double waiting = 0, exposed = 0;    // means over ranks, parts of a step
  double tokens_per_s = 0, mfu = 0;   // 0: not known
  int64_t instructions = 0;           // of all ranks: what compiling and playing it takes
};

class Pricer {
 public:
  // `options`: the model's file, the strategy's name and what plans are made for; no overrides, since texts say it all.
  Pricer(driver::CompileOptions options, std::shared_ptr<frontend::ModelFile> model, timeline::Machine machine,
         plan::KernelTimes times = {});

  Compiled compile(const std::string& text) const;
  // The same of `batch` samples, in place of the text's. Nothing is packed: no plan of the same work needs less memory,
  // or waits less. `diags`: errors go there too, with their places. `overrides`: of the text, as --set has them.
  Compiled probe(const std::string& text, int64_t batch, diag::Diagnostics* diags = nullptr,
                 const std::vector<std::string>& overrides = {}) const;
  // Takes the plans. `far_ahead`: the host of every rank has issued everything when the step begins; what it takes
  // within a run counts.
  Result<PlayedStep> play(Compiled compiled, bool far_ahead = false) const;
  // Why it does not compile is the message of the failure.
  Result<Cost> price(const std::string& text) const;
  // Compiles it with the model's own step and proves the plans, as piperc does with a file. A refutation throws.
  Status prove(const std::string& text, diag::Diagnostics& diags) const;

  MadeAhead& ahead() { return ahead_; }
  const timeline::Machine& machine() const { return machine_; }
  const plan::KernelTimes& times() const { return times_; }
  const driver::CompileOptions& options() const { return options_; }

 private:
  Compiled made(const driver::CompileOptions& options, const std::string& text, diag::Diagnostics* diags) const;

  driver::CompileOptions options_;
  std::shared_ptr<frontend::ModelFile> model_;
  timeline::Machine machine_;
  plan::KernelTimes times_;
  MadeAhead ahead_;
};

}  // namespace piper::search
