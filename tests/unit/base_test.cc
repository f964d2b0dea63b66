// Loops over threads, values made ahead, and flat lists.
#include <atomic>
#include <catch2/catch.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "schemas/base/ahead.h"
#include "schemas/base/flat_lists.h"
#include "schemas/base/parallel.h"

using namespace piper;

TEST_CASE("every turn of a loop runs once, in loops within loops too") {
  const auto check = [] {
    constexpr size_t kOuter = 40, kInner = 25;
    std::vector<std::atomic<int>> runs(kOuter * kInner);
    parallel_for(kOuter, [&](size_t i) { parallel_for(kInner, [&](size_t j) { ++runs[i * kInner + j]; }); });
    for (const auto& count : runs) CHECK(count == 1);
  };
  SECTION("with helpers of its own") { check(); }
  SECTION("with helpers that are kept") {
    const KeptHelpers helpers(3);
    for (int round = 0; round < 50; ++round) check();
  }
  SECTION("without any") {
    const KeptHelpers helpers(0);
    check();
  }
}

TEST_CASE("an exception of a turn reaches the caller, and the helpers serve the next loop") {
  const KeptHelpers helpers(2);
  for (int round = 0; round < 20; ++round) {
    CHECK_THROWS_AS(parallel_for(30,
                                 [&](size_t i) {
                                   if (i == 7) throw std::runtime_error("seven");
                                 }),
                    std::runtime_error);
    std::atomic<int> turns = 0;
    parallel_for(30, [&](size_t) { ++turns; });
    CHECK(turns == 30);
  }
}

TEST_CASE("of several exceptions that of the first turn reaches the caller") {
  const KeptHelpers helpers(3);
  for (int round = 0; round < 200; ++round) {
    std::string told;
    try {
      parallel_for(40, [&](size_t i) {
        if (i >= 5 && i % 5 == 0) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& e) {
      told = e.what();
    }
    CHECK(told == "5");
  }
}

TEST_CASE("two things side by side are both done, loops within them too") {
  const KeptHelpers helpers(1);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> first = 0, second = 0;
    parallel_invoke([&] { parallel_for(20, [&](size_t) { ++first; }); },
                    [&] { parallel_for(30, [&](size_t) { ++second; }); });
    CHECK(first == 20);
    CHECK(second == 30);
    CHECK_THROWS_AS(parallel_invoke([] {}, [] { throw std::runtime_error("second"); }), std::runtime_error);
  }
}

TEST_CASE("helpers are kept for the thread that keeps them, as long as it does") {
  CHECK(HelperThreads::kept() == nullptr);
  {
    const KeptHelpers outer(1);
    HelperThreads* const first = HelperThreads::kept();
    REQUIRE(first != nullptr);
    {
      const KeptHelpers inner(1);
      CHECK(HelperThreads::kept() != first);
    }
    CHECK(HelperThreads::kept() == first);
    std::thread([] { CHECK(HelperThreads::kept() == nullptr); }).join();
  }
  CHECK(HelperThreads::kept() == nullptr);
}

TEST_CASE("a value made ahead is there whoever has made it, and once") {
  for (const size_t threads : {0, 1, 3}) {
    const KeptHelpers helpers(threads);
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> made = 0;
      Ahead<int> first([&] { return ++made; }), second([&] { return parallel_for(9, [&](size_t) { ++made; }), 7; });
      CHECK(first.valid());
      Ahead<int> moved = std::move(first);
      CHECK_FALSE(first.valid());
      CHECK(second.get() == 7);
      CHECK(moved.get() > 0);
      CHECK_FALSE(moved.valid());
      CHECK(made == 10);
      CHECK_THROWS_AS(Ahead<int>([]() -> int { throw std::runtime_error("made"); }).get(), std::runtime_error);
    }
  }
}

TEST_CASE("a value made ahead that nobody wants is not made later") {
  std::atomic<int> made = 0;
  std::atomic<bool> wait = true;
  {
    const KeptHelpers helpers(1);
    Ahead<int> busy([&] {
      while (wait) std::this_thread::yield();
      return 1;
    });
    std::optional<Ahead<int>> unwanted(std::in_place, [&] { return ++made; });
    unwanted->abandon();
    CHECK_FALSE(unwanted->valid());
    unwanted.reset();
    wait = false;
    CHECK(busy.get() == 1);
  }
  CHECK(made == 0);
  CHECK(Ahead<int>([&] { return ++made; }).get() == 1);  // without helpers
}

TEST_CASE("flat lists keep the order of each list") {
  const std::vector<std::pair<size_t, int>> items = {{2, 20}, {0, 1}, {2, 21}, {0, 2}, {4, 40}, {2, 22}};
  const FlatLists<int> lists(5, [&](const auto& add) {
    for (const auto& [list, item] : items) add(list, item);
  });
  REQUIRE(lists.size() == 5);
  const auto text = [&](size_t list) {
    std::string joined;
    for (const int item : lists[list]) joined += std::to_string(item) + " ";
    return joined;
  };
  CHECK(text(0) == "1 2 ");
  CHECK(text(1).empty());
  CHECK(text(2) == "20 21 22 ");
  CHECK(text(3).empty());
  CHECK(text(4) == "40 ");
  CHECK(FlatLists<int>().size() == 0);
}
