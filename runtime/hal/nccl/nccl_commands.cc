#include "runtime/hal/nccl/nccl_commands.h"

#include <string>

#include "runtime/hal/cuda/cuda_check.h"
#include "runtime/hal/cuda/cuda_handles.h"
#include "runtime/hal/cuda/cuda_stream.h"
#include "runtime/hal/polling.h"
#include "runtime/hal/row_counts.h"

namespace piper::hal {

namespace {

Result<ncclDataType_t> type_of(DType type) {
  switch (type) {
    case DType::kF32: return ncclFloat32;
    case DType::kF64: return ncclFloat64;
    case DType::kI64: return ncclInt64;
    case DType::kI32: return ncclInt32;
    case DType::kBF16: return ncclBfloat16;
    case DType::kF16: return ncclFloat16;
    case DType::kBool: break;
  }
  return Status::failure("R0404", "NCCL cannot sum " + std::string(dtype_name(type)));
}

class Transfers : public Command {
 public:
  Transfers(NcclPlace place, std::vector<NcclMessage> messages) : place_(place), messages_(std::move(messages)) {}
  Status issue(Queue& queue, const Submission& submission) override {
    return place_.all->issue(*place_.on, messages_, stream_of(queue), submission.wait);
  }

 private:
  NcclPlace place_;
  std::vector<NcclMessage> messages_;
};

class AllReduce : public Command {
 public:
  AllReduce(NcclPlace place, std::byte* data, int64_t count, ncclDataType_t type)
      : place_(place), data_(data), count_(static_cast<size_t>(count)), type_(type) {}
  Status issue(Queue& queue, const Submission& submission) override {
    return place_.all->enqueued(
        *place_.on, ncclAllReduce(data_, data_, count_, type_, ncclSum, place_.on->handle(), stream_of(queue)),
        "ncclAllReduce", submission.wait);
  }

 private:
  NcclPlace place_;
  std::byte* data_;
  size_t count_;
  ncclDataType_t type_;
};

class ReduceScatter : public Command {
 public:
  ReduceScatter(NcclPlace place, const SumOperands& operands, ncclDataType_t type)
      : place_(place), operands_(operands), type_(type) {}
  Status issue(Queue& queue, const Submission& submission) override {
    const ncclResult_t result =
        ncclReduceScatter(operands_.data.in_device(), operands_.out.in_device(), static_cast<size_t>(operands_.count),
                          type_, ncclSum, place_.on->handle(), stream_of(queue));
    return place_.all->enqueued(*place_.on, result, "ncclReduceScatter", submission.wait);
  }

 private:
  NcclPlace place_;
  SumOperands operands_;
  ncclDataType_t type_;
};

class AllGather : public Command {
 public:
  AllGather(NcclPlace place, const GatherOperands& operands) : place_(place), operands_(operands) {}
  Status issue(Queue& queue, const Submission& submission) override {
    const ncclResult_t result =
        ncclAllGather(operands_.part.in_device(), operands_.data.in_device(), static_cast<size_t>(operands_.bytes),
                      ncclUint8, place_.on->handle(), stream_of(queue));
    return place_.all->enqueued(*place_.on, result, "ncclAllGather", submission.wait);
  }

 private:
  NcclPlace place_;
  GatherOperands operands_;
};

class Nothing : public Command {
 public:
  Status issue(Queue&, const Submission&) override { return {}; }
};
MadeCommand nothing() { return std::unique_ptr<Command>(std::make_unique<Nothing>()); }

class CountedExchange : public Command {
 public:
  static MadeCommand make(NcclPlace place, Device& device, const ExchangeOperands& operands) {
    auto made = std::make_unique<CountedExchange>();
    made->place_ = place;
    made->operands_ = operands;
    const size_t members = place.on->ranks().size();
    PIPER_ASSIGN(made->counts_, device.allocate_host(static_cast<int64_t>(2 * members * sizeof(int64_t))));
    PIPER_ASSIGN(made->read_, CudaEvent::make("counts"));
    made->messages_.reserve(2 * members);
    return std::unique_ptr<Command>(std::move(made));
  }

  Status issue(Queue& queue, const Submission& submission) override {
    cudaStream_t stream = stream_of(queue);
    PIPER_RETURN_IF_ERROR(read_counts(stream, submission));
    const auto& ranks = place_.on->ranks();
    const int32_t own = place_.on->position();
    const auto* out = reinterpret_cast<const int64_t*>(counts_->data());
    const int64_t* in = out + ranks.size();
    PIPER_RETURN_IF_ERROR(check_row_counts({ranks, own, out, in, operands_.bytes / operands_.row_bytes}));
    // Messages of no rows are sent too: ends that do not agree are then noticed where the library notices.
    messages_.clear();
    for (size_t member = 0; member < ranks.size(); ++member) {
      const auto peer = static_cast<int32_t>(member);
      const int64_t at = peer * operands_.bytes;
      std::byte *const from = (operands_.send + at).in_device(), *const to = (operands_.recv + at).in_device();
      if (peer != own) {
        messages_.push_back({Direction::kSend, peer, from, out[member] * operands_.row_bytes});
        messages_.push_back({Direction::kReceive, peer, to, in[member] * operands_.row_bytes});
      } else if (out[member] > 0) {
        PIPER_CUDA(cudaMemcpyAsync(to, from, static_cast<size_t>(out[member] * operands_.row_bytes), cudaMemcpyDefault,
                                   stream));
      }
    }
    return place_.all->issue(*place_.on, messages_, stream, submission.wait);
  }
  const char* prevents_capture() const override { return "the host reads how many rows go to each rank"; }

 private:
  // The one place where the host waits for the device within a step.
  Status read_counts(cudaStream_t stream, const Submission& submission) {
    const size_t bytes = place_.on->ranks().size() * sizeof(int64_t);
    std::byte* const host = counts_->data();
    PIPER_CUDA(cudaMemcpyAsync(host, operands_.send_counts.in_device(), bytes, cudaMemcpyDefault, stream));
    PIPER_CUDA(cudaMemcpyAsync(host + bytes, operands_.recv_counts.in_device(), bytes, cudaMemcpyDefault, stream));
    PIPER_CUDA(cudaEventRecord(read_->handle(), stream));
    const auto read = [&]() -> Result<bool> {
      const cudaError_t error = cudaEventQuery(read_->handle());
      if (error == cudaSuccess) return true;
      if (error != cudaErrorNotReady) return cuda_status(error, "work before an all_to_all");
      if (!raised(submission.wait)) PIPER_RETURN_IF_ERROR(place_.all->check());
      return false;
    };
    return wait_until(submission.wait, read, [] { return "the counts of an all_to_all"; }, submission.progress);
  }

  NcclPlace place_;
  ExchangeOperands operands_;
  std::unique_ptr<HostMemory> counts_;  // i64 [2, members]: rows to each, rows from each
  std::unique_ptr<CudaEvent> read_;
  std::vector<NcclMessage> messages_;
};

}  // namespace

MadeCommand nccl_transfers(NcclPlace place, const std::vector<DeviceTransfer>& transfers) {
  std::vector<NcclMessage> messages;
  for (const DeviceTransfer& t : transfers) {
    PIPER_ASSIGN(const int32_t peer, place.on->position_of(t.peer));
    messages.push_back({t.direction, peer, t.data.in_device(), t.bytes});
  }
  return std::unique_ptr<Command>(std::make_unique<Transfers>(place, std::move(messages)));
}

MadeCommand nccl_all_reduce(NcclPlace place, const SumOperands& operands) {
  PIPER_ASSIGN(const ncclDataType_t type, type_of(operands.types.data));
  if (operands.count == 0) return nothing();
  return std::unique_ptr<Command>(std::make_unique<AllReduce>(place, operands.data.in_device(), operands.count, type));
}

MadeCommand nccl_reduce_scatter(NcclPlace place, const SumOperands& operands) {
  PIPER_ASSIGN(const ncclDataType_t type, type_of(operands.types.data));
  if (operands.count == 0) return nothing();
  return std::unique_ptr<Command>(std::make_unique<ReduceScatter>(place, operands, type));
}

MadeCommand nccl_all_gather(NcclPlace place, const GatherOperands& operands) {
  if (operands.bytes == 0) return nothing();
  return std::unique_ptr<Command>(std::make_unique<AllGather>(place, operands));
}

MadeCommand nccl_counted_exchange(NcclPlace place, Device& device, const ExchangeOperands& operands) {
  if (operands.bytes == 0) return nothing();
  return CountedExchange::make(place, device, operands);
}

}  // namespace piper::hal
