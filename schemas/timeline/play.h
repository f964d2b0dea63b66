// The event simulation behind timeline.h: streams go through their instructions in issue order, a wait lasts until its
// event is recorded, a transfer begins when the last of its ends has come, and activities that use one resource share
// it (fair_shares.h). What things cost is the Pricing's business.
#pragma once

#include <span>
#include <vector>

#include "schemas/timeline/fair_shares.h"
#include "schemas/timeline/timeline.h"
#include "schemas/verify/match.h"

namespace piper::timeline {

// Time for one activity, in the unit of the Pricing: first `fixed`, which nothing slows down, then `shared`, which is
// what it takes where nobody else uses the same resources.
struct Task {
  double fixed = 0, shared = 0;
  std::vector<Use> uses = {};
  bool counts = true;  // a run: Timeline::spans shows it
};

class Pricing {
 public:
  virtual ~Pricing() = default;
  virtual size_t resources() const { return 0; }
  // Of a run or an update. `plan`: index into Bundle::ranks.
  virtual Task local(size_t plan, size_t instruction) const = 0;
  // Of a message (sender, receiver) or a collective (its loaded members).
  virtual Task transfer(std::span<const TransferEnd> ends) const = 0;
  // How long an end of a transfer keeps its stream when the transfer is over. `under_way`: for how long all of the
  // other ends had been there by then.
  virtual double behind_transfer(size_t, size_t, double) const { return 0; }
  // When the rank's host has issued an instruction, if no stream ever made it wait.
  virtual double issued(size_t, size_t) const { return 0; }
};

Timeline play(const plan::Bundle& bundle, const verify::Matching& matching, const Pricing& pricing);

}  // namespace piper::timeline
