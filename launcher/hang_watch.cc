#include "launcher/hang_watch.h"

#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "schemas/live/positions.h"
#include "schemas/live/process_state.h"
#include "schemas/live/ring_text.h"
#include "schemas/plan/bundle_io.h"

namespace piper::launcher {

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

int64_t monotonic_ns() {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::string utc_now() {
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  (void)strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return text;
}

}  // namespace

HangWatch::HangWatch(const HangOptions& options, std::string bundle, std::string rings, int32_t ranks)
    : options_(options), bundle_(std::move(bundle)), rings_(std::move(rings)), ranks_(ranks) {}

// A ring that is being made is one that is not there yet.
std::vector<live::Ring> HangWatch::read_all(Events events) const {
  std::vector<live::Ring> rings;
  const auto paths = live::find_rings(rings_);
  if (!paths.ok()) return rings;
  for (const std::string& path : *paths)
    if (auto ring = events == Events::kAll ? live::read_ring(path) : live::read_newest(path); ring.ok())
      rings.push_back(std::move(ring).value());
  return rings;
}

// How long a rank may stay in its present state.
milliseconds HangWatch::limit(const live::Ring& ring) const {
  using live::Section;
  const live::RingEvent* const at = live::newest(ring, live::TrackKind::kHost);
  if (at == nullptr) return options_.first;
  const auto times_of = [&](Section section) { return ring.sections[static_cast<size_t>(section)]; };
  const bool first_done = times_of(Section::kFirstStep).count > 0;
  const Section section = live::section_of(at->kind, first_done);
  // How long a first one takes, and how long a disk takes, is not known.
  const bool predicted = section == Section::kFirstStep && options_.step.count() > 0;
  const bool unknown = (!first_done && !predicted) || section == Section::kCheckpoint || section == Section::kEnd ||
                       (section == Section::kEvaluation && times_of(section).count == 0);
  const milliseconds least = unknown ? std::max(options_.after, options_.first) : options_.after;
  const bool steps = section == Section::kStep || section == Section::kAgree;
  const Section known = times_of(Section::kStep).count > 0 ? Section::kStep : Section::kFirstStep;
  const live::SectionTimes times = times_of(steps ? known : section);
  const double longest_ms = options_.factor * (predicted ? static_cast<double>(options_.step.count())
                                                         : static_cast<double>(times.longest_ns) / 1e6);
  return std::max(least, milliseconds(static_cast<int64_t>(std::min(longest_ms, 1e12))));
}

bool HangWatch::hangs(Clock::time_point now) {
  const milliseconds passed = looked_ ? std::chrono::duration_cast<milliseconds>(now - *looked_) : milliseconds(0);
  if (looked_ && passed < kEvery) return false;
  looked_ = now;
  quiet_ += std::min(passed, 5 * kEvery);
  const std::vector<live::Ring> rings = read_all(Events::kNewest);
  milliseconds longest = static_cast<int32_t>(rings.size()) < ranks_ ? options_.first : options_.after;
  bool all_ended = !rings.empty();
  for (const live::Ring& ring : rings) {
    Seen seen{ring.process, {}};
    for (const live::RingTrack& track : ring.tracks) seen.tracks.emplace_back(track.written, track.exchange);
    Seen& before = seen_[ring.rank];
    if (before.process != seen.process || before.tracks != seen.tracks) quiet_ = milliseconds(0);
    before = std::move(seen);
    longest = std::max(longest, limit(ring));
    const live::RingEvent* const at = live::newest(ring, live::TrackKind::kHost);
    all_ended = all_ended && at != nullptr && at->kind == live::EventKind::kEnded;
  }
  // A program that has no rings at all is none of piper's.
  if (seen_.empty() || all_ended || quiet_ <= longest) return false;
  // Who started a rank that is gone ends the run; mpirun takes its time.
  return std::none_of(rings.begin(), rings.end(), [](live::Ring ring) {
    live::look_at_process_of(ring);
    return ring.process_state == 'X';
  });
}

// The folder, or why there is none.
std::string HangWatch::keep(const std::vector<live::Ring>& rings, const std::string& text, int64_t now_ns) const {
  const fs::path folder = fs::path(options_.incidents) / ("hang-" + utc_now() + "-" + std::to_string(getpid()));
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return "the rings are not kept: " + folder.string() + ": " + failed.message();
  for (const live::Ring& ring : rings) {
    const fs::path copy = folder / live::ring_name(ring.rank);
    fs::copy_file(fs::path(rings_) / live::ring_name(ring.rank), copy, failed);
    if (!failed) (void)live::mark_copy(copy.string(), ring, now_ns);  // without it the reader knows less
  }
  std::ofstream(folder / "report.txt") << text;
  return "kept for piper-plan whyhang " + bundle_ + " " + folder.string();
}

namespace {

// For who wants to look at them: "  rank 0 is process 4711 on node3".
std::string processes_text(const std::vector<live::Ring>& rings) {
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  std::string text;
  for (const live::Ring& ring : rings)
    text +=
        "  rank " + std::to_string(ring.rank) + " is process " + std::to_string(ring.process) + " on " + host + "\n";
  return text;
}

}  // namespace

Status HangWatch::report() const {
  const int64_t now_ns = monotonic_ns();
  std::vector<live::Ring> rings = read_all(Events::kNewest);
  for (live::Ring& ring : rings) live::look_at_process_of(ring);
  std::string text = "the run hangs";
  const auto opened = plan::open_bundle(bundle_);
  const auto bundle = opened.ok() ? plan::read_bundle(*opened) : Result<plan::Bundle>(opened.status());
  if (!bundle.ok()) {
    text += ", and its bundle cannot be read: " + bundle.error().message + "\n";
  } else if (const auto hang = live::find_culprit(*bundle, opened->digest, rings, now_ns); !hang.ok()) {
    text += ": " + hang.error().message + "\n";
  } else {
    text += ": " + live::hang_text(*hang) + processes_text(rings);
  }
  return Status::failure("L0121", text + "  " + keep(rings, text, now_ns));
}

std::string HangWatch::positions() const {
  const auto opened = plan::open_bundle(bundle_);
  const auto bundle = opened.ok() ? plan::read_bundle(*opened) : Result<plan::Bundle>(opened.status());
  if (!bundle.ok()) return bundle.error().message + "\n";
  std::string text;
  for (live::Ring& ring : read_all(Events::kNewest)) {
    live::look_at_process_of(ring);
    text += live::ring_text(*bundle, ring, monotonic_ns(), 1);
  }
  return text;
}

std::vector<std::string> HangWatch::stragglers(Clock::time_point now) {
  if (compared_ && now - *compared_ < kCompareEvery) return {};
  compared_ = now;
  return stragglers_.compare(read_all(Events::kAll));
}

void HangWatch::kill_ranks() const {
  for (const live::Ring& ring : read_all(Events::kNewest))
    if (live::look_at_process(ring.process).start == ring.process_start && ring.boot == live::boot_id())
      (void)kill(static_cast<pid_t>(ring.process), SIGKILL);
}

}  // namespace piper::launcher
