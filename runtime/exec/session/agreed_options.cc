#include "runtime/exec/session/agreed_options.h"

#include "runtime/trace/step_log.h"

namespace piper::exec {

namespace {

std::string checkpoint_options(const Session& session) {
  if (session.storage == nullptr) return "";
  const SessionOptions& o = session.options;
  return ", --checkpoint every " + std::to_string(o.checkpoints.every) + " steps or " +
         std::to_string(o.checkpoints.every_minutes) + " minutes, data " + session.identity.data.sha256 +
         (session.resume == nullptr ? "" : ", resumed from " + session.resume->manifest().digest);
}

// A few digits tell copies apart.
std::string digest_option(const char* of, const std::string& digest) {
  return digest.empty() ? "" : std::string(of) + " of digest " + digest.substr(0, 16);
}

std::string evaluation_options(const Session& session) {
  const SessionEvaluation& e = session.evaluation;
  if (e.data == nullptr) return "";
  return ", " + std::to_string(e.batches) + " batches" + digest_option(" of data", e.data_digest) +
         " evaluated every " + std::to_string(e.every) + " steps, the first of fingerprint " +
         trace::fingerprint_text(e.data->fingerprint(1, session.bundle->manifest.batch)) +
         (e.save_best.empty() ? "" : ", --save-best");
}

std::string steps_option(const char* name, const StepsToFile& steps) {
  if (steps.file.empty()) return "";
  return std::string(", ") + name + " of steps " + std::to_string(steps.first) + " to " + std::to_string(steps.last);
}

}  // namespace

std::string agreed_options(const Session& session) {
  const SessionOptions& o = session.options;
  return "seed " + std::to_string(o.seed) + ", " + std::to_string(o.steps) + " steps, " +
         (session.data->sampling() == data::Sampling::kShuffled ? "shuffled" : "sequential") + " sampling, " +
         std::to_string(session.data->num_samples()) + " samples" + digest_option(" of data", session.data_digest) +
         ", the first of fingerprint " +
         trace::fingerprint_text(session.data->fingerprint(1, session.bundle->manifest.batch)) +
         digest_option(", weights", session.weights_digest) + ", " + (o.save.empty() ? "no --save, " : "--save, ") +
         (o.save_gradients.empty() ? "no --save-gradients" : "--save-gradients") +
         (o.trained_only ? ", --trained-only" : "") + (o.profile.empty() ? "" : ", --profile") +
         (o.calibrate.empty() ? "" : ", --calibrate") + (o.kernel_times.empty() ? "" : ", --kernel-times") +
         steps_option("--digest", o.digests) + steps_option("--trace", o.trace) +
         (o.check_replicas > 0 ? ", --check-replicas " + std::to_string(o.check_replicas) : "") +
         (o.stop_on_nan ? "" : ", --no-stop-on-nan") + checkpoint_options(session) + evaluation_options(session) +
         (o.link_delay ? ", links of " + std::to_string(o.link_delay->latency.count()) + " us and " +
                             std::to_string(o.link_delay->bytes_per_second) + " bytes/s"
                       : "");
}

}  // namespace piper::exec
