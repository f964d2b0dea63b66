// The conformance cases on the in-process transport, for worlds of 1 to 5 ranks.
#include <catch2/catch.hpp>

#include <thread>

#include "runtime/hal/local/local_transport.h"
#include "tests/conformance/collective_cases.h"

namespace piper::conformance {
namespace {

void run_everywhere(int32_t world_size, const Case& test, bool with_delay = false) {
  hal::LocalWorld world(world_size);
  std::vector<std::string> wrong(static_cast<size_t>(world_size));
  std::vector<std::thread> ranks;
  for (int32_t r = 0; r < world_size; ++r)
    ranks.emplace_back([&, r] {
      const auto transport = world.transport(r);
      wrong[static_cast<size_t>(r)] = with_delay ? test.run(*delayed(*transport)) : test.run(*transport);
    });
  for (std::thread& rank : ranks) rank.join();
  for (int32_t r = 0; r < world_size; ++r) {
    INFO(test.name << ", rank " << r << " of " << world_size);
    CHECK(wrong[static_cast<size_t>(r)] == "");
  }
}

TEST_CASE("local transport conforms") {
  for (int32_t world_size = 1; world_size <= 5; ++world_size)
    for (const Case& test : common_cases()) run_everywhere(world_size, test);
}

TEST_CASE("local transport conforms with delayed links") {
  for (int32_t world_size : {1, 3}) {
    for (const Case& test : common_cases()) run_everywhere(world_size, test, true);
    run_everywhere(world_size, delays());
  }
}

TEST_CASE("local transport notices messages whose sizes differ") {
  run_everywhere(2, {"sizes_that_differ", sizes_that_differ});
  run_everywhere(2, {"counts_that_differ", counts_that_differ});
}

// Also by a transport on top of another one, which may go before it.
TEST_CASE("what is kept lives as long as the transport that carries messages") {
  hal::LocalWorld world(1);
  auto transport = world.transport(0);
  auto memory = std::make_shared<int>(0);
  const std::weak_ptr<int> kept = memory;
  delayed(*transport)->keep(std::move(memory));
  CHECK_FALSE(kept.expired());
  transport.reset();
  CHECK(kept.expired());
}

}  // namespace
}  // namespace piper::conformance
