#include "tests/conformance/run_cases.h"

#include <cstdio>

#include "runtime/hal/transport_channel.h"
#include "tests/conformance/collective_cases.h"

namespace piper::conformance {

namespace {

bool passes(hal::Transport& transport, const Case& test) {
  auto all = hal::TransportChannel(transport).allgather(test.run(transport), {});
  if (!all.ok()) {
    std::fprintf(stderr, "%s: %s\n", test.name, all.error().message.c_str());
    return false;
  }
  bool passed = true;
  for (size_t rank = 0; rank < all->size(); ++rank) {
    if ((*all)[rank].empty()) continue;
    passed = false;
    if (transport.rank() == 0) std::fprintf(stderr, "%s, rank %zu: %s\n", test.name, rank, (*all)[rank].c_str());
  }
  return passed;
}

}  // namespace

bool conforms(hal::Transport& transport) {
  bool passed = true;
  for (const Case& test : common_cases()) passed = passes(transport, test) && passed;
  const auto slower = delayed(transport);
  for (const Case& test : common_cases()) passed = passes(*slower, test) && passed;
  passed = passes(transport, delays()) && passed;
  passed = passes(transport, {"counts_that_differ", counts_that_differ}) && passed;
  passed = passes(transport, {"sizes_that_differ", sizes_that_differ}) && passed;
  if (transport.rank() == 0) std::printf("%s on %d ranks\n", passed ? "conforms" : "FAILS", transport.world_size());
  return passed;
}

}  // namespace piper::conformance
