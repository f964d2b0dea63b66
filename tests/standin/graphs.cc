// Graphs: what a capture made, and its execution. A launched graph keeps to the edges and to nothing else: the nodes of
// each captured stream have a thread of their own, which waits for the nodes that theirs follow.
#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/standin/capture.h"
#include "tests/standin/memory.h"
#include "tests/standin/streams.h"

namespace piper::standin {

namespace {

// Threads for what may wait for each other: each piece of work gets one at once.
class Threads {
 public:
  static Threads& instance() {
    static Threads* threads = new Threads;  // they outlive main
    return *threads;
  }
  void run(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    if (idle_ < work_.size()) std::thread([this] { loop(); }).detach();
    else changed_.notify_one();
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [this] { return !work_.empty(); });
      --idle_;
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  size_t idle_ = 0;
};

// An executable graph; those that are under way keep it.
class Body {
 public:
  explicit Body(std::vector<Node> nodes) : nodes_(std::move(nodes)) {
    for (size_t node = 0; node < nodes_.size(); ++node) {
      if (nodes_[node].chain >= chains_.size()) chains_.resize(nodes_[node].chain + 1);
      chains_[nodes_[node].chain].push_back(node);
    }
    for (size_t chain = 0; chain < chains_.size(); ++chain) lanes_.push_back(RaceDetector::instance().open_lane());
  }
  ~Body() {
    for (const Lane lane : lanes_) RaceDetector::instance().close_lane(lane);
  }
  bool memory_is_there() const {
    for (const Node& node : nodes_)
      if (!all_allocated(node.operation->reads) || !all_allocated(node.operation->writes)) return false;
    return true;
  }
  // A launch in the clocks: chains begin after the stream, the stream goes on after them.
  void launched_by(Lane stream) {
    RaceDetector& races = RaceDetector::instance();
    races.enqueue(stream);
    const VectorClock begin = races.clock(stream);
    for (const Lane lane : lanes_) races.learn(lane, begin);
    std::vector<VectorClock> behind;
    for (const Node& node : nodes_) {
      const Lane lane = lanes_[node.chain];
      for (const size_t before : node.predecessors) races.learn(lane, behind[before]);
      races.operate(lane, node.operation->name, node.operation->reads, node.operation->writes);
      behind.push_back(races.clock(lane));
    }
    for (const Lane lane : lanes_) races.learn(stream, races.clock(lane));
  }
  // On the stream's thread. Launches of one graph follow one another.
  void run() {
    std::lock_guard one(running_);
    done_.assign(nodes_.size(), false);
    left_ = chains_.size();
    for (size_t chain = 1; chain < chains_.size(); ++chain)
      Threads::instance().run([this, chain] { run_chain(chain); });
    if (!chains_.empty()) run_chain(0);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  void run_chain(size_t chain) {
    for (const size_t node : chains_[chain]) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] {
          for (const size_t before : nodes_[node].predecessors)
            if (!done_[before]) return false;
          return true;
        });
      }
      nodes_[node].operation->run();
      {
        std::lock_guard lock(mutex_);
        done_[node] = true;
      }
      changed_.notify_all();
    }
    std::lock_guard lock(mutex_);
    --left_;
    changed_.notify_all();
  }

  const std::vector<Node> nodes_;
  std::vector<std::vector<size_t>> chains_;
  std::vector<Lane> lanes_;  // by chain
  std::mutex running_, mutex_;
  std::condition_variable changed_;
  std::vector<bool> done_;
  size_t left_ = 0;  // chains
};

}  // namespace

}  // namespace piper::standin

struct CUgraph_st {
  std::vector<piper::standin::Node> nodes;
};

struct CUgraphExec_st {
  std::shared_ptr<piper::standin::Body> body;
};

extern "C" {

using namespace piper::standin;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  return Capture::begin(stream, mode);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  std::vector<Node> nodes;
  const cudaError_t error = Capture::end(stream, nodes);
  if (error == cudaSuccess) *graph = new CUgraph_st{std::move(nodes)};
  return error;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status) {
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone : stream->capture->status();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = unsafe_call(); error != cudaSuccess) return error;
  *executable = new CUgraphExec_st{std::make_shared<Body>(graph->nodes)};
  return cudaSuccess;
}
// Graphs in graphs are not known here.
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (stream->capture != nullptr) return stream->capture->invalidate(cudaErrorStreamCaptureUnsupported);
  const std::shared_ptr<Body> body = executable->body;
  if (!body->memory_is_there()) return cudaErrorIllegalAddress;
  body->launched_by(stream->lane);
  stream->push([body] { body->run(); });
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

}  // extern "C"
