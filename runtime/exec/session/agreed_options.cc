#include "runtime/exec/session/agreed_options.h"

#include <string>
#include <utility>

#include "runtime/trace/step_log.h"

namespace piper::exec {

namespace {

class Options {
 public:
  void add(std::string name, std::string value) { all_.push_back({std::move(name), std::move(value)}); }
  void add(std::string name, int64_t value) { add(std::move(name), std::to_string(value)); }
  void add_flag(std::string name, bool given) {
    if (given) add(std::move(name), "given");
  }
  // A few digits tell copies apart.
  void add_digest(std::string name, const std::string& digest) {
    if (!digest.empty()) add(std::move(name), digest.substr(0, 16));
  }
  void add_steps(std::string name, const StepsToFile& steps) {
    if (steps.file.empty()) return;
    add(std::move(name), "steps " + std::to_string(steps.first) + " to " + std::to_string(steps.last));
  }
  void add_first_samples(std::string name, const data::DataSource& data, int64_t batch) {
    add(std::move(name), trace::fingerprint_text(data.fingerprint(1, batch)));
  }
  std::vector<bootstrap::AgreedOption> take() { return std::move(all_); }

 private:
  std::vector<bootstrap::AgreedOption> all_;
};

void add_checkpoints(const Session& session, Options& options) {
  if (session.storage == nullptr) return;
  const CheckpointSchedule& checkpoints = session.options.checkpoints;
  options.add("--checkpoint", "every " + std::to_string(checkpoints.every) + " steps or " +
                                  std::to_string(checkpoints.every_minutes) + " minutes");
  options.add_digest("digest of the checkpoint's data", session.identity.data.sha256);
  if (session.resume != nullptr) options.add_digest("digest of the checkpoint", session.resume->manifest().digest);
}

void add_evaluation(const Session& session, Options& options) {
  const SessionEvaluation& evaluation = session.evaluation;
  if (evaluation.data == nullptr) return;
  options.add("batches of an evaluation", evaluation.batches);
  options.add("steps between evaluations", evaluation.every);
  options.add_digest("digest of the evaluation's data", evaluation.data_digest);
  options.add_first_samples("fingerprint of the evaluation's first samples", *evaluation.data,
                            session.bundle->manifest.batch);
  options.add_flag("--save-best", !evaluation.save_best.empty());
}

}  // namespace

std::vector<bootstrap::AgreedOption> agreed_options(const Session& session) {
  const SessionOptions& o = session.options;
  Options options;
  options.add("seed", std::to_string(o.seed));
  options.add("steps", o.steps);
  options.add("sampling", session.data->sampling() == data::Sampling::kShuffled ? "shuffled" : "sequential");
  options.add("samples of the data", session.data->num_samples());
  options.add_digest("digest of the data", session.data_digest);
  options.add_first_samples("fingerprint of the first samples", *session.data, session.bundle->manifest.batch);
  options.add_digest("digest of the weights", session.weights_digest);
  options.add_flag("--save", !o.save.empty());
  options.add_flag("--save-gradients", !o.save_gradients.empty());
  options.add_flag("--trained-only", o.trained_only);
  options.add_flag("--profile", !o.profile.empty());
  options.add_flag("--calibrate", !o.calibrate.empty());
  options.add_flag("--kernel-times", !o.kernel_times.empty());
  options.add_steps("--digest", o.digests);
  options.add_steps("--trace", o.trace);
  if (o.check_replicas > 0) options.add("--check-replicas", o.check_replicas);
  options.add_flag("--no-stop-on-nan", !o.stop_on_nan);
  add_checkpoints(session, options);
  add_evaluation(session, options);
  if (o.link_delay)
    options.add("--link-delay",
                std::to_string(o.link_delay->latency.count()) + "," + std::to_string(o.link_delay->bytes_per_second));
  return options.take();
}

}  // namespace piper::exec
