// The ranks of this node from their start to their end: passes on what they print and what signals say, and where one
// fails, ends the others. Used by piper-launch, once an attempt.
#pragma once

#include <optional>
#include <vector>

#include "launcher/child_process.h"
#include "launcher/cluster/lease.h"
#include "launcher/launch_plan.h"
#include "launcher/ring_folder.h"
#include "launcher/signals.h"
#include "launcher/store_socket.h"

namespace piper::launcher {

// What an attempt ended with.
struct Outcome {
  int exit_status = 0;            // of the first rank that failed
  int32_t failed_rank = -1;       // -1: none
  std::vector<std::string> tail;  // of what that rank printed to standard error
  bool asked_to_stop = false;     // by a signal that ends the ranks
  bool asked_to_save = false;     // by SIGUSR1: a checkpoint, then the end
  Status hang;                    // L0121, where the run was ended because of one
  std::vector<int> statuses;      // of each rank of this node
};

class Supervisor {
 public:
  Supervisor(const LaunchPlan& plan, Signals& signals) : plan_(plan), signals_(signals) {}
  // Starts the ranks and returns when all have ended. L0102, L0104: they could not be started; none is left then.
  Result<Outcome> run(const std::vector<std::string>& arguments, int32_t attempt);

  // What the other ranks have between SIGTERM and SIGKILL once one has failed: they have nothing left to finish.
  static constexpr std::chrono::milliseconds kAfterFailure{5000};
  // What processes that outlive their rank have to die in.
  static constexpr std::chrono::milliseconds kOrphans{2000};
  // How often a lease is looked at.
  static constexpr std::chrono::milliseconds kLookAtLease{200};
  // Exit status of a run that hangs.
  static constexpr int kHang = 81;

 private:
  using Clock = std::chrono::steady_clock;

  Status watch();
  Status start(const std::vector<std::string>& arguments, int32_t attempt);
  // `socket`: that listens where the ranks meet, for rank 0; -1: none. `port`: where that is.
  Status start_rank(ChildStart start, int32_t rank, int socket, uint16_t port, int32_t attempt);
  void wait_for_something();
  void take_signals();
  void take_end(size_t local);
  void look_for_hang();
  void look_at_lease();
  std::chrono::milliseconds grace() const;
  void kill_behind(std::chrono::milliseconds time);
  void signal_all(int number);
  size_t alive() const;

  const LaunchPlan& plan_;
  Signals& signals_;
  std::vector<ChildProcess> ranks_;  // of this node
  std::optional<RingFolder> rings_;  // none: nobody watches
  std::optional<HangWatch> hangs_;
  std::optional<Lease> lease_;  // none: the ranks live by themselves
  Outcome outcome_;
  std::optional<Clock::time_point> kill_at_;
};

}  // namespace piper::launcher
