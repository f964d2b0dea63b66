// A rank's status page: what a reader sees while it is written, and of one that is damaged.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <thread>

#include "schemas/live/page.h"
#include "tests/unit/temp_folder.h"

namespace piper::live {
namespace {

RankStatus numbered(int64_t number) {
  RankStatus status;
  status.rank = 1;
  status.pid = 7;
  status.step = status.steps = status.checkpoint_step = status.skipped = status.restarts = number;
  status.loss = status.tokens_per_s = status.mfu = status.checkpoint_s = static_cast<double>(number);
  status.state = RankState::kTraining;
  return status;
}

bool whole(const RankStatus& status) {
  const auto number = static_cast<double>(status.step);
  return status.steps == status.step && status.checkpoint_step == status.step && status.skipped == status.step &&
         status.restarts == status.step && status.loss == number && status.tokens_per_s == number &&
         status.mfu == number && status.checkpoint_s == number;
}

TEST_CASE("a page has what was written last, for the rank that wrote it") {
  const TempFolder folder;
  const std::string path = folder / "pages";
  REQUIRE(create_pages(path, 2).ok());
  auto page = Page::map(path, 1);
  REQUIRE(page.ok());
  CHECK_FALSE(page->read(1));
  for (const int64_t number : {3, 4, 5}) page->write(numbered(number));
  const auto other = Page::map(path, 1);  // another process has another mapping
  REQUIRE(other.ok());
  const auto told = other->read(1);
  REQUIRE(told);
  CHECK(told->step == 5);
  CHECK(told->monotonic_ns > 0);
  CHECK(told->wall_ns > 0);
  CHECK_FALSE(other->read(0));
  const auto neighbour = Page::map(path, 0);
  REQUIRE(neighbour.ok());
  CHECK_FALSE(neighbour->read(0));
}

TEST_CASE("a page of a rank of another machine has that machine's times") {
  const TempFolder folder;
  const std::string path = folder / "pages";
  REQUIRE(create_pages(path, 2).ok());
  auto page = Page::map(path, 1);
  REQUIRE(page.ok());
  RankStatus status = numbered(3);
  status.monotonic_ns = 5;
  status.wall_ns = 6;
  page->copy(status);
  const auto told = page->read(1);
  REQUIRE(told);
  CHECK(told->step == 3);
  CHECK(told->monotonic_ns == 5);
  CHECK(told->wall_ns == 6);
}

TEST_CASE("a reader never sees half of a state") {
  const TempFolder folder;
  const std::string path = folder / "pages";
  REQUIRE(create_pages(path, 2).ok());
  std::atomic<bool> ends{false};
  auto written = Page::map(path, 1);
  REQUIRE(written.ok());
  std::thread writer([&] {
    for (int64_t number = 1; !ends; ++number) written->write(numbered(number));
  });
  const auto page = Page::map(path, 1);
  REQUIRE(page.ok());
  int64_t seen = 0, last = 0;
  bool all_whole = true, rising = true;
  while (seen < 20000) {
    const auto told = page->read(1);
    if (!told) continue;
    ++seen;
    all_whole = all_whole && whole(*told);
    rising = rising && told->step >= last;
    last = told->step;
  }
  ends = true;
  writer.join();
  CHECK(all_whole);
  CHECK(rising);
}

// Whatever instruction it dies in, one of its states is there.
TEST_CASE("a writer that is killed leaves a whole state") {
  const TempFolder folder;
  const std::string path = folder / "pages";
  for (int round = 0; round < 50; ++round) {
    REQUIRE(create_pages(path, 2).ok());
    const pid_t writer = fork();
    if (writer == 0) {
      auto page = Page::map(path, 1);
      for (int64_t number = 1; page.ok(); ++number) page->write(numbered(number));
      _exit(1);
    }
    const auto page = Page::map(path, 1);
    REQUIRE(page.ok());
    while (!page->read(1)) {
    }
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    const auto told = page->read(1);
    REQUIRE(told);
    REQUIRE(whole(*told));
  }
}

TEST_CASE("of any bytes a page has a state that a rank can be in, or none") {
  const TempFolder folder;
  const std::string path = folder / "pages";
  REQUIRE(create_pages(path, 1).ok());
  uint64_t random = 88172645463325252u;  // xorshift64, Marsaglia 2003
  for (int round = 0; round < 2000; ++round) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    for (int64_t at = 0; at < 256; at += 8) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      const uint64_t word = at == 0 ? 1 : random % 3 == 0 ? random % 7 : random;  // the version is right
      file.write(reinterpret_cast<const char*>(&word), sizeof word);
    }
    file.close();
    const auto page = Page::map(path, 0);
    REQUIRE(page.ok());
    if (const auto told = page->read(0)) {
      CHECK(told->rank == 0);
      CHECK(std::string(name_of(told->state)) != "");
      CHECK(std::isfinite(told->tokens_per_s));
    }
  }
}

TEST_CASE("what is no file of pages is refused") {
  const TempFolder folder;
  const auto refused = [](const std::string& path, int64_t rank) {
    const auto page = Page::map(path, rank);
    REQUIRE_FALSE(page.ok());
    CHECK(page.error().code == "L0137");
  };
  refused(folder / "none", 0);
  refused(folder / ".", 0);
  REQUIRE(create_pages(folder / "pages", 2).ok());
  refused(folder / "pages", 2);
  refused(folder / "pages", -1);
  REQUIRE(symlink("pages", (folder / "link").c_str()) == 0);
  refused(folder / "link", 0);
  std::ofstream(folder / "short") << "x";
  refused(folder / "short", 0);
}

}  // namespace
}  // namespace piper::live
