// Before the first step all ranks compare what they were started with: the digest of the bundle and
// the options that every rank must share. Collective: every rank calls it.
#pragma once

#include <string>
#include <vector>

#include "runtime/hal/control_channel.h"

namespace piper::bootstrap {

// For messages; neither has a tab or a line's end.
struct AgreedOption {
  std::string name, value;
  friend bool operator==(const AgreedOption&, const AgreedOption&) = default;
};
struct Agreement {
  std::string bundle_digest;
  std::vector<AgreedOption> options;  // a rank that lacks one was not given it
};
// R0102 names the ranks that differ from rank 0, and in what. The same message on every rank.
Status check_agreement(hal::ControlChannel& control, const Agreement& mine, const hal::WaitControl& wait);
// The comparison itself, by rank.
Status compare_agreements(const std::vector<Agreement>& by_rank);

}  // namespace piper::bootstrap
