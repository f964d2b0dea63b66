// The end of communicators on the stand-in for NCCL: what NCCL waits for there, so that who does it in the wrong order
// hangs.
#include <catch2/catch.hpp>

#include <atomic>

#include "tests/standin/nccl_member.h"

namespace piper::standin {
namespace {

// A call that may wait, on a thread of its own.
class Waiting {
 public:
  explicit Waiting(const std::function<void()>& call)
      : thread_([this, call] {
          call();
          over_ = true;
        }) {}
  ~Waiting() { thread_.join(); }
  // Whether it waits; false: it came back.
  bool waits() const {
    while (nccl_waiting() == 0 && !over_) std::this_thread::yield();
    return !over_;
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

bool all_reduce(Member& m, size_t comm) {
  return m.called(ncclAllReduce(m.data, m.data, 4, ncclFloat32, ncclSum, m.comms[comm], m.streams[0]), comm);
}

// For member 0, whose calls nobody meets; the other does nothing.
std::string of_the_first(size_t communicators, const std::function<std::string(Member&)>& body) {
  return on_members(2, communicators, [&](Member& m) { return m.rank == 0 ? body(m) : ""; })[0];
}

TEST_CASE("an abort waits for what stands in front of the communicator's calls, but not in a group") {
  CHECK(of_the_first(2, [](Member& m) -> std::string {
          if (!all_reduce(m, 0) || !all_reduce(m, 1)) return "refused";
          {
            const Waiting second([&] { (void)ncclCommAbort(m.comms[1]); });
            if (!second.waits()) return "it did not wait for the first communicator's call";
            (void)ncclCommAbort(m.comms[0]);
          }
          m.comms.clear();
          return "";
        }) == "");
  CHECK(of_the_first(2, [](Member& m) -> std::string {
          if (!all_reduce(m, 0) || !all_reduce(m, 1)) return "refused";
          ncclGroupStart();
          (void)ncclCommAbort(m.comms[1]);
          (void)ncclCommAbort(m.comms[0]);
          const bool ended = ncclGroupEnd() == ncclSuccess;
          m.comms.clear();
          // The stream itself is through a moment later.
          return ended ? m.finished() : "calls are left";
        }) == "");
}

TEST_CASE("an abort waits for graphs that hold calls of the communicator, launched or not") {
  for (const bool launched : {false, true}) {
    INFO((launched ? "launched" : "not launched"));
    CHECK(of_the_first(1, [&](Member& m) -> std::string {
            cudaGraph_t graph = nullptr;
            cudaGraphExec_t executable = nullptr;
            (void)cudaStreamBeginCapture(m.streams[0], cudaStreamCaptureModeThreadLocal);
            if (!all_reduce(m, 0)) return "refused";
            if (cudaStreamEndCapture(m.streams[0], &graph) != cudaSuccess) return "not captured";
            (void)cudaGraphInstantiate(&executable, graph, 0);
            (void)cudaGraphDestroy(graph);
            if (launched) (void)cudaGraphLaunch(executable, m.streams[0]);
            {
              const Waiting abort([&] { (void)ncclCommAbort(m.comms[0]); });
              if (!abort.waits()) return "it did not wait for the graph";
              (void)cudaGraphExecDestroy(executable);
            }
            m.comms.clear();
            return "";
          }) == "");
  }
}

TEST_CASE("a communicator is finalized when all members have finalized it") {
  std::barrier looked(2);
  const auto words = on_members(2, 1, [&](Member& m) -> std::string {
    if (m.rank == 1) looked.arrive_and_wait();
    if (ncclCommFinalize(m.comms[0]) != ncclInProgress) return "refused";
    ncclResult_t state = ncclSuccess;
    (void)ncclCommGetAsyncError(m.comms[0], &state);
    if (m.rank == 0) looked.arrive_and_wait();
    if (m.rank == 0 && state != ncclInProgress) return "it did not wait for the other member";
    if (!m.settled(m.comms[0]) || ncclCommDestroy(m.comms[0]) != ncclSuccess) return "not finalized";
    m.comms.clear();
    return "";
  });
  CHECK(words == std::vector<std::string>{"", ""});
}

}  // namespace
}  // namespace piper::standin
