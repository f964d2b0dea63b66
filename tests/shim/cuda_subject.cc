#include "tests/shim/cuda_subject.h"

#include <algorithm>

#include "runtime/kernels/bind_blocks.h"
#include "schemas/plan/head_blocks.h"
#include "tests/shim/device_side.h"

namespace piper::kernels::testing {

namespace {

// Before the first case.
const bool chosen = (choose_subject(CudaSubject::instance()), true);

class Mirrored : public PreparedKernel {
 public:
  Mirrored(std::unique_ptr<PreparedKernel> kernel, Mirrors mirrors)
      : kernel_(std::move(kernel)), mirrors_(std::move(mirrors)) {}
  void run(hal::Queue& queue) override {
    mirrors_.to_device();
    kernel_->run(queue);
    if (const std::string failure = device_side().finish(); !failure.empty()) throw std::runtime_error(failure);
    mirrors_.to_host();
  }

 private:
  std::unique_ptr<PreparedKernel> kernel_;
  Mirrors mirrors_;
};

// The bytes that a strided operand reaches.
int64_t reach_of(const plan::Operand& operand) {
  int64_t last = 0;
  for (size_t axis = 0; axis < operand.shape.size(); ++axis) {
    if (operand.shape[axis] == 0) return 0;
    last += (operand.shape[axis] - 1) * operand.strides[axis];
  }
  return (last + 1) * dtype_bytes(operand.dtype);
}

class MirroredLibrary : public Library {
 public:
  explicit MirroredLibrary(const Library& device) : device_(device) {}
  Result<std::unique_ptr<PreparedKernel>> bind(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                                               const std::vector<BoundOperand>& inputs,
                                               const TrainingNumbers& numbers) const override {
    // The host's operators run at once, own kernels when the device comes to them.
    if (plan::is_of_blocks(call.kernel)) return bind_blocks(*this, call, outputs, inputs, numbers);
    Mirrors mirrors;
    for (const auto* list : {&outputs, &inputs})
      for (const BoundOperand& bound : *list)
        if (!bound.data.nowhere()) mirrors.add(bound.data.in_device(), reach_of(*bound.operand));
    mirrors.allocate();
    const auto on_device = [&](std::vector<BoundOperand> operands) {
      for (BoundOperand& bound : operands)
        if (!bound.data.nowhere() && reach_of(*bound.operand) > 0) bound.data = mirrors.place(bound.data.in_device());
      return operands;
    };
    PIPER_ASSIGN(auto kernel, device_.bind(call, on_device(outputs), on_device(inputs), numbers));
    return std::unique_ptr<PreparedKernel>(std::make_unique<Mirrored>(std::move(kernel), std::move(mirrors)));
  }

 private:
  const Library& device_;
};

}  // namespace

void Mirrors::add(const std::byte* host, int64_t bytes) {
  if (bytes > 0) mirrors_.push_back({const_cast<std::byte*>(host), bytes, nullptr, nullptr});
}

// Places that overlap become one; a place keeps its offset from what processors read at once.
void Mirrors::allocate() {
  constexpr size_t kLine = 64;
  std::sort(mirrors_.begin(), mirrors_.end(), [](const Mirror& a, const Mirror& b) { return a.host < b.host; });
  std::vector<Mirror> merged;
  for (const Mirror& mirror : mirrors_) {
    if (!merged.empty() && mirror.host < merged.back().host + merged.back().bytes) {
      Mirror& last = merged.back();
      last.bytes = std::max(last.bytes, mirror.host + mirror.bytes - last.host);
    } else {
      merged.push_back(mirror);
    }
  }
  mirrors_ = std::move(merged);
  for (Mirror& mirror : mirrors_) {
    const size_t offset = reinterpret_cast<uintptr_t>(mirror.host) % kLine;
    mirror.memory = device_side().allocate(offset + static_cast<size_t>(mirror.bytes));
    mirror.device = mirror.memory.get() + offset;
  }
}

hal::Address Mirrors::place(const std::byte* host) const {
  for (const Mirror& mirror : mirrors_)
    if (host >= mirror.host && host < mirror.host + mirror.bytes)
      return hal::Address(mirror.device + (host - mirror.host));
  return {};
}
void Mirrors::to_device() const {
  for (const Mirror& mirror : mirrors_)
    device_side().write(mirror.device, mirror.host, static_cast<size_t>(mirror.bytes));
}
void Mirrors::to_host() const {
  for (const Mirror& mirror : mirrors_)
    device_side().read(mirror.host, mirror.device, static_cast<size_t>(mirror.bytes));
}

struct CudaSubject::State {
  std::vector<std::shared_ptr<std::byte>> memory;  // of the library
  std::unique_ptr<Library> device;
  std::unique_ptr<Library> library;
};

CudaSubject::CudaSubject() = default;
CudaSubject::~CudaSubject() = default;
CudaSubject& CudaSubject::instance() {
  static CudaSubject subject;
  return subject;
}

CudaSubject::State& CudaSubject::state() {
  if (state_ != nullptr) return *state_;
  state_ = std::make_unique<State>();
  State& s = *state_;
  cuda::DeviceMemory memory;
  memory.allocate = [&s](int64_t bytes) -> Result<hal::Address> {
    s.memory.push_back(device_side().allocate(static_cast<size_t>(bytes)));
    return hal::Address(s.memory.back().get());
  };
  s.device = device_side().make_kernels(std::move(memory)).value();
  s.library = std::make_unique<MirroredLibrary>(*s.device);
  return s;
}

const Library& CudaSubject::library() { return *state().library; }
const Library& CudaSubject::device_library() { return *state().device; }

void CudaSubject::run(PreparedKernel& kernel) {
  kernel.run(device_side().queue());
  finish();
}

void CudaSubject::finish() {
  if (const std::string failure = device_side().finish(); !failure.empty()) throw std::runtime_error(failure);
  const FaultRecord record = device_library().fault_record();
  std::vector<std::byte> copy(static_cast<size_t>(record.bytes));
  const std::vector<std::byte> none(copy.size());
  device_side().read(copy.data(), record.place.in_device(), copy.size());
  device_side().write(record.place.in_device(), none.data(), none.size());
  const Status status = device_library().read_fault(copy.data());
  if (status.ok()) return;
  if (status.error().code == "R0406") throw OverCapacity(status.error().message);
  throw std::runtime_error(status.error().message);
}

}  // namespace piper::kernels::testing
