#include "runtime/hal/cuda/cuda_device.h"

#include <cstring>

#include "runtime/hal/cuda/cuda_check.h"
#include "runtime/hal/cuda/cuda_handles.h"
#include "runtime/hal/cuda/cuda_recording.h"
#include "runtime/hal/cuda/event_commands.h"

namespace piper::hal {

namespace {

// Memory that CUDA does not give is R0405.
Status allocated(cudaError_t error, int64_t bytes, const char* call) {
  if (error != cudaErrorMemoryAllocation) return cuda_status(error, call);
  return Status::failure(
      "R0405", "cannot allocate " + std::to_string(bytes) + " bytes on the GPU: " + cudaGetErrorString(error));
}

class CudaRegion : public MemoryRegion {
 public:
  static Result<std::unique_ptr<MemoryRegion>> make(int64_t bytes) {
    auto region = std::make_unique<CudaRegion>();
    region->bytes_ = bytes;
    if (bytes > 0) {
      void* place = nullptr;
      PIPER_RETURN_IF_ERROR(allocated(cudaMalloc(&place, static_cast<size_t>(bytes)), bytes, "cudaMalloc"));
      region->base_ = Address(static_cast<std::byte*>(place));
      PIPER_CUDA(cudaMemset(place, 0, static_cast<size_t>(bytes)));
      PIPER_CUDA(cudaStreamSynchronize(nullptr));  // a fill does not wait, and streams do not wait for it
    }
    return std::unique_ptr<MemoryRegion>(std::move(region));
  }
  ~CudaRegion() override {
    if (!base_.nowhere()) (void)cudaFree(base_.in_device());
  }
};

class PageLocked : public HostMemory {
 public:
  static Result<std::unique_ptr<PageLocked>> make(int64_t bytes) {
    auto memory = std::make_unique<PageLocked>();
    if (bytes > 0)
      PIPER_RETURN_IF_ERROR(allocated(cudaHostAlloc(&memory->place_, static_cast<size_t>(bytes), cudaHostAllocDefault),
                                      bytes, "cudaHostAlloc"));
    return memory;
  }
  ~PageLocked() override {
    if (place_ != nullptr) (void)cudaFreeHost(place_);
  }
  std::byte* data() const override { return static_cast<std::byte*>(place_); }
  Address address() const override { return Address(data()); }

 private:
  void* place_ = nullptr;
};

// One staging place for copies of a queue, free again when the last one has passed.
class Staging {
 public:
  static Result<std::unique_ptr<Staging>> make(CudaQueue& queue, Address device, int64_t bytes) {
    auto staging = std::make_unique<Staging>();
    staging->queue_ = &queue;
    staging->device_ = device.in_device();
    staging->bytes_ = static_cast<size_t>(bytes);
    PIPER_ASSIGN(staging->memory_, PageLocked::make(bytes));
    PIPER_ASSIGN(staging->copied_, CudaEvent::make("staging"));
    return staging;
  }
  std::byte* host() const { return memory_->data(); }
  Status copy_in() const { return copy(device_, host(), cudaMemcpyHostToDevice); }
  Status copy_out() const { return copy(host(), device_, cudaMemcpyDeviceToHost); }
  Status wait() const {
    PIPER_CUDA(cudaEventSynchronize(copied_->handle()));
    return {};
  }

 private:
  Status copy(void* to, const void* from, cudaMemcpyKind kind) const {
    PIPER_CUDA(cudaMemcpyAsync(to, from, bytes_, kind, queue_->stream()));
    PIPER_CUDA(cudaEventRecord(copied_->handle(), queue_->stream()));
    return {};
  }

  CudaQueue* queue_ = nullptr;
  std::byte* device_ = nullptr;
  size_t bytes_ = 0;
  std::unique_ptr<PageLocked> memory_;
  std::unique_ptr<CudaEvent> copied_;
};

class StagedUpload : public Upload {
 public:
  explicit StagedUpload(std::unique_ptr<Staging> staging) : staging_(std::move(staging)) {}
  std::byte* begin() override {
    (void)staging_->wait();  // what failed before is returned by the next call on the stream
    return staging_->host();
  }
  Status commit() override { return staging_->copy_in(); }

 private:
  std::unique_ptr<Staging> staging_;
};

class StagedDownload : public Download {
 public:
  explicit StagedDownload(std::unique_ptr<Staging> staging) : staging_(std::move(staging)) {}
  Status begin() override { return staging_->copy_out(); }
  Result<const std::byte*> wait() override {
    PIPER_RETURN_IF_ERROR(staging_->wait());
    return static_cast<const std::byte*>(staging_->host());
  }

 private:
  std::unique_ptr<Staging> staging_;
};

class Copy : public Command {
 public:
  Copy(Address to, Address from, int64_t bytes) : to_(to), from_(from), bytes_(static_cast<size_t>(bytes)) {}
  Status issue(Queue& queue, const Submission&) override {
    PIPER_CUDA(cudaMemcpyAsync(to_.in_device(), from_.in_device(), bytes_, cudaMemcpyDefault,
                               static_cast<CudaQueue&>(queue).stream()));
    return {};
  }

 private:
  Address to_, from_;
  size_t bytes_;
};

class Fill : public Command {
 public:
  Fill(Address to, std::byte value, int64_t bytes) : to_(to), value_(value), bytes_(static_cast<size_t>(bytes)) {}
  Status issue(Queue& queue, const Submission&) override {
    PIPER_CUDA(cudaMemsetAsync(to_.in_device(), std::to_integer<int>(value_), bytes_,
                               static_cast<CudaQueue&>(queue).stream()));
    return {};
  }

 private:
  Address to_;
  std::byte value_;
  size_t bytes_;
};

class CudaDevice : public Device {
 public:
  static Result<std::unique_ptr<Device>> make(const CudaDeviceOptions& options,
                                              const std::vector<QueueOptions>& queues) {
    const int ordinal = options.ordinal;
    PIPER_ASSIGN(const int devices, cuda_devices());
    if (ordinal < 0 || ordinal >= devices)
      return Status::failure(
          "R0106", "there is no CUDA device " + std::to_string(ordinal) + " here, only " + std::to_string(devices));
    PIPER_CUDA(cudaSetDevice(ordinal));
    auto device = std::make_unique<CudaDevice>();
    device->graphs_ = options.graphs;
    for (const QueueOptions& wished : queues) {
      PIPER_ASSIGN(auto queue, CudaQueue::make(wished.priority));
      device->queues_.push_back(std::move(queue));
    }
    if (queues.empty()) {
      PIPER_ASSIGN(auto queue, CudaQueue::make(plan::Priority::kNormal));
      device->queues_.push_back(std::move(queue));
    }
    return std::unique_ptr<Device>(std::move(device));
  }
  ~CudaDevice() override { (void)wait_for_queues(); }

  Result<std::unique_ptr<MemoryRegion>> allocate(int64_t bytes) override { return CudaRegion::make(bytes); }
  Result<std::unique_ptr<HostMemory>> allocate_host(int64_t bytes) override {
    PIPER_ASSIGN(auto memory, PageLocked::make(bytes));
    return std::unique_ptr<HostMemory>(std::move(memory));
  }
  // A blocking copy waits for no stream: what was enqueued comes first. Of pageable memory it may return before the
  // bytes are there.
  Status write(Address to, const void* from, int64_t bytes) override {
    if (bytes == 0) return {};
    PIPER_RETURN_IF_ERROR(wait_for_queues());
    PIPER_CUDA(cudaMemcpy(to.in_device(), from, static_cast<size_t>(bytes), cudaMemcpyDefault));
    PIPER_CUDA(cudaStreamSynchronize(nullptr));
    return {};
  }
  Status read(void* to, Address from, int64_t bytes) override {
    if (bytes == 0) return {};
    PIPER_RETURN_IF_ERROR(wait_for_queues());
    PIPER_CUDA(cudaMemcpy(to, from.in_device(), static_cast<size_t>(bytes), cudaMemcpyDefault));
    return {};
  }
  Result<std::unique_ptr<Upload>> make_upload(Address to, int64_t bytes) override {
    PIPER_ASSIGN(auto staging, Staging::make(*queues_[0], to, bytes));
    return std::unique_ptr<Upload>(std::make_unique<StagedUpload>(std::move(staging)));
  }
  Result<std::unique_ptr<Download>> make_download(Address from, int64_t bytes) override {
    PIPER_ASSIGN(auto staging, Staging::make(*queues_[0], from, bytes));
    return std::unique_ptr<Download>(std::make_unique<StagedDownload>(std::move(staging)));
  }
  Result<std::unique_ptr<Event>> make_event(const std::string& name) override {
    PIPER_ASSIGN(auto event, CudaEvent::make(name));
    return std::unique_ptr<Event>(std::move(event));
  }
  std::unique_ptr<Command> record_event(Event& event) override {
    return std::make_unique<CudaRecordEvent>(static_cast<CudaEvent&>(event));
  }
  std::unique_ptr<Command> wait_event(Event& event) override {
    return std::make_unique<CudaWaitEvent>(static_cast<CudaEvent&>(event));
  }
  std::unique_ptr<Command> copy(Address to, Address from, int64_t bytes) override {
    return std::make_unique<Copy>(to, from, bytes);
  }
  std::unique_ptr<Command> fill(Address to, std::byte value, int64_t bytes) override {
    return std::make_unique<Fill>(to, value, bytes);
  }
  Result<std::unique_ptr<Recording>> record(std::vector<Issue> commands) override {
    PIPER_ASSIGN(auto recording, CudaRecording::make(queues_, std::move(commands), graphs_, submissions_, last_));
    return std::unique_ptr<Recording>(std::move(recording));
  }
  Status finish() override { return last_ == nullptr ? Status() : last_->finish(); }
  void on_each_thread(const std::function<void()>& body) override { body(); }

 private:
  // Not cudaDeviceSynchronize(): that would end the capture of another rank's graph on the same GPU.
  Status wait_for_queues() const {
    for (const auto& queue : queues_) PIPER_CUDA(cudaStreamSynchronize(queue->stream()));
    return {};
  }

  std::vector<std::unique_ptr<CudaQueue>> queues_;
  bool graphs_ = false;
  uint32_t submissions_ = 0;
  CudaRecording* last_ = nullptr;  // that was submitted
};

}  // namespace

Result<int> cuda_devices() {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess)
    return Status::failure("R0106", std::string("there is no CUDA device here: ") + cudaGetErrorString(error));
  return devices;
}

Result<std::unique_ptr<Device>> make_cuda_device(const CudaDeviceOptions& options,
                                                 const std::vector<QueueOptions>& queues) {
  return CudaDevice::make(options, queues);
}

}  // namespace piper::hal
