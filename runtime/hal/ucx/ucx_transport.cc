#include "runtime/hal/ucx/ucx_transport.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/hal/counter.h"
#include "runtime/hal/message_waits.h"
#include "runtime/hal/ucx/process_watch.h"
#include "schemas/base/check.h"

// For headers of the library that are not written for C++.
extern "C" {
void ucs_debug_disable_signal(int signal_number);
ucs_status_t ucs_global_opts_set_value(const char* name, const char* value);
}

namespace piper::hal {

namespace {

using Clock = std::chrono::steady_clock;

class Progress;
struct Job;

struct Part {  // of a job: one transfer
  Progress* progress = nullptr;
  Job* job = nullptr;
  const Transfer* transfer = nullptr;
  void* request = nullptr;  // the library's, until it is completed
  bool done = true;
};

struct Job {
  explicit Job(std::vector<Transfer> all) : transfers(std::move(all)), open(transfers.size()) {}
  std::vector<Transfer> transfers;
  OpenTransfers open;
  std::vector<Part> parts;  // by transfer
  Counter done;
  uint32_t generation = 0;
  Status failure;     // written at most once, before done is signalled
  int remaining = 0;  // parts that are not done, and one until all are posted
  size_t at = 0;      // in the list of active jobs
};

Status library_failure(const std::string& what, ucs_status_t status) {
  return Status::failure("R0303", "UCX: " + what + ": " + ucs_status_string(status));
}

Status other_size(const Transfer& t, const std::string& bytes) {
  return Status::failure("R0301", "rank " + std::to_string(t.peer) + " sent " + bytes + " bytes on channel " +
                                      std::to_string(t.channel) + " where this rank expects " +
                                      std::to_string(t.bytes));
}

// A tag says who sends, and on which channel.
uint64_t tag_of(int32_t sender, int32_t channel) {
  return static_cast<uint64_t>(sender) << 32 | static_cast<uint32_t>(channel);
}
constexpr uint64_t kWholeTag = ~uint64_t{0};

// Makes every call of the library: on the thread that joins until start(), on its own from then on.
class Progress {
 public:
  ~Progress() {
    if (thread_.joinable()) {
      {
        std::lock_guard lock(mutex_);
        ending_ = true;
      }
      wake();
      thread_.join();
    }
    if (wake_ >= 0) ::close(wake_);
    // A message that a dead rank never took is left to the end of the process: the library has no way to take it back.
    if (!active_.empty()) return;
    for (ucp_ep_h endpoint : endpoints_)
      if (endpoint != nullptr) close_endpoint(endpoint);
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    if (context_ != nullptr) ucp_cleanup(context_);
  }

  enum class Memory : uint8_t { kShared, kApart };
  Status open(UcxTransport::Reach reach, Memory memory);
  Result<std::string> address() const;
  Status start(std::vector<std::string> addresses, const std::vector<std::string>& identities, int32_t own_rank);

  void submit(Job& job) {
    job.remaining = 1;
    bool asleep = false;
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(&job);
      asleep = asleep_;
    }
    if (asleep) wake();
  }
  // Takes a job that nobody waits for any more; it goes after its last part, in the round after that.
  void retire(std::unique_ptr<Job> job) {
    std::lock_guard lock(mutex_);
    retired_.push_back(std::move(job));
  }
  int32_t rank() const { return rank_; }
  int32_t size() const { return static_cast<int32_t>(addresses_.size()); }

 private:
  // A rank that has ended, or cannot be reached: what waits for it fails at `until`.
  struct Leaving {
    int32_t rank = -1;
    Clock::time_point until;
    std::string why;
    bool told = false;
  };

  void wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
  }

  void loop(int eager_polls) {
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    for (int idle_polls = 0;;) {
      {
        std::lock_guard lock(mutex_);
        if (ending_ && queue_.empty()) return give_up();
        posting_.swap(queue_);
        std::erase_if(retired_, [](const std::unique_ptr<Job>& job) { return job->remaining == 0; });
      }
      for (Job* job : posting_) post(*job);
      const bool moved = ucp_worker_progress(worker_) != 0 || !posting_.empty();
      posting_.clear();
      if (!leaving_.empty()) fail_those_who_wait();
      if (moved) idle_polls = 0;
      else if (!active_.empty() && idle_polls < eager_polls) ++idle_polls;
      else sleep();
    }
  }

  // Until the library, a stream or the end of a process wants something.
  void sleep() {
    if (ucp_worker_arm(worker_) == UCS_ERR_BUSY) return;
    {
      std::lock_guard lock(mutex_);
      if (!queue_.empty() || ending_) return;
      asleep_ = true;
    }
    // Connections are looked after in calls alone.
    int timeout_ms = 1000;
    for (const Leaving& leaving : leaving_)
      if (!leaving.told) timeout_ms = 20;
    pollfd descriptors[] = {{descriptor_, POLLIN, 0}, {wake_, POLLIN, 0}, {watch_.descriptor(), POLLIN, 0}};
    (void)::poll(descriptors, 3, timeout_ms);
    {
      std::lock_guard lock(mutex_);
      asleep_ = false;
    }
    uint64_t count = 0;
    if (descriptors[1].revents != 0) (void)!::read(wake_, &count, sizeof count);
    for (const int32_t rank : watch_.take_ended()) leaves(rank, "");
  }

  void post(Job& job) {
    job.at = active_.size();
    active_.push_back(&job);
    job.remaining += static_cast<int>(job.transfers.size());
    for (Part& part : job.parts) part.done = false;
    for (Part& part : job.parts) post(part);
    one_less(job);
    for (Leaving& leaving : leaving_) leaving.told = false;  // this job, too, may wait for it
  }

  void post(Part& part) {
    const Transfer& t = *part.transfer;
    const auto bytes = static_cast<size_t>(t.bytes);
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    how.user_data = &part;
    ucp_ep_h endpoint = nullptr;
    // For another node a receive, too, hears by its endpoint that the sender is gone.
    if (t.direction == Direction::kSend || !watch_.on_this_node(t.peer)) {
      auto found = endpoint_to(t.peer);
      if (!found.ok()) {
        fail(*part.job, found.take_status());
        return done(part);
      }
      endpoint = *found;
    }
    if (t.direction == Direction::kSend) {
      how.cb.send = [](void*, ucs_status_t status, void* its) {
        Part& sent = *static_cast<Part*>(its);
        sent.progress->ended(sent, status, static_cast<size_t>(sent.transfer->bytes));
      };
      took(part, ucp_tag_send_nbx(endpoint, t.data, bytes, tag_of(rank_, t.channel), &how), bytes);
      return;
    }
    // The size of a message that is there already, too, is given to the callback alone.
    how.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    how.cb.recv = [](void*, ucs_status_t status, const ucp_tag_recv_info_t* received, void* its) {
      Part& came = *static_cast<Part*>(its);
      came.progress->ended(came, status, received->length);
    };
    void* const request = ucp_tag_recv_nbx(worker_, t.data, bytes, tag_of(t.peer, t.channel), kWholeTag, &how);
    took(part, request, 0);
  }

  // What a call returned: a request whose callback comes later or has come, nothing where all is done, or an error.
  void took(Part& part, ucs_status_ptr_t request, size_t bytes) {
    if (!UCS_PTR_IS_PTR(request)) ended(part, UCS_PTR_RAW_STATUS(request), bytes);
    else if (ucp_request_check_status(request) == UCS_INPROGRESS) part.request = request;
    else ucp_request_free(request);
  }

  void ended(Part& part, ucs_status_t status, size_t bytes) {
    if (part.request != nullptr) ucp_request_free(part.request);
    part.request = nullptr;
    const auto expected = static_cast<size_t>(part.transfer->bytes);
    const bool came = status == UCS_OK || status == UCS_ERR_MESSAGE_TRUNCATED;
    if (!came && part.job->failure.ok() && !ending_here_)
      return leaves(part.transfer->peer, ucs_status_string(status));  // undone until the farewell is over
    if (status == UCS_ERR_MESSAGE_TRUNCATED) fail(*part.job, other_size(*part.transfer, "more"));
    else if (came && bytes != expected) fail(*part.job, other_size(*part.transfer, std::to_string(bytes)));
    done(part);
  }

  void done(Part& part) {
    if (part.done) return;
    part.done = true;
    part.job->open.close(static_cast<size_t>(part.transfer - part.job->transfers.data()));
    one_less(*part.job);
  }

  void one_less(Job& job) {
    if (--job.remaining > 0) return;
    active_.back()->at = job.at;
    active_[job.at] = active_.back();
    active_.pop_back();
    if (job.failure.ok()) job.done.signal(job.generation);
  }

  // The stream is woken at once: the job's other parts may never finish.
  static void fail(Job& job, Status failure) {
    if (!job.failure.ok()) return;
    job.failure = std::move(failure);
    job.done.signal(job.generation);
  }

  void leaves(int32_t rank, const std::string& why) {
    const auto known =
        std::find_if(leaving_.begin(), leaving_.end(), [rank](const Leaving& l) { return l.rank == rank; });
    if (known != leaving_.end()) known->told = false;
    else leaving_.push_back({rank, Clock::now() + UcxTransport::kFarewell, why});
  }

  void fail_those_who_wait() {
    std::vector<Part*> waiting;
    for (Leaving& leaving : leaving_) {
      if (leaving.told || Clock::now() < leaving.until) continue;
      leaving.told = true;
      const size_t before = waiting.size();
      for (Job* job : active_)
        for (Part& part : job->parts)
          if (!part.done && part.transfer->peer == leaving.rank) waiting.push_back(&part);
      for (size_t i = before; i < waiting.size(); ++i)
        fail(*waiting[i]->job,
             Status::failure("R0303", leaving.why.empty() ? "rank " + std::to_string(leaving.rank) + " has ended"
                                                          : "rank " + std::to_string(leaving.rank) +
                                                                " cannot be reached: " + leaving.why));
    }
    for (Part* part : waiting) withdraw(*part);
  }

  // A send that shared memory has not taken can only be left.
  void withdraw(Part& part) {
    if (part.done) return;
    if (part.request == nullptr) done(part);
    else if (part.transfer->direction == Direction::kReceive) ucp_request_cancel(worker_, part.request);
  }

  void give_up() {
    ending_here_ = true;
    std::vector<Part*> posted;
    for (Job* job : active_)
      for (Part& part : job->parts)
        if (!part.done) posted.push_back(&part);
    for (Part* part : posted) withdraw(*part);
  }

  Result<ucp_ep_h> endpoint_to(int32_t peer) {
    ucp_ep_h& endpoint = endpoints_.at(static_cast<size_t>(peer));
    if (endpoint != nullptr) return endpoint;
    ucp_ep_params_t how{};
    how.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                     UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_USER_DATA;
    how.address = reinterpret_cast<const ucp_address_t*>(addresses_[static_cast<size_t>(peer)].data());
    // Shared memory knows no failures: there the process is watched.
    how.err_mode = watch_.on_this_node(peer) ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
    how.user_data = this;
    how.err_handler.cb = [](void* its, ucp_ep_h failed, ucs_status_t status) {
      auto& progress = *static_cast<Progress*>(its);
      for (size_t rank = 0; rank < progress.endpoints_.size(); ++rank)
        if (progress.endpoints_[rank] == failed) progress.leaves(static_cast<int32_t>(rank), ucs_status_string(status));
    };
    how.err_handler.arg = this;
    const ucs_status_t status = ucp_ep_create(worker_, &how, &endpoint);
    if (status == UCS_OK) return endpoint;
    endpoint = nullptr;
    return library_failure("no way to rank " + std::to_string(peer), status);
  }

  // Whoever is closed after the last message has nothing to lose; one that failed may never answer.
  void close_endpoint(ucp_ep_h endpoint) {
    ucp_request_param_t how{};
    ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &how);
    if (!UCS_PTR_IS_PTR(request)) return;
    const Clock::time_point end = Clock::now() + UcxTransport::kFarewell;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && Clock::now() < end) ucp_worker_progress(worker_);
    ucp_request_free(request);
  }

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1, wake_ = -1;  // the library's, and the streams'
  int32_t rank_ = 0;
  std::vector<std::string> addresses_;  // by rank
  std::thread thread_;
  std::mutex mutex_;
  std::vector<Job*> queue_, posting_;
  bool ending_ = false, asleep_ = false;
  std::vector<std::unique_ptr<Job>> retired_;
  // Only the progress thread:
  ProcessWatch watch_;
  std::vector<ucp_ep_h> endpoints_;  // by rank; null: nothing was sent there yet
  std::vector<Job*> active_;         // posted, with parts that are not done
  std::vector<Leaving> leaving_;
  bool ending_here_ = false;
};

Status Progress::open(UcxTransport::Reach reach, Memory memory) {
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK)
    return library_failure("its settings", status);
  // Ranks of one node need no network, and then have no open port.
  if (std::getenv("UCX_TLS") == nullptr) {
    if (memory == Memory::kApart) ucp_config_modify(config, "TLS", "^sm");
    else if (reach == UcxTransport::Reach::kOneNode) ucp_config_modify(config, "TLS", "self,sm");
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  const ucs_status_t begun = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  if (begun != UCS_OK) {
    context_ = nullptr;
    return library_failure("it does not start", begun);
  }
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (const ucs_status_t status = ucp_worker_create(context_, &worker, &worker_); status != UCS_OK) {
    worker_ = nullptr;
    return library_failure("it does not start", status);
  }
  if (const ucs_status_t status = ucp_worker_get_efd(worker_, &descriptor_); status != UCS_OK)
    return library_failure("it cannot be waited for", status);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return Status::failure("R0303", std::string("no event descriptor: ") + std::strerror(errno));
  return {};
}

Result<std::string> Progress::address() const {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  if (const ucs_status_t status = ucp_worker_get_address(worker_, &address, &bytes); status != UCS_OK)
    return library_failure("it has no address", status);
  std::string text(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker_, address);
  return text;
}

Status Progress::start(std::vector<std::string> addresses, const std::vector<std::string>& identities,
                       int32_t own_rank) {
  rank_ = own_rank;
  addresses_ = std::move(addresses);
  endpoints_.assign(addresses_.size(), nullptr);
  PIPER_RETURN_IF_ERROR(watch_.open(identities, own_rank));
  for (const int32_t rank : watch_.take_ended()) leaves(rank, "");
  const auto here = static_cast<unsigned>(watch_.ranks_on_this_node());
  const bool crowded = here >= std::max(1u, std::thread::hardware_concurrency());
  thread_ = std::thread([this, crowded] { loop(crowded ? 20 : 2000); });
  return {};
}

class UcxExchange : public Exchange {
 public:
  UcxExchange(Progress& progress, std::vector<Transfer> transfers)
      : progress_(progress), job_(std::make_unique<Job>(std::move(transfers))) {
    for (const Transfer& t : job_->transfers)
      PIPER_CHECK(t.channel >= 0 && t.channel < kChannels, "channel ", t.channel);
    for (const Transfer& t : job_->transfers) job_->parts.push_back({&progress, job_.get(), &t});
  }
  ~UcxExchange() override { progress_.retire(std::move(job_)); }
  Status run(const WaitControl& control) override {
    if (job_->transfers.empty()) return {};
    PIPER_CHECK(job_->done.reached(job_->generation) && job_->failure.ok(), "an exchange runs again after it failed");
    ++job_->generation;
    job_->open.open_all();
    progress_.submit(*job_);
    const auto sleeps = [this, messages = control.messages] { job_->open.tell(job_->transfers, messages); };
    switch (job_->done.wait(job_->generation, control, sleeps)) {
      case WaitResult::kReady: return job_->failure.ok() ? Status() : Status(job_->failure.error());
      case WaitResult::kStopped: return stopped();
      case WaitResult::kTimedOut: break;
    }
    std::string awaited;
    for (const Transfer& t : job_->transfers) awaited += (awaited.empty() ? "" : " or ") + describe_wait(t);
    return Status::failure("R0302", "waited " + std::to_string(control.timeout.count() / 1000) + " s for " + awaited);
  }
  void resize(size_t transfer, int64_t bytes) override { job_->transfers.at(transfer).bytes = bytes; }

 private:
  Progress& progress_;
  std::unique_ptr<Job> job_;
};

class UcxTransportImpl : public UcxTransport {
 public:
  Status join_others(ControlChannel& control, Reach reach, const WaitControl& wait) {
    PIPER_ASSIGN(const std::vector<std::string> identities, control.allgather(process_identity(), wait));
    Status opened = progress_.open(
        reach, share_memory_without_network(identities) ? Progress::Memory::kApart : Progress::Memory::kShared);
    Result<std::string> own = opened.ok() ? progress_.address() : Result<std::string>(std::move(opened));
    // Also a rank that has none takes part, so that nobody waits for it.
    PIPER_ASSIGN(std::vector<std::string> addresses, control.allgather(own.ok() ? *own : "", wait));
    if (!own.ok()) return own.take_status();
    for (size_t rank = 0; rank < addresses.size(); ++rank)
      if (addresses[rank].empty())
        return Status::failure("R0303", "UCX does not start on rank " + std::to_string(rank));
    PIPER_RETURN_IF_ERROR(progress_.start(std::move(addresses), identities, control.rank()));
    // What its users hear of from now on need not appear in the output a second time, in the library's words.
    if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
    return {};
  }
  int32_t rank() const override { return progress_.rank(); }
  int32_t world_size() const override { return progress_.size(); }
  std::unique_ptr<Exchange> prepare(std::vector<Transfer> transfers) override {
    return std::make_unique<UcxExchange>(progress_, std::move(transfers));
  }
  int64_t buffer_bytes() const override { return 0; }

 private:
  Progress progress_;
};

}  // namespace

Result<std::unique_ptr<UcxTransport>> UcxTransport::join(ControlChannel& control, Reach reach,
                                                         const WaitControl& wait) {
  auto transport = std::make_unique<UcxTransportImpl>();
  PIPER_RETURN_IF_ERROR(transport->join_others(control, reach, wait));
  return std::unique_ptr<UcxTransport>(std::move(transport));
}

void UcxTransport::leave_signals_alone() {
  for (const int signal_number : {SIGILL, SIGBUS, SIGFPE, SIGSEGV}) ucs_debug_disable_signal(signal_number);
}

}  // namespace piper::hal
