#include "runtime/hal/mpi/mpi_communicator.h"

#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "runtime/hal/event.h"
#include "schemas/base/check.h"

namespace piper::hal {

namespace {

using std::chrono::microseconds;

// A message is posted in parts of at most this many bytes: MPI counts are ints.
constexpr int64_t kMaxPart = int64_t{1} << 30;

struct Job {
  std::vector<Transfer> transfers;
  Event done;
  uint32_t generation = 0;
  int remaining = 0;
  std::string failure;  // written before done is signalled
};

std::string mpi_error(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, static_cast<size_t>(length));
}

class Progress {
 public:
  Status start() {
    thread_ = std::thread([this] { work(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return initialised_; });
    if (start_failure_.empty()) return {};
    lock.unlock();
    thread_.join();
    return Status::failure("R0104", start_failure_);
  }
  ~Progress() {
    if (!thread_.joinable()) return;
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void submit(Job& job) {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(&job);
    }
    changed_.notify_one();
  }
  // Takes a job that is done but that this thread may still be signalling; it goes when the next round begins.
  void retire(std::unique_ptr<Job> job) {
    std::lock_guard lock(mutex_);
    retired_.push_back(std::move(job));
  }
  [[noreturn]] void abort(int exit_code) {
    {
      std::lock_guard lock(mutex_);
      abort_code_ = exit_code;
      aborting_ = true;
    }
    changed_.notify_all();
    // MPI_Abort ends this process too; the rest is for an MPI that hangs in a call.
    std::this_thread::sleep_for(std::chrono::seconds(10));
    std::_Exit(exit_code);
  }
  int rank = 0, size = 1;

 private:
  struct Active {
    Job* job;
    int64_t expected;  // bytes of a receive, -1 for a send
  };

  void work() {
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // short sleeps are short
    int provided = 0;
    if (int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided); code != MPI_SUCCESS) {
      finish_start("MPI does not start: " + mpi_error(code));
      return;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &world_);
    MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world_, &rank);
    MPI_Comm_size(world_, &size);
    const bool crowded = static_cast<unsigned>(size) >= std::max(1u, std::thread::hardware_concurrency());
    finish_start("");
    loop(crowded ? 20 : 2000);
    MPI_Comm_free(&world_);
    MPI_Finalize();
  }

  void finish_start(std::string failure) {
    std::lock_guard lock(mutex_);
    start_failure_ = std::move(failure);
    initialised_ = true;
    changed_.notify_all();
  }

  // eager_polls: polls without a pause after the last completion.
  void loop(int eager_polls) {
    int idle_polls = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        if (queue_.empty() && ending_ && !aborting_) return give_up();
        if (queue_.empty() && !aborting_) {
          if (requests_.empty()) {
            // Wakes now and then without work: some transports finish a peer's message only inside a call.
            changed_.wait_for(lock, std::chrono::milliseconds(idle_polls < 100 ? 1 : 10));
            ++idle_polls;
          } else if (idle_polls > eager_polls) {
            changed_.wait_for(lock, microseconds(idle_polls < eager_polls + 50    ? 20
                                                 : idle_polls < eager_polls + 500 ? 50
                                                                                  : 200));
          }
        }
        if (aborting_) {
          MPI_Abort(MPI_COMM_WORLD, abort_code_);
          return;
        }
        posting_.swap(queue_);
        retired_.clear();
      }
      if (!posting_.empty()) idle_polls = 0;
      for (Job* job : posting_) post(*job);
      posting_.clear();
      if (requests_.empty()) {
        int flag = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world_, &flag, MPI_STATUS_IGNORE);
      } else if (poll()) {
        idle_polls = 0;
      } else {
        ++idle_polls;
      }
    }
  }

  void post(Job& job) {
    job.remaining = 1;  // held until all parts are posted
    for (const Transfer& t : job.transfers) {
      for (int64_t at = 0; at == 0 || at < t.bytes; at += kMaxPart) {
        const int64_t bytes = std::min(kMaxPart, t.bytes - at);
        MPI_Request request = MPI_REQUEST_NULL;
        int code = t.direction == Direction::kSend
                       ? MPI_Isend(t.data + at, static_cast<int>(bytes), MPI_BYTE, t.peer, t.channel, world_, &request)
                       : MPI_Irecv(t.data + at, static_cast<int>(bytes), MPI_BYTE, t.peer, t.channel, world_, &request);
        if (code != MPI_SUCCESS) {
          job.failure = mpi_error(code);
          continue;
        }
        requests_.push_back(request);
        active_.push_back({&job, t.direction == Direction::kSend ? -1 : bytes});
        ++job.remaining;
      }
    }
    complete(job);
  }

  // Receives that nobody waits for any more would keep MPI_Finalize waiting for ever.
  void give_up() {
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (active_[i].expected >= 0) MPI_Cancel(&requests_[i]);
      MPI_Request_free(&requests_[i]);
    }
  }

  static void complete(Job& job) {
    if (--job.remaining == 0) job.done.signal(job.generation);
  }

  // Whether anything finished.
  bool poll() {
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int finished = 0;
    int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &finished, indices_.data(),
                            statuses_.data());
    if (finished == MPI_UNDEFINED || finished <= 0) return false;
    for (int i = 0; i < finished; ++i) {
      Active& active = active_[static_cast<size_t>(indices_[static_cast<size_t>(i)])];
      const MPI_Status& status = statuses_[static_cast<size_t>(i)];
      if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING)
        active.job->failure = mpi_error(status.MPI_ERROR);
      else if (active.expected >= 0) check_size(*active.job, active.expected, status);
      complete(*active.job);
    }
    size_t kept = 0;
    std::sort(indices_.begin(), indices_.begin() + finished);
    for (size_t i = 0, next = 0; i < requests_.size(); ++i) {
      if (next < static_cast<size_t>(finished) && static_cast<size_t>(indices_[next]) == i) {
        ++next;
        continue;
      }
      requests_[kept] = requests_[i];
      active_[kept++] = active_[i];
    }
    requests_.resize(kept);
    active_.resize(kept);
    return true;
  }

  static void check_size(Job& job, int64_t expected, const MPI_Status& status) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes != expected)
      job.failure = "rank " + std::to_string(status.MPI_SOURCE) + " sent " + std::to_string(bytes) +
                    " bytes on channel " + std::to_string(status.MPI_TAG) + " where this rank expects " +
                    std::to_string(expected);
  }

  std::thread thread_;
  MPI_Comm world_ = MPI_COMM_NULL;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job*> queue_, posting_;
  bool initialised_ = false, ending_ = false, aborting_ = false;
  int abort_code_ = 0;
  std::string start_failure_;
  // Only the progress thread:
  std::vector<std::unique_ptr<Job>> retired_;  // guarded by mutex_
  std::vector<MPI_Request> requests_;
  std::vector<Active> active_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

class MpiExchange : public Exchange {
 public:
  MpiExchange(Progress& progress, std::vector<Transfer> transfers)
      : progress_(progress), job_(std::make_unique<Job>()) {
    job_->transfers = std::move(transfers);
  }
  // MPI may still write to an exchange that was given up: its job stays until the process ends.
  ~MpiExchange() override {
    if (job_->done.reached(job_->generation)) progress_.retire(std::move(job_));
    else (void)job_.release();
  }
  Status run(const WaitControl& control) override {
    if (job_->transfers.empty()) return {};
    ++job_->generation;
    progress_.submit(*job_);
    switch (job_->done.wait(job_->generation, control)) {
      case WaitResult::kReady: break;
      case WaitResult::kStopped: return stopped();
      case WaitResult::kTimedOut:
        return Status::failure(
            "R0302", "waited " + std::to_string(control.timeout.count() / 1000) + " s for " + describe_wait_all());
    }
    if (!job_->failure.empty()) return Status::failure("R0303", job_->failure);
    return {};
  }
  void resize(size_t transfer, int64_t bytes) override { job_->transfers.at(transfer).bytes = bytes; }

 private:
  std::string describe_wait_all() const {
    std::string text;
    for (const Transfer& t : job_->transfers) text += (text.empty() ? "" : " or ") + describe_wait(t);
    return text;
  }
  Progress& progress_;
  std::unique_ptr<Job> job_;
};

class MpiCommunicatorImpl : public MpiCommunicator {
 public:
  Status start() { return progress_.start(); }
  int32_t rank() const override { return progress_.rank; }
  int32_t world_size() const override { return progress_.size; }
  std::unique_ptr<Exchange> prepare(std::vector<Transfer> transfers) override {
    return std::make_unique<MpiExchange>(progress_, std::move(transfers));
  }
  int64_t buffer_bytes() const override { return 0; }
  [[noreturn]] void abort(int exit_code) override { progress_.abort(exit_code); }

 private:
  Progress progress_;
};

}  // namespace

Result<std::unique_ptr<MpiCommunicator>> MpiCommunicator::make() {
  auto communicator = std::make_unique<MpiCommunicatorImpl>();
  PIPER_RETURN_IF_ERROR(communicator->start());
  return std::unique_ptr<MpiCommunicator>(std::move(communicator));
}

}  // namespace piper::hal
