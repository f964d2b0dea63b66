#include "schemas/live/ring_text.h"

#include "schemas/live/positions.h"

namespace piper::live {

namespace {

std::string track_name(const plan::Bundle& bundle, const Ring& ring, const RingTrack& track) {
  switch (track.kind) {
    case TrackKind::kHost: return "host";
    case TrackKind::kLoader: return "loader";
    case TrackKind::kWriter: return "checkpoints";
    case TrackKind::kStream: break;
  }
  const plan::RankPlan* const plan = plan_of(bundle, ring.rank);
  const auto index = static_cast<size_t>(track.index);
  return "stream " +
         (plan != nullptr && index < plan->streams.size() ? plan->streams[index].name : std::to_string(track.index));
}

std::string event_text(const plan::Bundle& bundle, const Ring& ring, const RingEvent& event) {
  const plan::Bundle* const of = bundle_of(bundle, event.evaluation);
  const plan::RankPlan* const plan = of == nullptr ? nullptr : plan_of(*of, ring.rank);
  if (event.kind != EventKind::kInstruction || plan == nullptr ||
      static_cast<size_t>(event.instruction) >= plan->instructions.size())
    return state_text(event);
  return std::string(event.evaluation ? "evaluation after step " : "step ") + std::to_string(event.step) + ", " +
         instruction_text(*of, *plan, event.instruction);
}

// "; waits for rank 3 to send".
std::string exchange_text(const RingExchange& exchange) {
  if (!exchange.waits) return "";
  return "; waits for rank " + std::to_string(exchange.peer) + (exchange.receives ? " to send" : " to receive");
}

std::string process_text(char state) {
  switch (state) {
    case '\0': return "";
    case 'R': return ", running";
    case 'T':
    case 't': return ", stopped";
    case 'X': return ", gone";
    case 'D': return ", asleep in the kernel";
    default: return ", asleep";
  }
}

}  // namespace

std::string ring_text(const plan::Bundle& bundle, const Ring& ring, int64_t now_ns, size_t events) {
  std::string text = "rank " + std::to_string(ring.rank) + " (process " + std::to_string(ring.process) +
                     process_text(ring.process_state) + "):\n";
  for (const RingTrack& track : ring.tracks) {
    size_t shown = 0;
    for (auto event = track.events.rbegin(); event != track.events.rend() && shown < events; ++event, ++shown)
      text += (shown == 0 ? "  " + track_name(bundle, ring, track) + ": " : "    before: ") +
              event_text(bundle, ring, *event) + ", " + seconds_text(now_ns - event->time_ns) + " ago" +
              (shown == 0 ? exchange_text(track.exchange) : "") + "\n";
  }
  return text;
}

std::string hang_text(const Hang& hang) {
  std::string text = hang.message + "\n";
  for (const std::string& line : hang.waits) text += "  " + line + "\n";
  return text;
}

}  // namespace piper::live
