// Waits for what is asked again and again: until it is there, a Stop is raised, or nothing goes on.
#include "runtime/hal/polling.h"

#include <catch2/catch.hpp>

namespace piper::hal {
namespace {

constexpr std::chrono::milliseconds kShort{1};
const char* words() { return "a test"; }

// Goes on by one whenever it is asked.
class GoesOn : public Progress {
 public:
  std::vector<int32_t> positions() const override { return {++looks}; }
  mutable int32_t looks = 0;
};
class Stays : public Progress {
  std::vector<int32_t> positions() const override { return {3, -1}; }
};

TEST_CASE("what is there is not waited for, and an error of it is told") {
  CHECK(wait_until({nullptr, {}}, []() -> Result<bool> { return true; }, &words).ok());
  const Status status =
      wait_until({nullptr, {}}, []() -> Result<bool> { return Status::failure("R0407", "broken"); }, &words);
  CHECK(status.error().code == "R0407");
}

TEST_CASE("a Stop ends a wait") {
  Stop stop;
  stop.raise(Status::failure("R0403", "elsewhere"));
  CHECK(is_stopped(wait_until({&stop, kShort}, []() -> Result<bool> { return false; }, &words)));
}

TEST_CASE("time is up where nothing goes on") {
  const Stays stays;
  for (const Progress* progress : {static_cast<const Progress*>(nullptr), static_cast<const Progress*>(&stays)}) {
    const Status status = wait_until(
        {nullptr, std::chrono::milliseconds(1000)}, []() -> Result<bool> { return false; }, &words, progress);
    REQUIRE(!status.ok());
    CHECK(status.error().code == "R0302");
    CHECK(status.error().message == "waited 1 s for a test");
  }
}

TEST_CASE("time begins anew whenever work has gone on") {
  const GoesOn progress;
  CHECK(wait_until({nullptr, kShort}, [&]() -> Result<bool> { return progress.looks >= 20; }, &words, &progress).ok());
}

}  // namespace
}  // namespace piper::hal
