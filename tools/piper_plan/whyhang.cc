#include <time.h>

#include <algorithm>

#include "schemas/live/ring_text.h"
#include "schemas/live/wait_graph.h"
#include "schemas/plan/bundle_io.h"
#include "tools/piper_plan/commands.h"

namespace piper::tools {

Result<std::string> why_hang(const std::string& directory, const std::string& folder, int64_t events) {
  PIPER_ASSIGN(const plan::OpenBundle opened, plan::open_bundle(directory));
  PIPER_ASSIGN(const plan::Bundle bundle, plan::read_bundle(opened));
  PIPER_ASSIGN(const std::vector<std::string> paths, live::find_rings(folder));
  if (paths.empty()) return Status::failure("R0911", "'" + folder + "' has no ring");
  std::vector<live::Ring> rings;
  int64_t now_ns = 0;
  for (const std::string& path : paths) {
    PIPER_ASSIGN(live::Ring ring, live::read_ring(path));
    live::look_at_process_of(ring);
    now_ns = std::max(now_ns, ring.seen_ns);
    rings.push_back(std::move(ring));
  }
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
