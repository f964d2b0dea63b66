#include <time.h>

#include <algorithm>

#include "schemas/live/ring_text.h"
#include "schemas/live/wait_graph.h"
#include "schemas/plan/bundle_io.h"
#include "tools/piper_plan/commands.h"

namespace piper::tools {

namespace {

// Rings of one folder, each rank's once.
Status add_rings(const std::string& folder, std::vector<live::Ring>& rings) {
  PIPER_ASSIGN(const std::vector<std::string> paths, live::find_rings(folder));
  if (paths.empty()) return Status::failure("R0911", "'" + folder + "' has no ring");
  for (const std::string& path : paths) {
    PIPER_ASSIGN(live::Ring ring, live::read_ring(path));
    if (std::any_of(rings.begin(), rings.end(), [&](const live::Ring& other) { return other.rank == ring.rank; }))
      return Status::failure("R0911", "'" + path + "': another folder has a ring of this rank, too");
    live::look_at_process_of(ring);
    rings.push_back(std::move(ring));
  }
  return {};
}

// Each machine has a clock of its own, and nodes copy their rings at about the same time: that is taken for one.
void count_from_copies(std::vector<live::Ring>& rings, int64_t now_ns) {
  for (live::Ring& ring : rings) {
    if (ring.seen_ns == 0) continue;
    for (live::RingTrack& track : ring.tracks)
      for (live::RingEvent& event : track.events) event.time_ns += now_ns - ring.seen_ns;
    ring.seen_ns = now_ns;
  }
}

}  // namespace

Result<std::string> why_hang(const std::string& directory, const std::vector<std::string>& folders, int64_t events) {
  PIPER_ASSIGN(const plan::OpenBundle opened, plan::open_bundle(directory));
  PIPER_ASSIGN(const plan::Bundle bundle, plan::read_bundle(opened));
  std::vector<live::Ring> rings;
  for (const std::string& folder : folders) PIPER_RETURN_IF_ERROR(add_rings(folder, rings));
  int64_t now_ns = 0;
  for (const live::Ring& ring : rings) now_ns = std::max(now_ns, ring.seen_ns);
  count_from_copies(rings, now_ns);
  if (now_ns == 0) {  // nobody has copied them: of a run that may be alive
    timespec now{};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    now_ns = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }
  PIPER_ASSIGN(const live::Hang hang, live::find_culprit(bundle, opened.digest, rings, now_ns));
  std::string text = live::hang_text(hang);
  if (events == 0) return text;
  for (const live::Ring& ring : rings)
    text += "\n" + live::ring_text(bundle, ring, now_ns, static_cast<size_t>(events));
  return text;
}

}  // namespace piper::tools
