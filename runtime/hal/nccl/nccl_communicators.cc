#include "runtime/hal/nccl/nccl_communicators.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "runtime/hal/cuda/cuda_check.h"
#include "runtime/hal/cuda/cuda_handles.h"
#include "runtime/hal/polling.h"

namespace piper::hal {

namespace {

std::string key_of(const NcclMembership& membership) {
  std::string key = (membership.uses.one_way ? "channel\t" : "team\t") + membership.name;
  for (const int32_t rank : membership.ranks) key += "\t" + std::to_string(rank);
  return key;
}

std::string calls_of(const NcclMembership::Uses& uses) {
  std::string calls;
  const auto add = [&](bool is, const char* call) {
    if (is) calls += (calls.empty() ? "" : " and ") + std::string(call);
  };
  add(uses.one_way, "messages one way");
  add(uses.all_messages, "messages");
  add(uses.all_reduce, "ncclAllReduce");
  add(uses.reduce_scatter, "ncclReduceScatter");
  add(uses.all_gather, "ncclAllGather");
  return calls.empty() ? "nothing" : calls;
}

// A list of texts as one.
void append(std::string& to, const std::string& text) {
  const auto bytes = static_cast<uint32_t>(text.size());
  to.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  to += text;
}
std::string take(const std::string& from, size_t& at) {
  uint32_t bytes = 0;
  if (from.size() - at < sizeof bytes) return at = from.size(), std::string();
  std::memcpy(&bytes, from.data() + at, sizeof bytes);
  at += sizeof bytes;
  const std::string text = from.substr(at, bytes);
  at += text.size();
  return text;
}

}  // namespace

std::string NcclCommunicator::text() const {
  std::string text = "communicator '" + membership_.name + "' of ranks ";
  const size_t shown = std::min<size_t>(membership_.ranks.size(), 8);
  for (size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + std::to_string(membership_.ranks[i]);
  return text + (shown < membership_.ranks.size() ? ", ..." : "");
}

Result<int32_t> NcclCommunicator::position_of(int32_t rank) const {
  const auto found = std::find(ranks().begin(), ranks().end(), rank);
  if (found != ranks().end()) return static_cast<int32_t>(found - ranks().begin());
  return Status::failure("R0404", text() + " does not contain rank " + std::to_string(rank));
}

Status NcclCommunicator::status(ncclResult_t result, const char* call) const {
  if (result == ncclSuccess || result == ncclInProgress) return {};
  const char* const details = ncclGetLastError(handle_);
  return Status::failure("R0303", std::string(call) + " on " + text() + ": " + ncclGetErrorString(result) +
                                      (details == nullptr || *details == '\0' ? "" : std::string(": ") + details));
}

NcclCommunicators::NcclCommunicators(std::vector<NcclMembership> memberships, int32_t rank, const WaitControl& wait)
    : wait_(wait) {
  for (NcclMembership& membership : memberships) {
    const auto found = std::find(membership.ranks.begin(), membership.ranks.end(), rank);
    const auto position = static_cast<int32_t>(found - membership.ranks.begin());
    all_.push_back(std::make_unique<NcclCommunicator>(std::move(membership), position));
  }
}

// The first member of each makes its id; one message carries all of them to everybody, and what members will call.
Result<std::unique_ptr<NcclCommunicators>> NcclCommunicators::open(std::vector<NcclMembership> memberships,
                                                                   ControlChannel& control, const WaitControl& wait) {
  std::unique_ptr<NcclCommunicators> opened(new NcclCommunicators(std::move(memberships), control.rank(), wait));
  std::string mine;
  for (const auto& communicator : opened->all_) {
    PIPER_RETURN_IF_ERROR(communicator->position_of(control.rank()).status());
    std::string made;
    if (communicator->position() == 0) {
      ncclUniqueId id;
      PIPER_RETURN_IF_ERROR(communicator->status(ncclGetUniqueId(&id), "ncclGetUniqueId"));
      made.assign(id.internal, sizeof id.internal);
    }
    append(mine, key_of(communicator->membership_));
    append(mine, communicator->text() + " is used for " + calls_of(communicator->membership_.uses));
    append(mine, made);
  }
  PIPER_ASSIGN(const std::vector<std::string> texts, control.allgather(mine, wait));
  std::map<std::string, std::string> ids;                      // of the whole run, by key: in the same order everywhere
  std::map<std::string, std::pair<size_t, std::string>> uses;  // by key: the first rank that says something, and what
  for (size_t rank = 0; rank < texts.size(); ++rank)
    for (size_t at = 0; at < texts[rank].size();) {
      const std::string key = take(texts[rank], at), its = take(texts[rank], at), id = take(texts[rank], at);
      const auto& [first, said] = uses.try_emplace(key, rank, its).first->second;
      if (its != said)
        return Status::failure("R0404", "the plans do not agree: on rank " + std::to_string(first) + " " + said +
                                            ", on rank " + std::to_string(rank) + " " + its);
      if (!id.empty()) ids[key] = id;
    }
  std::vector<ncclUniqueId> own;
  std::vector<int64_t> rank_in_run;
  for (const auto& communicator : opened->all_) {
    const auto found = ids.find(key_of(communicator->membership_));
    if (found == ids.end() || found->second.size() != sizeof own.back().internal)
      return Status::failure("R0404", communicator->text() + " is unknown to its first rank");
    std::memcpy(own.emplace_back().internal, found->second.data(), found->second.size());
    rank_in_run.push_back(std::distance(ids.begin(), found));
  }
  // One order for all ranks: whoever connects to somebody finds him at the same communicator.
  std::vector<size_t> order(opened->all_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank_in_run[a] < rank_in_run[b]; });

  size_t free_before = 0, free_after = 0, total = 0;
  PIPER_CUDA(cudaMemGetInfo(&free_before, &total));
  PIPER_RETURN_IF_ERROR(opened->initialise(own));
  PIPER_RETURN_IF_ERROR(opened->use_each_once(order));
  PIPER_CUDA(cudaMemGetInfo(&free_after, &total));
  if (free_before > free_after) opened->device_bytes_ = static_cast<int64_t>(free_before - free_after);
  return opened;
}

Status NcclCommunicators::initialise(const std::vector<ncclUniqueId>& ids) {
  if (all_.empty()) return {};
  ncclResult_t result = ncclGroupStart();
  PIPER_RETURN_IF_ERROR(all_[0]->status(result, "ncclGroupStart"));
  Status status;
  for (size_t i = 0; i < all_.size() && status.ok(); ++i) {
    NcclCommunicator& communicator = *all_[i];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.commName = communicator.membership_.name.c_str();
    if (communicator.membership_.max_ctas > 0) config.maxCTAs = communicator.membership_.max_ctas;
    result = ncclCommInitRankConfig(&communicator.handle_, static_cast<int>(communicator.ranks().size()), ids[i],
                                    communicator.position(), &config);
    status = communicator.status(result, "ncclCommInitRankConfig");
  }
  result = ncclGroupEnd();
  PIPER_RETURN_IF_ERROR(std::move(status));
  PIPER_RETURN_IF_ERROR(all_[0]->status(result, "ncclGroupEnd"));
  for (const auto& communicator : all_) PIPER_RETURN_IF_ERROR(wait_for(*communicator, "ncclCommInitRankConfig", wait_));
  return {};
}

Status NcclCommunicators::use_each_once(const std::vector<size_t>& order) {
  // A byte or an element from each member, and one to each.
  struct Place {
    ~Place() { (void)cudaFree(data); }
    void* data = nullptr;
  } place;
  size_t members = 0;
  for (const auto& communicator : all_) members = std::max(members, communicator->ranks().size());
  if (members == 0) return {};
  PIPER_CUDA(cudaMalloc(&place.data, 2 * members * sizeof(float)));
  PIPER_ASSIGN(const auto queue, CudaQueue::make(plan::Priority::kNormal));
  PIPER_ASSIGN(const auto done, CudaEvent::make("connected"));
  PIPER_CUDA(cudaMemsetAsync(place.data, 0, 2 * members * sizeof(float), queue->stream()));
  const auto used = [&]() -> Status {
    for (const size_t i : order)
      PIPER_RETURN_IF_ERROR(use_once(*all_[i], static_cast<std::byte*>(place.data), queue->stream()));
    PIPER_CUDA(cudaEventRecord(done->handle(), queue->stream()));
    const auto connected = [&]() -> Result<bool> {
      const cudaError_t error = cudaEventQuery(done->handle());
      if (error == cudaSuccess) return true;
      if (error != cudaErrorNotReady) return cuda_status(error, "a first use of NCCL's communicators");
      if (!raised(wait_)) PIPER_RETURN_IF_ERROR(check());
      return false;
    };
    return wait_until(wait_, connected, [] { return "the members of NCCL's communicators to connect"; });
  };
  Status status = used();
  if (!status.ok()) abort();  // memory and stream are given back after what waits on them
  return status;
}

Status NcclCommunicators::use_once(const NcclCommunicator& on, std::byte* place, cudaStream_t stream) {
  const auto& uses = on.membership_.uses;
  const auto members = static_cast<int32_t>(on.ranks().size());
  std::byte* const out = place + static_cast<size_t>(members) * sizeof(float);
  ncclComm_t comm = on.handle();
  const auto done = [&](ncclResult_t result, const char* call) { return enqueued(on, result, call, wait_); };
  std::vector<NcclMessage> messages;
  for (int32_t peer = 0; peer < members && (uses.all_messages || uses.one_way); ++peer) {
    if (peer == on.position()) continue;
    if (!uses.one_way || on.position() == 0) messages.push_back({Direction::kSend, peer, place, 1});
    if (!uses.one_way || on.position() == 1) messages.push_back({Direction::kReceive, peer, out + peer, 1});
  }
  PIPER_RETURN_IF_ERROR(issue(on, messages, stream, wait_));
  if (uses.all_reduce)
    PIPER_RETURN_IF_ERROR(done(ncclAllReduce(place, place, 1, ncclFloat32, ncclSum, comm, stream), "ncclAllReduce"));
  if (uses.reduce_scatter)
    PIPER_RETURN_IF_ERROR(
        done(ncclReduceScatter(place, out, 1, ncclFloat32, ncclSum, comm, stream), "ncclReduceScatter"));
  if (uses.all_gather)
    PIPER_RETURN_IF_ERROR(done(ncclAllGather(place, out, 1, ncclUint8, comm, stream), "ncclAllGather"));
  return {};
}

Result<bool> NcclCommunicators::in_progress(const NcclCommunicator& on, const char* call) const {
  ncclResult_t state = ncclSuccess;
  PIPER_RETURN_IF_ERROR(on.status(ncclCommGetAsyncError(on.handle(), &state), "ncclCommGetAsyncError"));
  PIPER_RETURN_IF_ERROR(on.status(state, call));
  return state == ncclInProgress;
}

Status NcclCommunicators::wait_for(const NcclCommunicator& on, const char* call, const WaitControl& wait) const {
  const auto done = [&]() -> Result<bool> {
    PIPER_ASSIGN(const bool busy, in_progress(on, call));
    return !busy;
  };
  return wait_until(wait, done, [&] { return call + (" on " + on.text()); });
}

// The group is ended also where a call in it was refused.
Status NcclCommunicators::issue(const NcclCommunicator& on, const std::vector<NcclMessage>& messages,
                                cudaStream_t stream, const WaitControl& wait) {
  if (messages.empty()) return {};
  PIPER_RETURN_IF_ERROR(on.status(ncclGroupStart(), "ncclGroupStart"));
  const auto call = [&](const NcclMessage& m) -> Status {
    const auto bytes = static_cast<size_t>(m.bytes);
    if (m.direction == Direction::kSend)
      return on.status(ncclSend(m.data, bytes, ncclUint8, m.peer, on.handle(), stream), "ncclSend");
    return on.status(ncclRecv(m.data, bytes, ncclUint8, m.peer, on.handle(), stream), "ncclRecv");
  };
  Status refused;
  for (const NcclMessage& message : messages)
    if (refused.ok()) refused = call(message);
  const ncclResult_t ended = ncclGroupEnd();
  PIPER_RETURN_IF_ERROR(std::move(refused));
  const bool both = messages.size() > 1;
  return enqueued(on, ended,
                  both                                        ? "ncclSend and ncclRecv"
                  : messages[0].direction == Direction::kSend ? "ncclSend"
                                                              : "ncclRecv",
                  wait);
}

Status NcclCommunicators::enqueued(const NcclCommunicator& on, ncclResult_t result, const char* call,
                                   const WaitControl& wait) {
  if (result == ncclSuccess) return {};
  Status status = on.status(result, call);
  if (status.ok()) status = wait_for(on, call, wait);
  return status;
}

Status NcclCommunicators::check() {
  for (const auto& communicator : all_) {
    if (communicator->handle() == nullptr) continue;
    const auto busy = in_progress(*communicator, "a call that was enqueued");
    if (busy.ok()) continue;
    return busy.status();
  }
  return {};
}

// One group, or it may never come back: NCCL waits for what a communicator has on the device, which may come after
// the kernel of another one. In a group all kernels are asked to end before any is waited for (since NCCL 2.22).
void NcclCommunicators::abort() {
  const auto open = [](const auto& communicator) { return communicator->handle() != nullptr; };
  if (std::none_of(all_.begin(), all_.end(), open)) return;
  (void)ncclGroupStart();
  for (const auto& communicator : all_)
    if (open(communicator)) (void)ncclCommAbort(std::exchange(communicator->handle_, nullptr));
  (void)ncclGroupEnd();
}

void NcclCommunicators::close() {
  Status status;
  for (const auto& communicator : all_)
    if (status.ok()) status = communicator->status(ncclCommFinalize(communicator->handle()), "ncclCommFinalize");
  for (const auto& communicator : all_)
    if (status.ok()) status = wait_for(*communicator, "ncclCommFinalize", wait_);
  if (!status.ok()) return abort();
  for (const auto& communicator : all_) (void)ncclCommDestroy(std::exchange(communicator->handle_, nullptr));
}

NcclCommunicators::~NcclCommunicators() { abort(); }

}  // namespace piper::hal
