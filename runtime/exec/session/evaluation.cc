#include "runtime/exec/session/evaluation.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/exec/session/best_file.h"
#include "runtime/exec/session/save_weights.h"

namespace piper::exec {

namespace {

Result<std::unique_ptr<hal::Download>> download(const LoadedRank& rank, const plan::BufferRange& range) {
  if (range.buffer < 0) return std::unique_ptr<hal::Download>();
  return rank.device().make_download(rank.at(range), sizeof(float));
}

Result<float> read(hal::Download& download) {
  PIPER_RETURN_IF_ERROR(download.begin());
  PIPER_ASSIGN(const std::byte* bytes, download.wait());
  float value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

void MeanLoss::add(size_t mean, float sum, std::optional<float> count) {
  terms_[mean].sum += static_cast<double>(sum);
  terms_[mean].count += static_cast<double>(count.value_or(1));
}

double MeanLoss::value() const {
  double loss = 0;
  for (const Term& term : terms_) loss += term.sum / term.count;
  return loss;
}

Evaluation::Evaluation(Session& session, LoadedRank& rank, hal::ControlChannel& control, const plan::RankPlan& training,
                       RunReports& reports, StepInputs inputs, const trace::RingWriter* ring)
    : session_(session),
      rank_(rank),
      control_(control),
      training_(training),
      reports_(reports),
      wait_{&session.stop, session.options.timeout},
      inputs_(std::move(inputs)),
      executor_(*rank.evaluation, session.stop, session.options.timeout, ring, "evaluation after step") {}

Result<std::unique_ptr<Evaluation>> Evaluation::make(Session& session, LoadedRank& rank, hal::ControlChannel& control,
                                                     const plan::RankPlan& training, RunReports& reports,
                                                     const trace::RingWriter* ring) {
  const LoadedRank& program = *rank.evaluation;
  PIPER_ASSIGN(StepInputs inputs, StepInputs::bind(program, *session.evaluation.data, session.options.seed));
  std::unique_ptr<Evaluation> made(new Evaluation(session, rank, control, training, reports, std::move(inputs), ring));
  if (control.rank() == 0) {
    std::string note;
    made->best_ = read_best(session, note);
    if (!note.empty()) std::fprintf(stderr, "piper-run: note: --save-best: %s\n", note.c_str());
  }
  if (program.plan->rank != program.bundle->manifest.reporting_rank) return made;
  for (const plan::Mean& mean : program.plan->means) {
    Downloads& downloads = made->means_.emplace_back();
    PIPER_ASSIGN(downloads.sum, download(program, mean.sum));
    PIPER_ASSIGN(downloads.count, download(program, mean.count));
  }
  return made;
}

bool Evaluation::due(int64_t step) const {
  const int64_t every = session_.evaluation.every;
  return step == session_.options.steps || (every > 0 && step % every == 0);
}

Status Evaluation::after(int64_t step) {
  if (!due(step)) return {};
  reports_.entered(live::EventKind::kEvaluate, live::RankState::kEvaluating, step);
  PIPER_ASSIGN(const std::optional<double> loss, run(step));
  if (loss) reports_.evaluated(step, *loss);
  return keep_best(step, loss);
}

Result<std::optional<double>> Evaluation::run(int64_t step) {
  MeanLoss loss(means_.size());
  inputs_.read_ahead(1, session_.evaluation.batches);
  for (int64_t batch = 1; batch <= session_.evaluation.batches; ++batch) {
    PIPER_RETURN_IF_ERROR(inputs_.write(batch));
    PIPER_RETURN_IF_ERROR(executor_.run_step(step));
    PIPER_RETURN_IF_ERROR(add_batch(loss));
  }
  return means_.empty() ? std::nullopt : std::optional<double>(loss.value());
}

Status Evaluation::add_batch(MeanLoss& loss) {
  for (size_t m = 0; m < means_.size(); ++m) {
    PIPER_ASSIGN(const float sum, read(*means_[m].sum));
    std::optional<float> count;
    if (means_[m].count != nullptr) {
      PIPER_ASSIGN(count, read(*means_[m].count));
    }
    loss.add(m, sum, count);
  }
  return {};
}

// A loss that is not a number is never the best. All ranks decide alike, by the best loss of rank 0 and by what the
// reporting rank has found.
Status Evaluation::keep_best(int64_t step, std::optional<double> loss) {
  const std::string& path = session_.evaluation.save_best;
  if (path.empty()) return {};
  const std::string found_here = loss_text(loss.value_or(std::numeric_limits<double>::quiet_NaN()));
  PIPER_ASSIGN(const std::vector<std::string> all, control_.allgather(loss_text(best_) + " " + found_here, wait_));
  const std::string& reported = all.at(static_cast<size_t>(session_.bundle->manifest.reporting_rank));
  const double best = parse_loss(all.at(0).substr(0, all[0].find(' ')));
  const double found = parse_loss(reported.substr(reported.find(' ') + 1));
  if (!(found < best)) return {};
  best_ = found;
  return save_weights(session_, path, rank_, training_, control_, wait_, best_metadata(session_, found, step));
}

}  // namespace piper::exec
