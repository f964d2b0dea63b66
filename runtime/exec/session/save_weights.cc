#include "runtime/exec/session/save_weights.h"

#include <algorithm>
#include <vector>

#include "runtime/checkpoint/save.h"
#include "runtime/exec/gradient_capture.h"

namespace piper::exec {

Status save_weights(const Session& session, const std::string& path, LoadedRank& rank, const plan::RankPlan& plan,
                    hal::ControlChannel& control, const hal::WaitControl& wait,
                    const std::map<std::string, std::string>& metadata) {
  const plan::Manifest& manifest = session.bundle->manifest;
  const bool trained_only = session.options.trained_only;
  return checkpoint::save_tensors({path, trained_only ? nullptr : session.weights, metadata}, manifest,
                                  weight_pieces(manifest, plan, rank.buffers, trained_only), rank.device(), control,
                                  wait);
}

Result<std::string> fault_of_weights(const LoadedRank& rank, checkpoint::FiniteState& finite) {
  constexpr int64_t kElements = int64_t{1} << 20;  // on the host at a time
  std::vector<std::byte> block;
  for (const checkpoint::StatePart& part : checkpoint::state_parts(rank.bundle->manifest, *rank.plan)) {
    const bool saved = part.owner && part.kind == checkpoint::StateKind::kParameter;
    if (!saved || !finite.covers(part.kind, part.name)) continue;
    const int64_t element = dtype_bytes(part.dtype);
    for (int64_t at = 0; at < part.count; at += kElements) {
      const int64_t some = std::min(kElements, part.count - at);
      block.resize(static_cast<size_t>(some * element));
      PIPER_RETURN_IF_ERROR(rank.device().read(block.data(), rank.at(part.where) + at * element, some * element));
      std::string fault = finite.fault(part.kind, part.name, part.dtype, block.data(), some);
      if (!fault.empty()) return fault;
    }
  }
  return std::string();
}

}  // namespace piper::exec
