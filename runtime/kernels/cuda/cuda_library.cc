#include "runtime/kernels/cuda/cuda_library.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "runtime/kernels/bind_blocks.h"
#include "runtime/kernels/cuda/bound_call.h"
#include "schemas/plan/head_blocks.h"

namespace piper::kernels::cuda {
namespace {

struct Row {
  const plan::KernelInfo* info;
  Binder binder;
};

const std::unordered_map<std::string_view, Row>& rows() {
  static const auto* table = [] {
    auto* map = new std::unordered_map<std::string_view, Row>;
#define PIPER_CUDA_ROW(name, function) map->emplace(name, Row{plan::find_kernel(name), &function});
#include "runtime/kernels/cuda/own_rows.def"
#undef PIPER_CUDA_ROW
    return map;
  }();
  return *table;
}

std::string text_of(const Fault& fault) {
  const auto number = [&](int i) { return std::to_string(fault.numbers[i]); };
  switch (fault.kind) {
    case FaultKind::kNone: break;
    case FaultKind::kExpert: return "row " + number(0) + " asks for expert " + number(1) + " of " + number(2);
    case FaultKind::kCapacity:
      return number(0) + " of " + number(1) + " rows are over the capacity of " + number(2) +
             " rows of an expert; expert " + number(3) + " is asked for " + number(4);
    case FaultKind::kIndex: return "index " + number(1) + " of " + number(2);
    case FaultKind::kTableRow:
      return "index " + number(1) + " lies outside of the table, which has " + number(2) + " rows";
    case FaultKind::kTarget: return "target " + number(1) + " is outside of 0.." + std::to_string(fault.numbers[2] - 1);
    case FaultKind::kNoClass: return "target " + number(1) + " is not a class";
    case FaultKind::kGroup:
      return "expert " + number(0) + " has " + number(1) + " rows where " + number(2) + " are left";
  }
  return "a fault of an unknown kind";
}

}  // namespace

bool has_own_row(std::string_view kernel) { return rows().contains(kernel); }

// Small pieces of large regions.
class CudaLibrary::Memory : public KernelMemory {
 public:
  explicit Memory(DeviceMemory device) : device_(std::move(device)) {}

  Status take_record() {
    PIPER_ASSIGN(record_, take(static_cast<int64_t>(sizeof(Fault))));
    return {};
  }
  std::byte* reserve(int64_t bytes) override {
    Result<hal::Address> place = take(bytes);
    if (!place.ok()) throw Refusal(place.error().message);
    return place->in_device();
  }
  FaultPlace enlist(const std::string& who) override {
    names_.push_back(who);
    return {record_.in_device_as<Fault>(), calls()};
  }
  hal::Address record() const { return record_; }
  // That may find a fault, so far.
  uint32_t calls() const { return static_cast<uint32_t>(names_.size()); }
  std::string name_of(uint32_t call) const {
    return call >= 1 && call <= names_.size() ? names_[call - 1] : std::string("a kernel");
  }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr int64_t kRegion = 256 * 1024, kAlignment = 256;

  Result<hal::Address> take(int64_t bytes) {
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (bytes > left_) {
      const int64_t region = std::max(bytes, kRegion);
      PIPER_ASSIGN(next_, device_.allocate(region));
      left_ = region;
      bytes_ += region;
    }
    const hal::Address place = next_;
    next_ = next_ + bytes;
    left_ -= bytes;
    return place;
  }

  DeviceMemory device_;
  hal::Address record_, next_;
  int64_t left_ = 0, bytes_ = 0;
  std::vector<std::string> names_;  // of calls that may find a fault, by their number
};

CudaLibrary::CudaLibrary(std::unique_ptr<Memory> memory, std::unique_ptr<const Library> others)
    : memory_(std::move(memory)), others_(std::move(others)) {}
CudaLibrary::~CudaLibrary() = default;

Result<std::unique_ptr<CudaLibrary>> CudaLibrary::make(DeviceMemory device, std::unique_ptr<const Library> others) {
  auto memory = std::make_unique<Memory>(std::move(device));
  PIPER_RETURN_IF_ERROR(memory->take_record());
  return std::unique_ptr<CudaLibrary>(new CudaLibrary(std::move(memory), std::move(others)));
}

Result<std::unique_ptr<PreparedKernel>> CudaLibrary::bind(const plan::KernelCall& call,
                                                          const std::vector<BoundOperand>& outputs,
                                                          const std::vector<BoundOperand>& inputs,
                                                          const TrainingNumbers& numbers) const {
  if (plan::is_of_blocks(call.kernel)) return bind_blocks(*this, call, outputs, inputs, numbers);
  const auto found = rows().find(call.kernel.name());
  if (found == rows().end()) return others_->bind(call, outputs, inputs, numbers);
  try {
    const uint32_t first = memory_->calls();
    MadeKernel kernel = found->second.binder(BoundCall(call, *found->second.info, outputs, inputs, numbers, *memory_));
    kernel->set_faults(first, memory_->calls());
    return std::unique_ptr<PreparedKernel>(std::move(kernel));
  } catch (const Refusal& refusal) {
    return misfit(call, refusal.what());
  }
}

FaultRecord CudaLibrary::fault_record() const { return {memory_->record(), static_cast<int64_t>(sizeof(Fault))}; }

Status CudaLibrary::read_fault(const std::byte* record) const {
  Fault fault;
  std::memcpy(&fault, record, sizeof fault);
  if (fault.call == 0) return {};
  // As an executor says it of a CPU's kernel: the capacity's text stands alone.
  if (fault.kind == FaultKind::kCapacity) return Status::failure("R0406", text_of(fault));
  return Status::failure("R0403", memory_->name_of(fault.call) + ": " + text_of(fault));
}

int64_t CudaLibrary::memory_bytes() const { return memory_->bytes() + others_->memory_bytes(); }

}  // namespace piper::kernels::cuda
