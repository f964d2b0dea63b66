#include "runtime/exec/session/best_file.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>

#include "schemas/plan/file_bytes.h"
#include "schemas/plan/safetensors.h"

namespace piper::exec {

namespace {

constexpr const char* kLoss = "eval_loss";
constexpr const char* kStep = "step";
constexpr const char* kEvaluation = "evaluation";

std::string evaluation_digest(const Session& session) {
  const plan::Manifest& manifest = session.bundle->manifest;
  return plan::sha256(manifest.model.sha256 + "\n" + session.evaluation.data_digest + "\n" +
                      std::to_string(session.evaluation.batches * manifest.batch));
}

}  // namespace

std::string loss_text(double loss) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, loss).ptr};
}

double parse_loss(const std::string& text) {
  double loss = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, loss);
  return read.ec == std::errc() && read.ptr == end ? loss : std::numeric_limits<double>::quiet_NaN();
}

std::map<std::string, std::string> best_metadata(const Session& session, double loss, int64_t step) {
  return {{kLoss, loss_text(loss)}, {kStep, std::to_string(step)}, {kEvaluation, evaluation_digest(session)}};
}

double read_best(const Session& session, std::string& note) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const std::string& path = session.evaluation.save_best;
  std::error_code error;
  if (session.resume == nullptr || path.empty() || !std::filesystem::exists(path, error)) return kNone;
  const auto file = plan::SafetensorsFile::open(path);
  const auto value = [&](const char* key) {
    if (!file.ok()) return std::string();
    const auto found = file->metadata().find(key);
    return found == file->metadata().end() ? std::string() : found->second;
  };
  const double loss = parse_loss(value(kLoss));
  if (std::isnan(loss)) {
    note = "the first evaluation replaces '" + path + "', which says no evaluation loss";
    return kNone;
  }
  if (value(kEvaluation) != evaluation_digest(session)) {
    note = "the first evaluation replaces '" + path +
           "', which was chosen by an evaluation of other samples or of "
           "another model";
    return kNone;
  }
  note = "'" + path + "' has the weights after step " + value(kStep) + ", with the evaluation loss " + value(kLoss) +
         ": only a smaller loss replaces it";
  return loss;
}

}  // namespace piper::exec
