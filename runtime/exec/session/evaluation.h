// Evaluations of a run: after every so many steps, and after the last, forwards over the same first batches of data
// of their own, by the second program of a bundle. They change nothing that training reads. The mean is over all terms
// of all batches. All ranks take part; the reporting rank knows the result.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/exec/executor.h"
#include "runtime/exec/session/session.h"
#include "runtime/exec/session/step_hook.h"
#include "runtime/exec/step_inputs.h"

namespace piper::exec {

// What a batch gave, or all of them: a sum for each of RankPlan::means, and what it is divided by.
class MeanLoss {
 public:
  explicit MeanLoss(size_t means) : terms_(means) {}
  // `count`: of a mean that counts; a batch counts as one for the others.
  void add(size_t mean, float sum, std::optional<float> count);
  // Not a number where nothing was counted.
  double value() const;

 private:
  struct Term {
    double sum = 0, count = 0;
  };
  std::vector<Term> terms_;
};

class Evaluation : public StepHook {
 public:
  // For a rank that was loaded with its evaluation, and a session with data for it; all outlive this. R0404.
  static Result<std::unique_ptr<Evaluation>> make(Session& session, LoadedRank& rank, hal::ControlChannel& control,
                                                  const plan::RankPlan& training, RunReports& reports,
                                                  const trace::RingWriter* ring);

  // Where one is due. Collective.
  Status after(int64_t step) override;
  Status without_steps(int64_t last) override { return after(last); }

 private:
  // Numbers of one mean on their way to the host; no count where batches are counted.
  struct Downloads {
    std::unique_ptr<hal::Download> sum, count;
  };
  Evaluation(Session& session, LoadedRank& rank, hal::ControlChannel& control, const plan::RankPlan& training,
             RunReports& reports, StepInputs inputs, const trace::RingWriter* ring);
  // After a step, or the last one.
  bool due(int64_t step) const;
  // The loss on the reporting rank, nothing elsewhere.
  Result<std::optional<double>> run(int64_t step);
  // Writes the weights to --save-best where the loss is the smallest so far; `loss` is the reporting rank's.
  Status keep_best(int64_t step, std::optional<double> loss);
  Status add_batch(MeanLoss& loss);

  Session& session_;
  LoadedRank& rank_;  // of the training
  hal::ControlChannel& control_;
  const plan::RankPlan& training_;
  RunReports& reports_;
  hal::WaitControl wait_;
  StepInputs inputs_;
  Executor executor_;
  std::vector<Downloads> means_;                           // empty but on the reporting rank
  double best_ = std::numeric_limits<double>::infinity();  // on rank 0, which knows the file of --save-best
};

}  // namespace piper::exec
