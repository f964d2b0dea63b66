// `--check-replicas N`: ranks that keep the same elements of the training's state compare digests of them. They compute
// the same update on the same numbers, so that a difference is a mistake of a machine. Which ranks keep the same is
// agreed at load, of their plans' placements; a check is one small message from every rank to all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/load_rank.h"
#include "runtime/exec/session/step_hook.h"
#include "runtime/hal/control_channel.h"

namespace piper::exec {

class ReplicaCheck : public StepHook {
 public:
  // Collective. All outlive it. `every`: steps from one check to the next.
  static Result<std::unique_ptr<ReplicaCheck>> make(const LoadedRank& rank, hal::ControlChannel& control,
                                                    const hal::WaitControl& wait, int64_t every);
  // R0811 on every rank where a check is due and finds a difference.
  Status after(int64_t step) override;
  // After a step; nothing may be under way on the device. Collective. What differs, the same on every rank, "" where
  // nothing does. Errors of the channel and the device.
  Result<std::string> run(int64_t step);
  // Bytes of this rank that are digested in a check.
  int64_t bytes() const { return bytes_; }

 private:
  // Elements of a tensor that a rank keeps.
  struct Kept {
    std::string name;  // tensor, kind and elements: the same words on every rank that keeps them
    hal::Address at;
    int64_t bytes = 0;
  };
  // What the same ranks keep.
  struct Shared {
    std::vector<int32_t> ranks;      // two or more, ascending
    std::vector<std::string> names;  // in the order of digests
    std::vector<const Kept*> mine;   // by name; empty where this rank is none of them
  };
  ReplicaCheck(const LoadedRank& rank, hal::ControlChannel& control, const hal::WaitControl& wait, int64_t every)
      : rank_(rank), control_(control), wait_(wait), every_(every) {}
  Status agree();
  Result<uint64_t> digest(const Kept& kept);
  Result<std::vector<std::vector<uint64_t>>> exchange(const std::vector<uint64_t>& mine);
  Result<std::string> name_difference(const Shared& shared);

  const LoadedRank& rank_;
  hal::ControlChannel& control_;
  hal::WaitControl wait_;
  int64_t every_;
  std::vector<Kept> kept_;
  std::vector<Shared> shared_;  // of the whole run, in one order on every rank
  std::vector<std::byte> block_;
  int64_t bytes_ = 0, agreed_step_ = 0;  // after which the last check found nothing; 0: none has
};

}  // namespace piper::exec
