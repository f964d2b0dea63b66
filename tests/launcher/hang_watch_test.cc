#include <catch2/catch.hpp>

#include "launcher/hang_watch.h"
#include "runtime/trace/ring_writer.h"
#include "tests/unit/temp_folder.h"

namespace piper::launcher {
namespace {

using live::EventKind;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Two ranks with a stream each, and a clock that the test moves.
class Watched {
 public:
  explicit Watched(milliseconds step = milliseconds(0)) : watch_(options(step), "plans", folder_.path().string(), 2) {
    for (int32_t rank = 0; rank < 2; ++rank) {
      auto made = trace::RingWriter::make(folder_.path().string(), {rank, 2, std::string(64, '0'), 1});
      REQUIRE(made.ok());
      rings_.push_back(std::move(made).value());
      rings_.back()->host(EventKind::kStarting, 0);
    }
  }
  static HangOptions options(milliseconds step) {
    HangOptions options;
    options.step = step;
    options.after = seconds(2);
    options.first = seconds(20);
    options.factor = 1;
    return options;
  }
  void all(EventKind kind, int64_t step) {
    for (const auto& ring : rings_) ring->host(kind, step);
  }
  void first_step() {
    for (const EventKind kind : {EventKind::kData, EventKind::kStep, EventKind::kReport}) all(kind, 1);
    all(EventKind::kData, 2);
  }
  trace::RingWriter& ring(size_t rank) { return *rings_[rank]; }
  bool hangs_after(milliseconds time) {
    now_ += time;
    return watch_.hangs(now_);
  }
  // How long nothing happens until it is a hang, at most a minute.
  milliseconds patience() {
    for (milliseconds waited{0}; waited < seconds(60); waited += HangWatch::kEvery)
      if (hangs_after(HangWatch::kEvery)) return waited;
    return seconds(60);
  }

 private:
  const TempFolder folder_;
  std::vector<std::unique_ptr<trace::RingWriter>> rings_;
  HangWatch watch_;
  HangWatch::Clock::time_point now_;
};

TEST_CASE("a run hangs once nothing has happened on any rank for the time of its section") {
  Watched run;
  SECTION("while it starts") { CHECK(run.patience() >= seconds(20)); }
  SECTION("in the first step") {
    run.all(EventKind::kStep, 1);
    CHECK(run.patience() >= seconds(20));
  }
  SECTION("in a later step") {
    run.first_step();
    run.all(EventKind::kStep, 2);
    const milliseconds waited = run.patience();
    CHECK(waited >= seconds(2));
    CHECK(waited < seconds(3));
  }
  SECTION("while one rank saves a checkpoint") {
    run.first_step();
    run.ring(1).host(EventKind::kSave, 1);
    const milliseconds waited = run.patience();
    CHECK(waited >= seconds(20));
    CHECK(waited < seconds(60));
  }
}

TEST_CASE("the first step of a predicted time need not be waited for longer than a later one") {
  for (const auto& [predicted, least] :
       {std::pair(milliseconds(5), seconds(2)), std::pair(milliseconds(6000), seconds(6))}) {
    Watched run(predicted);
    run.all(EventKind::kStep, 1);
    const milliseconds waited = run.patience();
    CHECK(waited >= least);
    CHECK(waited < least + seconds(1));
  }
  Watched starts(milliseconds(5));
  CHECK(starts.patience() >= seconds(20));
}

TEST_CASE("whatever any thread tells is progress") {
  Watched run;
  run.first_step();
  run.ring(0).stream(0).instruction(2, false, false, 0, 1);
  for (int i = 0; i < 100; ++i) {
    run.ring(0).stream(0).exchange(1, true, true, i % 2);
    CHECK_FALSE(run.hangs_after(seconds(1)));
  }
  for (int i = 0; i < 100; ++i) {
    run.ring(1).stream(0).instruction(2, false, true, 0, i);
    CHECK_FALSE(run.hangs_after(seconds(1)));
  }
}

TEST_CASE("time in which nobody looked is no hang") {
  Watched run;
  run.first_step();
  CHECK_FALSE(run.hangs_after(milliseconds(200)));
  CHECK_FALSE(run.hangs_after(hours(24)));
  CHECK_FALSE(run.hangs_after(milliseconds(200)));
  CHECK(run.patience() < seconds(3));
}

TEST_CASE("a run that has ended does not hang") {
  Watched run;
  run.first_step();
  run.all(EventKind::kEnding, 1);
  run.all(EventKind::kEnded, 1);
  CHECK(run.patience() == seconds(60));
}

TEST_CASE("a program without rings is not judged") {
  const TempFolder folder;
  HangWatch watch(Watched::options(milliseconds(0)), "plans", folder.path().string(), 2);
  HangWatch::Clock::time_point now;
  for (int i = 0; i < 1000; ++i) CHECK_FALSE(watch.hangs(now += seconds(1)));
}

}  // namespace
}  // namespace piper::launcher
