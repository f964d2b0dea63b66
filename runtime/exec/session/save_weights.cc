#include "runtime/exec/session/save_weights.h"

#include "runtime/checkpoint/save.h"
#include "runtime/exec/gradient_capture.h"

namespace piper::exec {

Status save_weights(const Session& session, const std::string& path, LoadedRank& rank, const plan::RankPlan& plan,
                    hal::ControlChannel& control, const hal::WaitControl& wait) {
  const plan::Manifest& manifest = session.bundle->manifest;
  const bool trained_only = session.options.trained_only;
  return checkpoint::save_tensors({path, trained_only ? nullptr : session.weights}, manifest,
                                  weight_pieces(manifest, plan, rank.buffers, trained_only), rank.device(), control,
                                  wait);
}

}  // namespace piper::exec
