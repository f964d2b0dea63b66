// Members of communicators of the stand-in for NCCL, each on a GPU and a thread of its own, for tests of the stand-in.
#pragma once

#include <nccl.h>

#include <array>
#include <barrier>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/standin/nccl_standin.h"
#include "tests/standin/standin.h"

namespace piper::standin {

// A member's device memory, streams and communicators. Aborts what is left of them at its end.
class Member {
 public:
  Member(int rank, const std::vector<ncclUniqueId>& ids, int members) : rank(rank) {
    must(cudaSetDevice(rank) == cudaSuccess);
    for (cudaStream_t& stream : streams) must(cudaStreamCreateWithPriority(&stream, 0, 0) == cudaSuccess);
    must(cudaMalloc(reinterpret_cast<void**>(&data), kBytes) == cudaSuccess);
    ncclGroupStart();
    for (size_t i = 0; i < ids.size(); ++i) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      const std::string name(1, static_cast<char>('a' + i));
      config.commName = name.c_str();
      must(ncclCommInitRankConfig(&comms.emplace_back(), members, ids[i], rank, &config) == ncclSuccess);
    }
    must(ncclGroupEnd() == ncclInProgress);
    for (ncclComm_t comm : comms) must(settled(comm));
  }
  ~Member() {
    ncclGroupStart();
    for (ncclComm_t comm : comms)
      if (comm != nullptr) (void)ncclCommAbort(comm);
    ncclGroupEnd();
    for (cudaStream_t stream : streams) (void)cudaStreamDestroy(stream);
    (void)cudaFree(data);
  }

  // After a call: whether it was enqueued.
  bool settled(ncclComm_t comm) {
    for (;;) {
      ncclResult_t state = ncclSuccess;
      if (ncclCommGetAsyncError(comm, &state) != ncclSuccess || (state != ncclSuccess && state != ncclInProgress))
        return false;
      if (state == ncclSuccess) return true;
      std::this_thread::yield();
    }
  }
  bool called(ncclResult_t result, size_t comm = 0) { return result == ncclInProgress && settled(comms[comm]); }
  // Until both streams are done, or a communicator fails: its words.
  std::string finished() {
    for (;;) {
      for (ncclComm_t comm : comms) {
        ncclResult_t state = ncclSuccess;
        if (ncclCommGetAsyncError(comm, &state) == ncclSuccess && state != ncclSuccess && state != ncclInProgress)
          return ncclGetLastError(comm);
      }
      if (cudaStreamQuery(streams[0]) == cudaSuccess && cudaStreamQuery(streams[1]) == cudaSuccess) return "";
      std::this_thread::yield();
    }
  }
  float* floats() const { return reinterpret_cast<float*>(data); }
  // The device's memory, as a stream sees it.
  float* seen() const { return reinterpret_cast<float*>(alias(data, kBytes)); }

  const int rank;
  std::vector<ncclComm_t> comms;
  std::array<cudaStream_t, 2> streams{};
  std::byte* data = nullptr;

 private:
  static constexpr size_t kBytes = 4096;
  // Threads may not use Catch's assertions.
  static void must(bool right) {
    if (!right) std::abort();
  }
};

// What each member's `body` returns, with as many communicators over all members.
inline std::vector<std::string> on_members(int members, size_t communicators,
                                           const std::function<std::string(Member&)>& body) {
  set_devices(members);
  std::vector<ncclUniqueId> ids(communicators);
  for (ncclUniqueId& id : ids) ncclGetUniqueId(&id);
  std::vector<std::string> words(static_cast<size_t>(members));
  std::barrier made(members), done(members);  // what one does at its end is no failure of the others
  std::vector<std::thread> threads;
  for (int rank = 0; rank < members; ++rank)
    threads.emplace_back([&, rank] {
      Member member(rank, ids, members);
      made.arrive_and_wait();
      words[static_cast<size_t>(rank)] = body(member);
      if (member.comms.empty()) done.arrive_and_drop();
      else done.arrive_and_wait();
    });
  for (std::thread& thread : threads) thread.join();
  set_devices(1);
  return words;
}

}  // namespace piper::standin
