#include "tests/standin/streams.h"

#include "tests/standin/capture.h"
#include "tests/standin/memory.h"
#include "tests/standin/standin.h"

namespace piper::standin {

namespace {
thread_local bool ignored_waits = false;
thread_local const Operation* launched = nullptr;
}  // namespace

IgnoredWaits::IgnoredWaits() { ignored_waits = true; }
IgnoredWaits::~IgnoredWaits() { ignored_waits = false; }

LaunchesOf::LaunchesOf(const Operation& operation) : outer_(launched) { launched = &operation; }
LaunchesOf::~LaunchesOf() { launched = outer_; }

void Completion::complete() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
    when_ = std::chrono::steady_clock::now();
  }
  changed_.notify_all();
}

void Completion::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
}

bool Completion::is_done() {
  std::lock_guard lock(mutex_);
  return done_;
}

Streams& Streams::instance() {
  static Streams* streams = new Streams;
  return *streams;
}

void Streams::add(cudaStream_t stream) {
  std::lock_guard lock(mutex_);
  all_.insert(stream);
}

bool Streams::remove(cudaStream_t stream) {
  std::lock_guard lock(mutex_);
  return all_.erase(stream) == 1;
}

void Streams::wait_for_all(int device) {
  RaceDetector& races = RaceDetector::instance();
  std::vector<std::shared_ptr<Completion>> reached;
  {
    std::lock_guard lock(mutex_);  // a stream that is destroyed after this finishes its work first
    for (cudaStream_t stream : all_)
      if (stream->device == device) reached.push_back(stream->mark());
  }
  for (const auto& mark : reached) {
    mark->wait();
    races.host_learns(mark->clock());
  }
  races.host_learns(races.clock(races.default_stream()));
}

cudaError_t enqueue(cudaStream_t stream, Operation operation) {
  if (!all_allocated(operation.reads) || !all_allocated(operation.writes)) return cudaErrorIllegalAddress;
  if (stream->capture != nullptr) return stream->capture->add(stream, std::move(operation));
  RaceDetector& races = RaceDetector::instance();
  races.enqueue(stream->lane);
  races.operate(stream->lane, operation.name, operation.reads, operation.writes);
  stream->push(std::move(operation.run));
  return cudaSuccess;
}

}  // namespace piper::standin

using namespace piper::standin;

CUstream_st::CUstream_st(int of_device)
    : device(of_device), lane(RaceDetector::instance().open_lane()), thread_([this] { work(); }) {}

CUstream_st::~CUstream_st() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  RaceDetector::instance().close_lane(lane);
}

void CUstream_st::push(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

bool CUstream_st::idle() {
  std::lock_guard lock(mutex_);
  return queue_.empty() && !busy_;
}

std::shared_ptr<Completion> CUstream_st::mark() {
  RaceDetector& races = RaceDetector::instance();
  races.enqueue(lane);
  const auto reached = std::make_shared<Completion>(races.clock(lane));
  push([reached] { reached->complete(); });
  return reached;
}

void CUstream_st::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> next = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    next();
    next = nullptr;
    lock.lock();
    busy_ = false;
  }
}

namespace {

// What a call that asks how far the device is may not do: during the thread's capture, or about what is captured.
cudaError_t may_ask(cudaStream_t stream) {
  if (stream != nullptr && stream->capture != nullptr)
    return stream->capture->invalidate(cudaErrorStreamCaptureUnsupported);
  return unsafe_call();
}

// For an event that is asked for; nullptr: it was never recorded.
cudaError_t last_record(cudaEvent_t event, std::shared_ptr<Completion>& record) {
  std::lock_guard lock(event->mutex);
  if (event->capture != nullptr) return event->capture->invalidate(cudaErrorCapturedEvent);
  record = event->recorded;
  return unsafe_call();
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int priority) {
  if (priority > 0 || priority < -5) return cudaErrorInvalidValue;
  *stream = new CUstream_st(device_of_thread());
  Streams::instance().add(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!Streams::instance().remove(stream)) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) stream->capture->leave(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t error = may_ask(stream); error != cudaSuccess) return error;
  RaceDetector& races = RaceDetector::instance();
  if (stream == nullptr) return cudaSuccess;
  const VectorClock clock = races.clock(stream->lane);
  if (!stream->idle()) return cudaErrorNotReady;
  races.host_learns(clock);
  return cudaSuccess;
}
// The default stream's work is done when it was enqueued.
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = may_ask(stream); error != cudaSuccess) return error;
  RaceDetector& races = RaceDetector::instance();
  if (stream == nullptr) {
    races.host_learns(races.clock(races.default_stream()));
    return cudaSuccess;
  }
  const auto mark = stream->mark();
  mark->wait();
  races.host_learns(mark->clock());
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
  if (const cudaError_t error = Capture::end_all(cudaErrorStreamCaptureUnsupported); error != cudaSuccess) return error;
  Streams::instance().wait_for_all(device_of_thread());
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  if (ignored_waits) return cudaSuccess;
  std::shared_ptr<Completion> record;
  {
    std::lock_guard lock(event->mutex);
    if (event->capture != nullptr) return Capture::wait(stream, event->capture, event->nodes);
    record = event->recorded;
  }
  if (stream->capture != nullptr) return stream->capture->invalidate(cudaErrorStreamCaptureIsolation);
  if (record == nullptr) return cudaSuccess;
  RaceDetector::instance().enqueue(stream->lane);
  RaceDetector::instance().learn(stream->lane, record->clock());
  stream->push([record] { record->wait(); });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  Operation operation{"host function", {}, {}, {}};
  if (launched != nullptr) operation = *launched;
  operation.run = [function, data] { function(data); };
  return enqueue(stream, std::move(operation));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  std::lock_guard lock(event->mutex);
  if (stream->capture != nullptr) {
    if (const cudaError_t error = stream->capture->point(stream, event->nodes); error != cudaSuccess) return error;
    event->capture = stream->capture;
    return cudaSuccess;
  }
  event->capture = nullptr;
  event->recorded = stream->mark();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::shared_ptr<Completion> record;
  if (const cudaError_t error = last_record(event, record); error != cudaSuccess) return error;
  if (record == nullptr) return cudaSuccess;
  if (!record->is_done()) return cudaErrorNotReady;
  RaceDetector::instance().host_learns(record->clock());
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::shared_ptr<Completion> record;
  if (const cudaError_t error = last_record(event, record); error != cudaSuccess) return error;
  if (record == nullptr) return cudaSuccess;
  record->wait();
  RaceDetector::instance().host_learns(record->clock());
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  std::shared_ptr<Completion> from, to;
  if (const cudaError_t error = last_record(start, from); error != cudaSuccess) return error;
  if (const cudaError_t error = last_record(end, to); error != cudaSuccess) return error;
  if (from == nullptr || to == nullptr) return cudaErrorInvalidResourceHandle;
  if (!from->is_done() || !to->is_done()) return cudaErrorNotReady;
  *ms = std::chrono::duration<float, std::milli>(to->when() - from->when()).count();
  return cudaSuccess;
}

}  // extern "C"
