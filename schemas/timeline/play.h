// The event simulation underlying timeline.h: streams go through their instructions in issue order, a wait lasts until
// its event is recorded, a transfer begins when the last of its ends has come, and activities that use one resource
// share it (fair_shares.h). What things cost is the Pricing's business. Where a Pricing has messages that travel on
// their own, every rank has one port out and one port in (schemas/plan/link_port.h), and an end of a transfer goes on
// when what the others sent has come through.
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

// What an end of a transfer sends and receives by itself, as the links of `piper-run --link-delay` have it: the message
// is sent when its end has come, whether or not the others have.
struct Messages {
  double out = 0, in = 0;  // of the rank's ports
  double latency = 0;      // from the sender's port to the receiver's
  bool receives = true;    // else the end goes on when all are there
  int rounds = 1;          // the next one is sent when this one has arrived
  double own = 0;          // after all that
};

class Pricing {
 public:
  virtual ~Pricing() = default;
  virtual size_t resources() const { return 0; }
  // For a run or an update. `plan`: index into Bundle::ranks.
  virtual Task local(size_t plan, size_t instruction) const = 0;
  // For a message (sender, receiver) or a collective (its loaded members).
  virtual Task transfer(std::span<const TransferEnd> ends) const = 0;
  // Whether ends of transfers have messages() beside their task.
  virtual bool has_messages() const { return false; }
  virtual Messages messages(size_t, size_t) const { return {}; }
  // When the rank's host has issued an instruction, if no stream ever made it wait.
  virtual double issued(size_t, size_t) const { return 0; }
};

Timeline play(const plan::Bundle& bundle, const verify::Matching& matching, const Pricing& pricing);

}  // namespace piper::timeline
