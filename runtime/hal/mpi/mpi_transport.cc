#include "runtime/hal/mpi/mpi_transport.h"

#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "runtime/hal/counter.h"
#include "runtime/hal/message_waits.h"
#include "schemas/base/check.h"

namespace piper::hal {

namespace {

using std::chrono::microseconds;

// A message is posted in parts of at most this many bytes: MPI counts are ints.
constexpr int64_t kMaxPart = int64_t{1} << 30;
// The standard asks for tags up to 32767. A smaller bound would need more communicators than libraries have.
constexpr int64_t kLeastTags = 1 << 15;

struct Job {
  explicit Job(std::vector<Transfer> all)
      : transfers(std::move(all)), open(transfers.size()), parts(transfers.size()) {}
  std::vector<Transfer> transfers;
  OpenTransfers open;
  std::vector<int> parts;  // by transfer, that MPI has not finished
  Counter done;
  uint32_t generation = 0;
  std::string failure;  // written at most once, before done is signalled
  int remaining = 0;    // parts that MPI has not finished, and one until all are posted
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
    job.remaining = 1;
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(&job);
    }
    changed_.notify_one();
  }
  // Takes a job that nobody waits for any more; it goes after its last part, in the round after that.
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
  struct Part {  // of a transfer: one request
    Job* job;
    const Transfer* transfer;
    int64_t bytes;
  };

  void work() {
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // short sleeps are short
    int provided = 0;
    if (int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided); code != MPI_SUCCESS) {
      finish_start("MPI does not start: " + mpi_error(code));
      return;
    }
    if (std::string failure = open_worlds(); !failure.empty()) {
      finish_start(std::move(failure));
    } else {
      const bool crowded = static_cast<unsigned>(size) >= std::max(1u, std::thread::hardware_concurrency());
      finish_start("");
      loop(crowded ? 20 : 2000);
    }
    for (MPI_Comm& world : worlds_) MPI_Comm_free(&world);
    MPI_Finalize();
  }

  // The communicators that together have a tag for every channel. Empty, or why there are none.
  std::string open_worlds() {
    // The library chooses which of the two an error belongs to that concerns no communicator.
    for (MPI_Comm any : {MPI_COMM_WORLD, MPI_COMM_SELF}) MPI_Comm_set_errhandler(any, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    void* bound = nullptr;
    int found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&bound), &found);
    tags_ = found == 0 ? 0 : std::min<int64_t>(*static_cast<int*>(bound), kChannels - 1) + 1;
    if (tags_ < kLeastTags)
      return "this MPI library has " + std::to_string(tags_) + " message tags, where the standard asks for " +
             std::to_string(kLeastTags);
    while (static_cast<int64_t>(worlds_.size()) * tags_ < kChannels) {
      MPI_Comm world = MPI_COMM_NULL;
      if (int code = MPI_Comm_dup(MPI_COMM_WORLD, &world); code != MPI_SUCCESS)
        return "MPI does not start: " + mpi_error(code);
      MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
      worlds_.push_back(world);
    }
    return "";
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
        std::erase_if(retired_, [](const std::unique_ptr<Job>& job) { return job->remaining == 0; });
      }
      if (!posting_.empty()) idle_polls = 0;
      for (Job* job : posting_) post(*job);
      posting_.clear();
      if (requests_.empty()) {
        int flag = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, worlds_.front(), &flag, MPI_STATUS_IGNORE);
      } else if (poll()) {
        idle_polls = 0;
      } else {
        ++idle_polls;
      }
    }
  }

  void post(Job& job) {
    std::fill(job.parts.begin(), job.parts.end(), 0);
    for (const Transfer& t : job.transfers) {
      MPI_Comm world = worlds_[static_cast<size_t>(t.channel / tags_)];
      const int tag = static_cast<int>(t.channel % tags_);
      for (int64_t at = 0; at == 0 || at < t.bytes; at += kMaxPart) {
        const int64_t bytes = std::min(kMaxPart, t.bytes - at);
        MPI_Request request = MPI_REQUEST_NULL;
        int code = t.direction == Direction::kSend
                       ? MPI_Isend(t.data + at, static_cast<int>(bytes), MPI_BYTE, t.peer, tag, world, &request)
                       : MPI_Irecv(t.data + at, static_cast<int>(bytes), MPI_BYTE, t.peer, tag, world, &request);
        if (code != MPI_SUCCESS) {
          fail(job, mpi_error(code));
          continue;
        }
        requests_.push_back(request);
        parts_.push_back({&job, &t, bytes});
        ++job.remaining;
        ++job.parts[static_cast<size_t>(&t - job.transfers.data())];
      }
    }
    complete(job);
  }

  // Receives that nobody waits for any more would keep MPI_Finalize waiting for ever.
  void give_up() {
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (parts_[i].transfer->direction == Direction::kReceive) MPI_Cancel(&requests_[i]);
      MPI_Request_free(&requests_[i]);
    }
  }

  // The stream is woken at once: the job's other parts may never finish.
  static void fail(Job& job, std::string failure) {
    if (!job.failure.empty()) return;
    job.failure = std::move(failure);
    job.done.signal(job.generation);
  }
  static void complete(Job& job) {
    if (--job.remaining == 0 && job.failure.empty()) job.done.signal(job.generation);
  }

  // Nothing is known of any request any more.
  void fail_all(const std::string& failure) {
    give_up();
    for (const Part& part : parts_) {
      fail(*part.job, failure);
      complete(*part.job);
    }
    requests_.clear();
    parts_.clear();
  }

  // Whether anything finished.
  bool poll() {
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int finished = 0;
    const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &finished, indices_.data(),
                                  statuses_.data());
    int error_class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
    if (code != MPI_SUCCESS && error_class != MPI_ERR_IN_STATUS) {
      fail_all(mpi_error(code));
      return true;
    }
    if (finished == MPI_UNDEFINED || finished <= 0) return false;
    for (int i = 0; i < finished; ++i) {
      const Part& part = parts_[static_cast<size_t>(indices_[static_cast<size_t>(i)])];
      const MPI_Status& status = statuses_[static_cast<size_t>(i)];
      if (error_class == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING)
        fail(*part.job, mpi_error(status.MPI_ERROR));
      else if (part.transfer->direction == Direction::kReceive) check_size(part, status);
      const auto transfer = static_cast<size_t>(part.transfer - part.job->transfers.data());
      if (--part.job->parts[transfer] == 0) part.job->open.close(transfer);
      complete(*part.job);
    }
    size_t kept = 0;
    std::sort(indices_.begin(), indices_.begin() + finished);
    for (size_t i = 0, next = 0; i < requests_.size(); ++i) {
      if (next < static_cast<size_t>(finished) && static_cast<size_t>(indices_[next]) == i) {
        ++next;
        continue;
      }
      requests_[kept] = requests_[i];
      parts_[kept++] = parts_[i];
    }
    requests_.resize(kept);
    parts_.resize(kept);
    return true;
  }

  static void check_size(const Part& part, const MPI_Status& status) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes != part.bytes)
      fail(*part.job, "rank " + std::to_string(part.transfer->peer) + " sent " + std::to_string(bytes) +
                          " bytes on channel " + std::to_string(part.transfer->channel) + " where this rank expects " +
                          std::to_string(part.bytes));
  }

  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job*> queue_, posting_;
  bool initialised_ = false, ending_ = false, aborting_ = false;
  int abort_code_ = 0;
  std::string start_failure_;
  std::vector<std::unique_ptr<Job>> retired_;
  // Only the progress thread:
  int64_t tags_ = 0;              // channel c is tag c % tags_ of communicator c / tags_
  std::vector<MPI_Comm> worlds_;  // of all ranks
  std::vector<MPI_Request> requests_;
  std::vector<Part> parts_;  // by request
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

class MpiExchange : public Exchange {
 public:
  MpiExchange(Progress& progress, std::vector<Transfer> transfers)
      : progress_(progress), job_(std::make_unique<Job>(std::move(transfers))) {
    for (const Transfer& t : job_->transfers)
      PIPER_CHECK(t.channel >= 0 && t.channel < kChannels, "channel ", t.channel);
  }
  ~MpiExchange() override { progress_.retire(std::move(job_)); }
  Status run(const WaitControl& control) override {
    if (job_->transfers.empty()) return {};
    PIPER_CHECK(job_->done.reached(job_->generation) && job_->failure.empty(),
                "an exchange runs again after it failed");
    ++job_->generation;
    job_->open.open_all();
    progress_.submit(*job_);
    const auto sleeps = [this, messages = control.messages] { job_->open.tell(job_->transfers, messages); };
    switch (job_->done.wait(job_->generation, control, sleeps)) {
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

class MpiTransportImpl : public MpiTransport {
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

Result<std::unique_ptr<MpiTransport>> MpiTransport::make() {
  auto transport = std::make_unique<MpiTransportImpl>();
  PIPER_RETURN_IF_ERROR(transport->start());
  return std::unique_ptr<MpiTransport>(std::move(transport));
}

}  // namespace piper::hal
