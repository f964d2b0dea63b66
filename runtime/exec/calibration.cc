#include "runtime/exec/calibration.h"

#include <algorithm>

#include "runtime/exec/session/lines_of_all_ranks.h"
#include "runtime/trace/profile.h"
#include "schemas/plan/call_key.h"
#include "schemas/plan/json_writer.h"

namespace piper::exec {

Result<std::unique_ptr<Calibration>> Calibration::make(const Session& session, const LoadedRank& rank,
                                                       hal::ControlChannel& control, const hal::WaitControl& wait) {
  std::unique_ptr<Calibration> made(new Calibration(session, control, wait));
  PIPER_ASSIGN(made->calls_, CallByCall::make(rank));
  for (const StepPiece& piece : made->calls_->pieces())
    if (piece.kernel != nullptr) made->keys_.emplace(piece.kernel, plan::call_key(*piece.kernel));
  return made;
}

std::optional<StepHook::ByCall> Calibration::by_call(int64_t step) {
  counted_ = step >= trace::Profile::kFirstStep;
  return ByCall{*calls_, *this};
}

Status Calibration::finish() {
  return write_lines_of_all_ranks(session_, control_, wait_, session_.options.calibrate, lines());
}

void Calibration::took(const StepPiece& piece, int64_t ns) {
  if (counted_ && piece.kernel != nullptr) times_ns_[keys_.at(piece.kernel)].push_back(ns);
}

std::string Calibration::lines() const {
  plan::JsonWriter json;
  for (const auto& [key, times] : times_ns_) {
    std::vector<int64_t> sorted = times;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<int64_t>(sorted.size() / 2), sorted.end());
    if (json.size() > 0) json.raw("\n");
    json.raw("{");
    json.member("call", key);
    json.member("us", 1e-3 * static_cast<double>(sorted[sorted.size() / 2]));
    json.member("count", times.size());
    json.raw("}");
  }
  return json.str();
}

}  // namespace piper::exec
