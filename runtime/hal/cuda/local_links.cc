#include "runtime/hal/cuda/local_links.h"

#include "runtime/hal/cuda/cuda_check.h"
#include "runtime/hal/cuda/cuda_handles.h"
#include "runtime/hal/cuda/cuda_stream.h"

namespace piper::hal {

namespace {

// Beside the channels of plans and groups, whose messages these stand for.
constexpr int32_t kMeetings = kPlanChannels + kGroupChannels;
static_assert(2 * kMeetings <= kHostChannel);

// From the receiver: where the bytes go, once the event has passed.
struct Offer {
  std::byte* place = nullptr;
  int64_t bytes = 0;
  cudaEvent_t free = nullptr;
};
// From the sender: the bytes are there, once the event has passed.
struct Answer {
  cudaEvent_t copied = nullptr;
};

class LocalExchange : public Command {
 public:
  static MadeCommand make(Transport& transport, const std::vector<DeviceTransfer>& transfers) {
    auto exchange = std::make_unique<LocalExchange>();
    exchange->meetings_ = std::make_shared<std::vector<Meeting>>();
    for (const DeviceTransfer& transfer : transfers) {
      PIPER_ASSIGN(auto event, CudaEvent::make("transfer"));
      exchange->meetings_->push_back({transfer, std::move(event), {}, {}});
    }
    // The other rank may still ask for events of a meeting that has failed here.
    transport.keep(exchange->meetings_);
    std::vector<Transfer> offers, answers;
    for (Meeting& meeting : *exchange->meetings_) {
      const DeviceTransfer& t = meeting.transfer;
      const bool sends = t.direction == Direction::kSend;
      offers.push_back({sends ? Direction::kReceive : Direction::kSend, t.peer, t.channel + kMeetings,
                        reinterpret_cast<std::byte*>(&meeting.offer), sizeof meeting.offer});
      answers.push_back(
          {t.direction, t.peer, t.channel, reinterpret_cast<std::byte*>(&meeting.answer), sizeof meeting.answer});
    }
    exchange->offers_ = transport.prepare(std::move(offers));
    exchange->answers_ = transport.prepare(std::move(answers));
    return std::unique_ptr<Command>(std::move(exchange));
  }

  Status issue(Queue& queue, const Submission& submission) override {
    cudaStream_t stream = stream_of(queue);
    for (Meeting& meeting : *meetings_)
      if (meeting.transfer.direction == Direction::kReceive) PIPER_RETURN_IF_ERROR(offer(meeting, stream));
    PIPER_RETURN_IF_ERROR(offers_->run(submission.wait));
    for (Meeting& meeting : *meetings_)
      if (meeting.transfer.direction == Direction::kSend) PIPER_RETURN_IF_ERROR(answer(meeting, stream));
    PIPER_RETURN_IF_ERROR(answers_->run(submission.wait));
    for (const Meeting& meeting : *meetings_)
      if (meeting.transfer.direction == Direction::kReceive)
        PIPER_CUDA(cudaStreamWaitEvent(stream, meeting.answer.copied, 0));
    return {};
  }
  const char* prevents_capture() const override {
    return meetings_->empty() ? nullptr : "the threads that submit for its two ranks meet on the host";
  }

 private:
  struct Meeting {
    DeviceTransfer transfer;
    std::unique_ptr<CudaEvent> event;  // the receiver's place is free; the sender's copy is done
    Offer offer;
    Answer answer;
  };

  static Status offer(Meeting& meeting, cudaStream_t stream) {
    PIPER_CUDA(cudaEventRecord(meeting.event->handle(), stream));
    meeting.offer = {meeting.transfer.data.in_device(), meeting.transfer.bytes, meeting.event->handle()};
    return {};
  }

  static Status answer(Meeting& meeting, cudaStream_t stream) {
    const DeviceTransfer& t = meeting.transfer;
    if (meeting.offer.bytes != t.bytes)
      return Status::failure("R0301", "rank " + std::to_string(t.peer) + " expects a message of " +
                                          std::to_string(meeting.offer.bytes) + " bytes on channel " +
                                          std::to_string(t.channel) + " where this rank has one of " +
                                          std::to_string(t.bytes) + " bytes");
    PIPER_CUDA(cudaStreamWaitEvent(stream, meeting.offer.free, 0));
    if (t.bytes > 0)
      PIPER_CUDA(cudaMemcpyAsync(meeting.offer.place, t.data.in_device(), static_cast<size_t>(t.bytes),
                                 cudaMemcpyDefault, stream));
    PIPER_CUDA(cudaEventRecord(meeting.event->handle(), stream));
    meeting.answer.copied = meeting.event->handle();
    return {};
  }

  std::shared_ptr<std::vector<Meeting>> meetings_;  // the transport's as well
  std::unique_ptr<Exchange> offers_, answers_;
};

}  // namespace

MadeCommand local_exchange(Transport& transport, const std::vector<DeviceTransfer>& transfers) {
  return LocalExchange::make(transport, transfers);
}

}  // namespace piper::hal
