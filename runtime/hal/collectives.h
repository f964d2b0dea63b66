// Communication between ranks as commands of a device's queues: messages, and the collectives of each of the plan's
// communicators. Virtual per rank and per group, so that a library may serve one kind of collective and our own sums
// another. `cpu/` implements it over a Transport. Every rank makes its groups and commands in the order of its plan.
#pragma once

#include <memory>
#include <vector>

#include "runtime/hal/address.h"
#include "runtime/hal/command.h"
#include "runtime/hal/control_channel.h"
#include "schemas/plan/plan.h"

namespace piper::hal {

struct SumOperands {
  Address data;
  Address out;        // of a reduce_scatter: [count], the own part of `data` or apart from it
  int64_t count = 0;  // elements; of a reduce_scatter: of a part, `data` is [members, count]
  plan::SumTypes types;
  Address scratch;  // plan::collective_scratch_bytes() bytes
};

struct GatherOperands {
  Address part;       // [bytes]: the own part of `data` or apart from it
  Address data;       // [members, bytes]
  int64_t bytes = 0;  // of a part
};

struct ExchangeOperands {
  Address send, recv;  // [members, bytes] each, apart from each other
  int64_t bytes = 0;   // of a part
  // i64 [members] each, read when the command executes, or nowhere both: rows of a part that travel.
  Address send_counts, recv_counts;
  int64_t row_bytes = 0;
};

// The collectives of one communicator of the plan, of which this rank is a member. R0404: what this implementation
// cannot do.
class Group {
 public:
  virtual ~Group() = default;
  virtual MadeCommand all_reduce(const SumOperands& operands) = 0;
  virtual MadeCommand reduce_scatter(const SumOperands& operands) = 0;
  virtual MadeCommand all_gather(const GatherOperands& operands) = 0;
  virtual MadeCommand all_to_all(const ExchangeOperands& operands) = 0;
};

class Collectives {
 public:
  virtual ~Collectives() = default;
  // All of the rank's groups, by communicator of the plan. Collective: all ranks of the run call it, once.
  virtual Result<std::vector<std::unique_ptr<Group>>> open_groups(const std::vector<plan::Communicator>& communicators,
                                                                  ControlChannel& control, const WaitControl& wait) = 0;
  // R0404: a channel's id is none of a plan.
  virtual MadeCommand send(const plan::Channel& channel, Address data, int64_t bytes) = 0;
  virtual MadeCommand recv(const plan::Channel& channel, Address data, int64_t bytes) = 0;
  // Bytes allocated for messages, beside the plan's buffers.
  virtual int64_t buffer_bytes() const = 0;
  // Holds memory that commands point to until no message can reach it any more.
  virtual void keep(std::shared_ptr<const void> memory) = 0;
  // Asked while a step is waited for: what has failed since it was issued. R0303.
  virtual Status check() { return {}; }
  // At the good end of a run: all ranks call it, and wait for each other. No recordings with commands of it are left,
  // no commands are issued after it. What was not closed waits for nobody when it goes.
  virtual void close() {}
  // After a failure, and after the recordings with commands of it: the device's queues wait for no other rank any
  // more, and what they did is lost. No commands after it.
  virtual void abort() {}
};

}  // namespace piper::hal
