// What the collectives of every implementation must do, as cases that all ranks of a run execute together. On CPU ranks
// they are among common_cases(). A case returns what is wrong, or "".
#pragma once

#include <string>
#include <vector>

#include "runtime/hal/collectives.h"
#include "tests/conformance/transport_cases.h"

namespace piper::conformance {

// A rank on whose device a case runs. Its memory is shown to the device: what the host wrote is there when a command
// begins, and what the command wrote is back when run() returns.
class CollectiveRank {
 public:
  virtual ~CollectiveRank() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t world_size() const = 0;
  // The communicator of these ranks: the first ones of the world, forwards or backwards, with this one. Stays the
  // rank's.
  virtual hal::Group& group(const std::vector<int32_t>& ranks) = 0;
  virtual void show(std::byte* memory, size_t bytes) = 0;
  virtual void hide(std::byte* memory) = 0;
  // A place in memory that is shown.
  virtual hal::Address address_of(std::byte* place) = 0;
  // Until it is done.
  virtual Status run(hal::Command& command) = 0;
  // Otherwise sums are compared to a tolerance.
  virtual bool adds_by_position() const { return true; }
};

struct CollectiveCase {
  const char* name;
  std::string (*run)(CollectiveRank& rank);
};
std::vector<CollectiveCase> collective_cases();
// A case on a CPU rank.
std::string run_on_transport(const CollectiveCase& test, hal::Transport& transport);
// Two ranks that count the rows between them differently: the receiving one must fail.
std::string counts_that_differ(hal::Transport& transport);

}  // namespace piper::conformance
