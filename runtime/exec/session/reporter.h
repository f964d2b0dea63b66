// What the reporting rank says about the steps of a run: the log, event files and the progress line.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "runtime/exec/session/session.h"
#include "runtime/exec/step_inputs.h"
#include "runtime/exec/step_results.h"
#include "runtime/trace/event_file.h"
#include "runtime/trace/loss_spikes.h"
#include "runtime/trace/progress.h"
#include "runtime/trace/step_log.h"

namespace piper::exec {

class Reporter {
 public:
  // For a run that begins, or that goes on after a checkpoint. `session` and `rank` outlive it. R0601.
  static Result<std::unique_ptr<Reporter>> open(const Session& session, const LoadedRank& rank);

  // Reads the results of a step, and waits for it. `data_step`: whose samples they were; `seconds`: it took; `inputs`:
  // what was written for it. R0801 where the run ends with a loss that is no number.
  Status step(int64_t step, int64_t data_step, double seconds, const StepInputs& inputs);
  // At the start of a run that saves checkpoints: bytes of one, and of this rank's copy.
  void tell_checkpoints(int64_t bytes, int64_t copy_bytes);
  // The loss that an evaluation after a step found.
  void evaluation(int64_t step, double loss);
  // The last line; `peak_memory` in bytes by rank. Afterwards: what became of the log and the event file, R0601.
  Status finish(std::vector<int64_t> peak_memory);
  // For the last step; not a number before there was one. Steps that an overflow left without an update.
  float loss() const { return loss_; }
  int64_t skipped() const { return skipped_; }
  // Model FLOPs utilization of the last step; 0: not known.
  double mfu() const { return mfu_; }

 private:
  using Clock = std::chrono::steady_clock;
  Reporter(const Session& session, StepResults results);
  void log(const std::string& line);
  void draw(const trace::StepRecord& record);
  void draw_memory(const std::vector<int64_t>& peaks);  // bytes by rank
  void draw(int64_t step, const std::vector<trace::Scalar>& scalars);

  const Session& session_;
  StepResults results_;
  trace::StepLog log_;
  trace::EventFile events_;
  // A file that cannot be written ends the log, or the event file, not the training.
  Status log_failure_, event_failure_;
  trace::Progress progress_;
  std::vector<double> times_;  // ms
  int64_t skipped_ = 0;        // steps
  trace::LossSpikes spikes_;
  float loss_ = std::numeric_limits<float>::quiet_NaN();
  double mfu_ = 0;
  int64_t step_ = 0;  // the last one; 0: there was none
  Clock::time_point start_;
};

}  // namespace piper::exec
