// A rank's life from start to end: agree with the others, load, step, save. Every rank of a run calls
// run_rank() with its own backend and control channel; what is the same for the ranks of a process is shared.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/checkpoint/checkpointer.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/data/data_source.h"
#include "runtime/exec/session/checkpoint_schedule.h"
#include "runtime/exec/load_rank.h"
#include "runtime/exec/session/stop_agreement.h"
#include "runtime/hal/link_delay.h"
#include "runtime/hal/stop.h"
#include "runtime/trace/rings.h"

namespace piper::exec {

// What --digest and --trace ask for.
struct StepsToFile {
  std::string file;                     // empty: nothing
  int64_t first = 1, last = INT64_MAX;  // steps
};

struct SessionOptions {
  int64_t steps = 0;
  uint64_t seed = 0;
  std::chrono::milliseconds timeout{300000};
  std::optional<hal::LinkDelay> link_delay;        // all ranks must have the same
  std::string log, save, save_gradients, profile;  // files; empty: none
  bool trained_only = false;                       // in what `save` and save_best write
  std::string calibrate;                           // the file of kernel times; empty: none
  std::string kernel_times;                        // the file that kernels wait by; empty: they compute
  std::string tensorboard;                         // the folder of event files; empty: none
  std::string rings;                               // the folder of the ranks' rings; empty: in memory alone
  std::string status_pages;                        // the file of schemas/live/page.h; empty: none
  int64_t restarts = 0;                            // of the run, before this process
  CheckpointSchedule checkpoints;
  bool stop_on_nan = true;
  double peak_flops = 0;       // FLOP/s that a rank's device can do, for MFU; 0: not known
  int64_t check_replicas = 0;  // every so many steps; 0: never
  StepsToFile digests, trace;
};

// Evaluations by the bundle's second program.
struct SessionEvaluation {
  const data::DataSource* data = nullptr;  // nullptr: there are none
  std::string data_digest;                 // see Session
  int64_t every = 0;                       // steps; 0: after the last step alone
  int64_t batches = 0;                     // of each, the first ones of the data
  bool alone = false;                      // the run does not train
  bool perplexity = false;                 // the loss is a mean cross entropy
  std::string save_best;                   // the weights of the smallest loss; empty: not written
};

// Shared by the ranks of a process; outlives them.
struct Session {
  const plan::Bundle* bundle = nullptr;
  std::string directory, bundle_digest;  // of the bundle
  const checkpoint::WeightSource* weights = nullptr;
  const data::DataSource* data = nullptr;
  // Where other processes may have read other files: WeightSource::quick_digest() and data::quick_data_digest().
  std::string weights_digest, data_digest;
  SessionEvaluation evaluation;
  checkpoint::Storage* storage = nullptr;              // of checkpoints; nullptr: none are saved
  std::string checkpoint_folder;                       // that of `storage`
  const checkpoint::OpenCheckpoint* resume = nullptr;  // where the run goes on; nullptr: it begins
  checkpoint::RunIdentity identity;                    // where checkpoints are saved
  checkpoint::WriterOptions writer;
  StopRequests requests;
  StopAgreement* stopping = nullptr;  // nullptr: nobody looks at requests
  SessionOptions options;
  trace::Rings rings;
  hal::Stop stop;
  // What all ranks have found alike, after the same step, ends the run: no rank waits for another one then, and one of
  // them reports it.
  void end_with(Status found);
  std::mutex verdict_mutex;
  Status verdict;                      // ok: there is none
  Status log_failure;                  // of the reporting rank: the log is incomplete, all else was done
  std::atomic<bool> started{false};    // the first step began
  std::atomic<bool> stopped{false};    // after a step that all ranks agreed on, and whose checkpoint is committed
  std::atomic<int64_t> committed{0};   // step of the newest checkpoint of this run; for messages
  std::atomic<int64_t> steps_done{0};  // by the reporting rank, or by any where it is elsewhere; for messages
};

// `checkpoint_control`: for the threads that write checkpoints; needed where they are saved.
// Never throws: a failure is raised in session.stop, once, and wakes the other ranks of the process.
void run_rank(Session& session, const plan::RankPlan& plan, const MakeBackend& make_backend,
              hal::ControlChannel& control, hal::ControlChannel* checkpoint_control = nullptr);

}  // namespace piper::exec
