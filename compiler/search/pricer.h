// What strategies cost: a text is compiled in memory, and its plans are priced for a machine. The one judge of a
// search, of points and of probes alike.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/driver/compilation.h"
#include "compiler/driver/compile.h"
#include "schemas/plan/kernel_times.h"
#include "schemas/timeline/machine.h"
#include "schemas/timeline/timeline.h"

namespace piper::search {

struct Compiled {
  std::unique_ptr<driver::Compilation> compilation;  // null where it does not compile
  std::string why_not;                               // then: the first error, a line
  const plan::Bundle& bundle() const { return compilation->emitted.bundle; }
};

// Plans with one rank for each kind of rank, where that gives the same times: ranks of a kind do the same at the same
// time, each with links and a device of its own, and lie alike on nodes.
struct PlayedStep {
  plan::Bundle kinds;              // its ranks have their own numbers, peers and members
  std::vector<int64_t> num_ranks;  // [loaded rank] that it stands for
  timeline::Timeline timeline;
};

struct Cost {
  double step_us = 0;
  int64_t peak_bytes = 0;             // of the rank that needs most
  std::vector<int64_t> peak_of_kind;  // by kind of rank, in their order
  double idle = 0, exposed = 0;       // means over ranks, parts of a step
  double tokens_per_s = 0, mfu = 0;   // 0: not known
  int64_t instructions = 0;           // of all ranks: what compiling and playing it takes
};

class Pricer {
 public:
  // `options`: the model's file, the strategy's name, overrides and what plans are made for.
  Pricer(driver::CompileOptions options, std::shared_ptr<frontend::ModelFile> model, timeline::Machine machine,
         plan::KernelTimes times = {});

  // `batch` > 0: in place of the text's. `diags`: errors go there too, with their places.
  Compiled compile(const std::string& text, int64_t batch = 0, diag::Diagnostics* diags = nullptr);
  // Takes the plans. On a machine with links and devices like those of this one.
  Result<PlayedStep> play(Compiled compiled, const timeline::Machine& machine) const;
  // Why it does not compile is the message of the failure.
  Result<Cost> price(const std::string& text);

  int64_t compiled() const { return compiled_; }
  const timeline::Machine& machine() const { return machine_; }
  const plan::KernelTimes& times() const { return times_; }
  const driver::CompileOptions& options() const { return options_; }

 private:
  driver::CompileOptions options_;
  std::shared_ptr<frontend::ModelFile> model_;
  timeline::Machine machine_;
  plan::KernelTimes times_;
  int64_t compiled_ = 0;
};

}  // namespace piper::search
