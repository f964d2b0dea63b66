// The communicators of NCCL that one rank is a member of: made together at start-up, watched while a step runs, ended
// together. All calls are made by the rank's thread.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/hal/control_channel.h"
#include "runtime/hal/stop.h"
#include "runtime/hal/transport.h"
#include "schemas/base/status.h"

namespace piper::hal {

// What the members of a communicator agree on, except `max_ctas`.
struct NcclMembership {
  std::string name;            // with `ranks` it distinguishes the communicators of a run
  std::vector<int32_t> ranks;  // by position; the first one makes the id
  int32_t max_ctas = 0;        // 0: NCCL's choice
  // What will be called; compared when the ids are exchanged. Done once on a few bytes at the start, so that
  // connections are made and their memory is taken before the first step. Messages between all members, or only from
  // the first to the second.
  struct Uses {
    bool all_messages = false, one_way = false, all_reduce = false, reduce_scatter = false, all_gather = false;
  } uses;
};

// To or from a member.
struct NcclMessage {
  Direction direction = Direction::kSend;
  int32_t peer = 0;  // position
  std::byte* data = nullptr;
  int64_t bytes = 0;
};

class NcclCommunicator {
 public:
  NcclCommunicator(NcclMembership membership, int32_t position)
      : membership_(std::move(membership)), position_(position) {}
  ncclComm_t handle() const { return handle_; }
  const std::vector<int32_t>& ranks() const { return membership_.ranks; }
  int32_t position() const { return position_; }
  // R0404: the rank is no member.
  Result<int32_t> position_of(int32_t rank) const;
  // For a result that is no success, and no call under way: R0303 with the call, the communicator and NCCL's words.
  Status status(ncclResult_t result, const char* call) const;

 private:
  friend class NcclCommunicators;
  std::string text() const;  // "communicator 'dp' of ranks 0, 1"
  NcclMembership membership_;
  int32_t position_;
  ncclComm_t handle_ = nullptr;  // nullptr: not made, or ended
};

class NcclCommunicators {
 public:
  // Collective over all ranks of the run, also where a rank has none. R0302, R0303, R0407, R0404: the members do not
  // agree. `wait.stop` outlives the result.
  static Result<std::unique_ptr<NcclCommunicators>> open(std::vector<NcclMembership> memberships,
                                                         ControlChannel& control, const WaitControl& wait);
  // Aborts what was not closed.
  ~NcclCommunicators();

  NcclCommunicator& at(size_t membership) const { return *all_.at(membership); }
  // What members of the device take there.
  int64_t device_bytes() const { return device_bytes_; }

  // After each call: waits until NCCL has enqueued it, which takes long only where connections are made. R0302, R0303;
  // stopped().
  Status enqueued(const NcclCommunicator& on, ncclResult_t result, const char* call, const WaitControl& wait);
  // Messages as one group, enqueued. R0302, R0303; stopped().
  Status issue(const NcclCommunicator& on, const std::vector<NcclMessage>& messages, cudaStream_t stream,
               const WaitControl& wait);
  // What has failed since, on any of them: R0303.
  Status check();
  // Graphs that hold calls of a communicator go before either of these, which wait for them.
  // Ends all of them with the other members, who come here as well when they have run to their good end. What fails
  // meanwhile, or takes too long, is aborted.
  void close();
  // Ends all of them without the other members: streams that wait in them go on. Nothing where they have ended.
  void abort();

 private:
  NcclCommunicators(std::vector<NcclMembership> memberships, int32_t rank, const WaitControl& wait);
  Status initialise(const std::vector<ncclUniqueId>& ids);
  Status use_each_once(const std::vector<size_t>& order);
  Status use_once(const NcclCommunicator& on, std::byte* place, cudaStream_t stream);
  // Whether NCCL is still at something on it.
  Result<bool> in_progress(const NcclCommunicator& on, const char* call) const;
  Status wait_for(const NcclCommunicator& on, const char* call, const WaitControl& wait) const;

  std::vector<std::unique_ptr<NcclCommunicator>> all_;
  WaitControl wait_;  // of the start, and of the end
  int64_t device_bytes_ = 0;
};

}  // namespace piper::hal
