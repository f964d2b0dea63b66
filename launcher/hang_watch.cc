#include "launcher/hang_watch.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "schemas/live/positions.h"
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
std::vector<live::Ring> HangWatch::read_all() const {
  std::vector<live::Ring> rings;
  const auto paths = live::find_rings(rings_);
  if (!paths.ok()) return rings;
  for (const std::string& path : *paths)
    if (auto ring = live::read_newest(path); ring.ok()) rings.push_back(std::move(ring).value());
  return rings;
}

// How long a rank may do what it does.
milliseconds HangWatch::limit(const live::Ring& ring) const {
  const live::RingEvent* const at = live::newest(ring, live::TrackKind::kHost);
  if (at == nullptr) return options_.first;
  const bool first_done = ring.sections[static_cast<size_t>(live::Section::kFirstStep)].count > 0;
  const live::Section section = live::section_of(at->kind, first_done);
  const live::SectionTimes& times = ring.sections[static_cast<size_t>(section)];
  const bool step = section == live::Section::kStep;
  if (!step && times.count == 0) return std::max(options_.after, options_.first);
  const auto longest =
      milliseconds(static_cast<int64_t>(std::min(options_.factor * static_cast<double>(times.longest_ns) / 1e6, 1e12)));
  return std::max(options_.after, longest);
}

bool HangWatch::hangs(Clock::time_point now) {
  const milliseconds passed = looked_ ? std::chrono::duration_cast<milliseconds>(now - *looked_) : milliseconds(0);
  if (looked_ && passed < kEvery) return false;
  looked_ = now;
  quiet_ += std::min(passed, 5 * kEvery);
  const std::vector<live::Ring> rings = read_all();
  milliseconds longest = static_cast<int32_t>(rings.size()) < ranks_ ? options_.first : options_.after;
  bool all_ended = !rings.empty();
  for (const live::Ring& ring : rings) {
    Seen seen{ring.process, {}};
    for (const live::RingTrack& track : ring.tracks) seen.written.push_back(track.written);
    Seen& before = seen_[ring.rank];
    if (before.process != seen.process || before.written != seen.written) quiet_ = milliseconds(0);
    before = std::move(seen);
    longest = std::max(longest, limit(ring));
    const live::RingEvent* const at = live::newest(ring, live::TrackKind::kHost);
    all_ended = all_ended && at != nullptr && at->kind == live::EventKind::kEnded;
  }
  return !all_ended && quiet_ > longest;
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

Status HangWatch::report() const {
  const int64_t now_ns = monotonic_ns();
  std::vector<live::Ring> rings = read_all();
  for (live::Ring& ring : rings) live::look_at_process_of(ring);
  std::string text = "the run hangs";
  const auto opened = plan::open_bundle(bundle_);
  const auto bundle = opened.ok() ? plan::read_bundle(*opened) : Result<plan::Bundle>(opened.status());
  if (!bundle.ok()) {
    text += ", and its bundle cannot be read: " + bundle.error().message + "\n";
  } else if (const auto hang = live::find_culprit(*bundle, opened->digest, rings, now_ns); !hang.ok()) {
    text += ": " + hang.error().message + "\n";
  } else {
    text += ": " + live::hang_text(*hang);
  }
  return Status::failure("L0121", text + "  " + keep(rings, text, now_ns));
}

std::string HangWatch::positions() const {
  const auto opened = plan::open_bundle(bundle_);
  const auto bundle = opened.ok() ? plan::read_bundle(*opened) : Result<plan::Bundle>(opened.status());
  if (!bundle.ok()) return bundle.error().message + "\n";
  std::string text;
  for (live::Ring& ring : read_all()) {
    live::look_at_process_of(ring);
    text += live::ring_text(*bundle, ring, monotonic_ns(), 1);
  }
  return text;
}

}  // namespace piper::launcher
