// The stand-in's captures and graphs keep to CUDA's rules.
#include <catch2/catch.hpp>

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <thread>

#include "tests/standin/standin.h"

namespace piper::standin {
namespace {

class Stream {
 public:
  Stream() { REQUIRE(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking, 0) == cudaSuccess); }
  ~Stream() { CHECK(cudaStreamDestroy(handle_) == cudaSuccess); }
  operator cudaStream_t() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

class Event {
 public:
  Event() { REQUIRE(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming) == cudaSuccess); }
  ~Event() { CHECK(cudaEventDestroy(handle_) == cudaSuccess); }
  operator cudaEvent_t() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

cudaStreamCaptureStatus status_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  REQUIRE(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
  return status;
}

cudaError_t begin(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
  return cudaStreamBeginCapture(stream, mode);
}

cudaError_t end(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  const cudaError_t error = cudaStreamEndCapture(stream, &graph);
  CHECK((graph != nullptr) == (error == cudaSuccess));
  if (graph != nullptr) CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  return error;
}

cudaGraphExec_t ended(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  return executable;
}

cudaError_t call(cudaStream_t stream, std::function<void()> body) {
  return enqueue(stream, {"call", {}, {}, std::move(body)});
}

// `to` goes on after `from`.
cudaError_t order(cudaStream_t from, cudaStream_t to, cudaEvent_t event) {
  const cudaError_t error = cudaEventRecord(event, from);
  return error == cudaSuccess ? cudaStreamWaitEvent(to, event, 0) : error;
}

TEST_CASE("a capture runs nothing, and each launch of its graph runs all of it in stream order") {
  const Stream stream;
  std::vector<int> calls;
  REQUIRE(begin(stream) == cudaSuccess);
  CHECK(status_of(stream) == cudaStreamCaptureStatusActive);
  for (const int i : {1, 2}) REQUIRE(call(stream, [&calls, i] { calls.push_back(i); }) == cudaSuccess);
  const cudaGraphExec_t graph = ended(stream);
  CHECK(status_of(stream) == cudaStreamCaptureStatusNone);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(calls.empty());
  REQUIRE(cudaGraphLaunch(graph, stream) == cudaSuccess);
  REQUIRE(call(stream, [&calls] { calls.push_back(3); }) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(graph, stream) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(graph) == cudaSuccess);  // those under way go on
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(calls == std::vector<int>{1, 2, 3, 1, 2});
}

// Neither ends before the other has begun.
TEST_CASE("branches of a graph run side by side") {
  const Stream stream, other;
  const Event fork, join;
  std::latch both(2);
  REQUIRE(begin(stream) == cudaSuccess);
  REQUIRE(order(stream, other, fork) == cudaSuccess);
  CHECK(status_of(other) == cudaStreamCaptureStatusActive);
  for (cudaStream_t branch : {static_cast<cudaStream_t>(stream), static_cast<cudaStream_t>(other)})
    REQUIRE(call(branch, [&both] { both.arrive_and_wait(); }) == cudaSuccess);
  REQUIRE(order(other, stream, join) == cudaSuccess);
  const cudaGraphExec_t graph = ended(stream);
  CHECK(status_of(other) == cudaStreamCaptureStatusNone);
  REQUIRE(cudaGraphLaunch(graph, stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(graph) == cudaSuccess);
}

TEST_CASE("an event in a capture is an edge of the graph") {
  const Stream stream, other;
  const Event fork, middle, join;
  std::atomic<bool> made{false}, seen{false};
  REQUIRE(begin(stream) == cudaSuccess);
  REQUIRE(order(stream, other, fork) == cudaSuccess);
  REQUIRE(call(other, [&made] {
            for (int i = 0; i < 1000; ++i) std::this_thread::yield();
            made = true;
          }) == cudaSuccess);
  REQUIRE(order(other, stream, middle) == cudaSuccess);
  REQUIRE(call(stream, [&] { seen = made.exchange(false); }) == cudaSuccess);
  const cudaGraphExec_t graph = ended(stream);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(cudaGraphLaunch(graph, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    REQUIRE(seen);
  }
  CHECK(cudaGraphExecDestroy(graph) == cudaSuccess);
}

TEST_CASE("a stream that was not joined is told at the end, and everything can be used again") {
  const Stream stream, other;
  const Event fork, join;
  REQUIRE(begin(stream) == cudaSuccess);
  REQUIRE(order(stream, other, fork) == cudaSuccess);
  REQUIRE(call(other, [] {}) == cudaSuccess);
  REQUIRE(cudaEventRecord(join, other) == cudaSuccess);
  REQUIRE(call(other, [] {}) == cudaSuccess);  // after the join
  REQUIRE(cudaStreamWaitEvent(stream, join, 0) == cudaSuccess);
  CHECK(end(stream) == cudaErrorStreamCaptureUnjoined);
  for (cudaStream_t after : {static_cast<cudaStream_t>(stream), static_cast<cudaStream_t>(other)}) {
    CHECK(status_of(after) == cudaStreamCaptureStatusNone);
    CHECK(cudaStreamSynchronize(after) == cudaSuccess);
  }
  // A stream that only waited is joined.
  REQUIRE(begin(stream) == cudaSuccess);
  REQUIRE(order(stream, other, fork) == cudaSuccess);
  CHECK(end(stream) == cudaSuccess);
}

TEST_CASE("captures know no events of others") {
  const Stream stream, other;
  const Event before, inside;
  REQUIRE(cudaEventRecord(before, other) == cudaSuccess);
  REQUIRE(begin(stream) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(stream, before, 0) == cudaErrorStreamCaptureIsolation);
  CHECK(status_of(stream) == cudaStreamCaptureStatusInvalidated);
  CHECK(call(stream, [] {}) == cudaErrorStreamCaptureInvalidated);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
  // For a capture that is over.
  REQUIRE(begin(stream) == cudaSuccess);
  REQUIRE(cudaEventRecord(inside, stream) == cudaSuccess);
  REQUIRE(end(stream) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(other, inside, 0) == cudaErrorCapturedEvent);
  CHECK(cudaEventQuery(inside) == cudaErrorCapturedEvent);
  CHECK(cudaEventSynchronize(inside) == cudaErrorCapturedEvent);
  CHECK(cudaEventRecord(inside, stream) == cudaSuccess);
  CHECK(cudaEventSynchronize(inside) == cudaSuccess);
  // Two captures do not become one.
  REQUIRE(begin(stream) == cudaSuccess);
  REQUIRE(begin(other) == cudaSuccess);
  REQUIRE(cudaEventRecord(inside, stream) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(other, inside, 0) == cudaErrorStreamCaptureMerge);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
  CHECK(end(other) == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("who asks how far a capture is makes it invalid") {
  const Stream stream, other;
  const Event event, before;
  void* place = nullptr;
  REQUIRE(cudaMalloc(&place, 256) == cudaSuccess);
  REQUIRE(cudaEventRecord(before, other) == cudaSuccess);
  struct Call {
    std::function<cudaError_t()> body;
    cudaError_t error;
  };
  void* more = nullptr;
  const Call calls[] = {{[&] { return cudaStreamSynchronize(stream); }, cudaErrorStreamCaptureUnsupported},
                        {[&] { return cudaStreamQuery(stream); }, cudaErrorStreamCaptureUnsupported},
                        {[&] { return cudaEventQuery(event); }, cudaErrorCapturedEvent},
                        {[&] { return cudaEventSynchronize(event); }, cudaErrorCapturedEvent},
                        {[&] { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported},
                        {[&] { return cudaEventQuery(before); }, cudaErrorStreamCaptureUnsupported},
                        {[&] { return cudaStreamSynchronize(other); }, cudaErrorStreamCaptureUnsupported},
                        {[&] { return cudaMalloc(&more, 256); }, cudaErrorStreamCaptureUnsupported},
                        {[&] { return cudaFree(place); }, cudaErrorStreamCaptureUnsupported},
                        {[&] { return cudaMemset(place, 0, 256); }, cudaErrorStreamCaptureUnsupported}};
  for (size_t i = 0; i < std::size(calls); ++i) {
    INFO("call " << i);
    REQUIRE(begin(stream) == cudaSuccess);
    REQUIRE(cudaEventRecord(event, stream) == cudaSuccess);
    CHECK(calls[i].body() == calls[i].error);
    CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
  }
  CHECK(cudaFree(place) == cudaSuccess);
}

TEST_CASE("modes say whose calls are unsafe") {
  const Stream stream;
  const auto elsewhere = [](const std::function<cudaError_t()>& body) {
    return std::async(std::launch::async, body).get();
  };
  void* place = nullptr;
  const auto allocate = [&place] { return cudaMalloc(&place, 256); };
  const auto release = [&place] { return cudaFree(place); };
  REQUIRE(begin(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(elsewhere(allocate) == cudaSuccess);
  CHECK(elsewhere(release) == cudaSuccess);
  CHECK(elsewhere([] { return cudaDeviceSynchronize(); }) == cudaErrorStreamCaptureUnsupported);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
  REQUIRE(begin(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(elsewhere(allocate) == cudaErrorStreamCaptureUnsupported);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
  REQUIRE(begin(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  CHECK(allocate() == cudaSuccess);
  CHECK(elsewhere([&] { return end(stream); }) == cudaSuccess);
  CHECK(release() == cudaSuccess);
}

TEST_CASE("a capture ends where it began") {
  const Stream stream, other;
  const Event fork;
  CHECK(end(stream) == cudaErrorIllegalState);
  REQUIRE(begin(stream) == cudaSuccess);
  CHECK(begin(stream) == cudaErrorIllegalState);
  REQUIRE(order(stream, other, fork) == cudaSuccess);
  CHECK(end(other) == cudaErrorStreamCaptureUnmatched);
  CHECK(std::async(std::launch::async, [&] { return end(stream); }).get() == cudaErrorStreamCaptureWrongThread);
  CHECK(end(stream) == cudaSuccess);
  CHECK(begin(nullptr) == cudaErrorStreamCaptureUnsupported);
}

TEST_CASE("a graph over memory that was freed is not launched") {
  const Stream stream;
  void* place = nullptr;
  REQUIRE(cudaMalloc(&place, 256) == cudaSuccess);
  REQUIRE(begin(stream) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(place, 1, 256, stream) == cudaSuccess);
  const cudaGraphExec_t graph = ended(stream);
  REQUIRE(cudaGraphLaunch(graph, stream) == cudaSuccess);
  REQUIRE(cudaFree(place) == cudaSuccess);
  CHECK(cudaGraphLaunch(graph, stream) == cudaErrorIllegalAddress);
  CHECK(cudaGraphExecDestroy(graph) == cudaSuccess);
}

}  // namespace
}  // namespace piper::standin
