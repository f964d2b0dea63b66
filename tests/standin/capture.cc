#include "tests/standin/capture.h"

#include <algorithm>
#include <set>

#include "tests/standin/streams.h"

namespace piper::standin {

namespace {

// Captures that have not ended.
struct Active {
  std::mutex mutex;
  std::set<std::shared_ptr<Capture>> captures;
};
Active& active() {
  static Active* active = new Active;
  return *active;
}

void add_new(std::vector<size_t>& to, const std::vector<size_t>& nodes) {
  for (const size_t node : nodes)
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
}

}  // namespace

bool Capture::prohibits(std::thread::id thread) const {
  return mode_ == cudaStreamCaptureModeGlobal || (mode_ == cudaStreamCaptureModeThreadLocal && thread_ == thread);
}

cudaError_t unsafe_call() {
  cudaError_t error = cudaSuccess;
  std::lock_guard lock(active().mutex);
  for (const auto& capture : active().captures)
    if (capture->prohibits(std::this_thread::get_id())) error = capture->invalidate(cudaErrorStreamCaptureUnsupported);
  return error;
}

cudaError_t Capture::begin(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  stream->capture = std::shared_ptr<Capture>(new Capture(stream, mode));
  stream->capture->branches_[stream];
  std::lock_guard lock(active().mutex);
  active().captures.insert(stream->capture);
  return cudaSuccess;
}

cudaError_t Capture::end(cudaStream_t stream, std::vector<Node>& nodes) {
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin_ != stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode_ != cudaStreamCaptureModeRelaxed && capture->thread_ != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  {
    std::lock_guard lock(active().mutex);
    active().captures.erase(capture);
  }
  std::lock_guard lock(capture->mutex_);
  capture->ended_ = true;
  for (const auto& [branch, front] : capture->branches_) branch->capture = nullptr;
  const cudaError_t error = capture->invalid_        ? cudaErrorStreamCaptureInvalidated
                            : !capture->all_joined() ? cudaErrorStreamCaptureUnjoined
                                                     : cudaSuccess;
  if (error == cudaSuccess) nodes = std::move(capture->nodes_);
  capture->nodes_.clear();
  return error;
}

cudaError_t Capture::end_all(cudaError_t error) {
  std::lock_guard lock(active().mutex);
  for (const auto& capture : active().captures) (void)capture->invalidate(error);
  return active().captures.empty() ? cudaSuccess : error;
}

cudaError_t Capture::wait(cudaStream_t stream, const std::shared_ptr<Capture>& capture,
                          const std::vector<size_t>& nodes) {
  if (stream->capture != nullptr && stream->capture != capture) {
    (void)capture->invalidate(cudaErrorStreamCaptureMerge);
    return stream->capture->invalidate(cudaErrorStreamCaptureMerge);
  }
  std::lock_guard lock(capture->mutex_);
  if (capture->ended_) return cudaErrorCapturedEvent;
  if (capture->invalid_) return cudaErrorStreamCaptureInvalidated;
  add_new(capture->branches_[stream].front, nodes);
  stream->capture = capture;
  return cudaSuccess;
}

cudaError_t Capture::add(cudaStream_t stream, Operation operation) {
  std::lock_guard lock(mutex_);
  if (invalid_) return cudaErrorStreamCaptureInvalidated;
  Branch& branch = branches_[stream];
  if (!branch.chain) branch.chain = chains_++;
  nodes_.push_back({std::make_shared<Operation>(std::move(operation)), std::move(branch.front), *branch.chain});
  branch.front = {nodes_.size() - 1};
  return cudaSuccess;
}

cudaError_t Capture::point(cudaStream_t stream, std::vector<size_t>& nodes) {
  std::lock_guard lock(mutex_);
  if (invalid_) return cudaErrorStreamCaptureInvalidated;
  nodes = branches_[stream].front;
  return cudaSuccess;
}

cudaError_t Capture::invalidate(cudaError_t error) {
  std::lock_guard lock(mutex_);
  invalid_ = true;
  return error;
}

void Capture::leave(cudaStream_t stream) {
  {
    std::lock_guard lock(active().mutex);
    if (origin_ == stream) active().captures.erase(shared_from_this());
  }
  std::lock_guard lock(mutex_);
  invalid_ = true;
  branches_.erase(stream);
}

cudaStreamCaptureStatus Capture::status() {
  std::lock_guard lock(mutex_);
  return invalid_ ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

// Whether all nodes are before where the first stream is.
bool Capture::all_joined() const {
  std::vector<bool> joined(nodes_.size(), false);
  for (const size_t node : branches_.at(origin_).front) joined[node] = true;
  for (size_t node = nodes_.size(); node-- > 0;)
    if (joined[node])
      for (const size_t before : nodes_[node].predecessors) joined[before] = true;
  return std::find(joined.begin(), joined.end(), false) == joined.end();
}

}  // namespace piper::standin
