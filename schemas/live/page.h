// How far a rank is, for whoever watches it: a page of shared memory per rank, in one file, that outlives the rank.
// Written by piper-run without a system call; read by piperd, which believes nothing of it. It holds no history and is
// no message: a reader sees the newest state that was written as a whole.
//
// A page has two places for the state. The writer fills the older one and then counts up, so a rank that is killed in
// between leaves the other one whole (Lamport, Concurrent Reading and Writing, CACM 20(11), 1977).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "schemas/base/status.h"

namespace piper::live {

inline constexpr int64_t kPageBytes = 4096;  // each rank maps its own, and can damage no other

enum class RankState : int64_t {
  kStarting,       // reads plan, weights or checkpoint; meets the other ranks
  kTraining,       // in a step, or between two
  kCheckpointing,  // copies its part of a checkpoint, or waits for the one before to be written
  kEvaluating,
  kStopping,  // saves what a request to stop asks for
  kDone       // all steps are done
};
inline constexpr int64_t kNumRankStates = 6;
const char* name_of(RankState state);  // "training"

struct RankStatus {
  int64_t rank = 0, pid = 0;
  int64_t step = 0, steps = 0;                             // done, of
  double loss = std::numeric_limits<double>::quiet_NaN();  // of `step`; known to the reporting rank alone
  double tokens_per_s = 0;                                 // of all ranks; 0: samples are no token sequences
  double mfu = 0;  // of the newest step, 1: the devices' peak; known to the reporting rank, 0: not known
  RankState state = RankState::kStarting;
  int64_t monotonic_ns = 0, wall_ns = 0;  // CLOCK_MONOTONIC and CLOCK_REALTIME when this was written
  int64_t checkpoint_step = 0;            // of the newest one that is committed, 0: none
  double checkpoint_s = 0;                // it took from the end of its step to its commit; 0: not known
  int64_t skipped = 0;                    // steps that an overflow left without an update; known to the reporting rank
  int64_t restarts = 0;                   // of the run, before this attempt
};

// The mapping of one rank's page.
class Page {
 public:
  // An empty page writes nowhere and has nothing.
  Page() = default;
  Page(Page&& other) noexcept;
  Page& operator=(Page&& other) noexcept;
  ~Page();
  // L0137: there is no such file, or it has no page of this rank.
  static Result<Page> map(const std::string& path, int64_t rank);

  // One thread of one process at a time. Fills in the two times.
  void write(RankStatus status);
  // The same, of a rank of another machine, by which the times are.
  void copy(const RankStatus& status);
  // The newest state; nothing where none was written, or what is there cannot be a state of `rank`. Any process. The
  // file may be cut under it: SIGBUS, so a reader owns the file.
  std::optional<RankStatus> read(int64_t rank) const;

 private:
  struct Image;
  explicit Page(Image* image) : image_(image) {}
  Image* image_ = nullptr;
};

// A new file of empty pages, for ranks [0, ranks), readable by its owner alone; one of that name is removed, and those
// who have mapped it keep theirs. L0137.
Status create_pages(const std::string& path, int64_t ranks);

}  // namespace piper::live
