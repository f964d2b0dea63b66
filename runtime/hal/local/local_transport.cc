#include "runtime/hal/local/local_transport.h"

#include <cstring>

#include "runtime/hal/counter.h"
#include "runtime/hal/message_waits.h"
#include "schemas/base/check.h"

namespace piper::hal {

struct LocalWorld::Request {
  Transfer transfer;
  LocalWorld::Mailbox* mailbox = nullptr;
  Counter done;
  uint32_t generation = 0;  // one more each time the exchange runs; done reaches it when the copy is finished
  int64_t peer_bytes = -1;  // set by the peer where its size differs
};

// One per (source, destination, channel): the end that came first waits here for the other.
struct LocalWorld::Mailbox {
  std::mutex mutex;
  Request* sender = nullptr;
  Request* receiver = nullptr;
};

namespace {

class LocalExchange : public Exchange {
  using Request = LocalWorld::Request;

 public:
  LocalExchange(LocalWorld& world, int32_t rank, std::vector<Transfer> transfers) : requests_(transfers.size()) {
    for (size_t i = 0; i < transfers.size(); ++i) {
      const Transfer& t = transfers[i];
      requests_[i].transfer = t;
      requests_[i].mailbox = t.direction == Direction::kSend ? world.mailbox(rank, t.peer, t.channel)
                                                             : world.mailbox(t.peer, rank, t.channel);
    }
  }

  Status run(const WaitControl& control) override {
    for (Request& request : requests_) post(request);
    Status result;
    for (Request& request : requests_) {
      WaitResult waited = result.ok() ? wait_for(request, control) : WaitResult::kStopped;
      if (waited == WaitResult::kReady) let_peer_leave(request);
      if (waited != WaitResult::kReady) {
        withdraw(request);
        if (!result.ok()) continue;
        if (waited == WaitResult::kStopped) result = stopped();
        else
          result = Status::failure("R0302", "waited " + std::to_string(control.timeout.count() / 1000) + " s for " +
                                                describe_wait(request.transfer));
      } else if (request.peer_bytes >= 0 && result.ok()) {
        result =
            Status::failure("R0301", "rank " + std::to_string(request.transfer.peer) + " has a message of " +
                                         std::to_string(request.peer_bytes) + " bytes on channel " +
                                         std::to_string(request.transfer.channel) + " where this rank has one of " +
                                         std::to_string(request.transfer.bytes) + " bytes");
      }
    }
    return result;
  }
  void resize(size_t transfer, int64_t bytes) override { requests_.at(transfer).transfer.bytes = bytes; }

 private:
  static WaitResult wait_for(Request& request, const WaitControl& control) {
    return request.done.wait(request.generation, control, [&request, messages = control.messages] {
      if (messages != nullptr) messages->waits_for(request.transfer);
    });
  }

  static void post(Request& mine) {
    LocalWorld::Mailbox& box = *mine.mailbox;
    const bool sends = mine.transfer.direction == Direction::kSend;
    ++mine.generation;
    mine.peer_bytes = -1;
    Request* other = nullptr;
    {
      std::lock_guard lock(box.mutex);
      Request*& own_place = sends ? box.sender : box.receiver;
      Request*& other_place = sends ? box.receiver : box.sender;
      PIPER_CHECK(own_place == nullptr, "two transfers of one direction on channel ", mine.transfer.channel,
                  " at once");
      if (other_place == nullptr) {
        own_place = &mine;
        return;
      }
      other = other_place;
      other_place = nullptr;
    }
    const uint32_t other_generation = other->generation;
    if (other->transfer.bytes != mine.transfer.bytes) {
      mine.peer_bytes = other->transfer.bytes;
      other->peer_bytes = mine.transfer.bytes;
    } else if (mine.transfer.bytes > 0) {
      const Request& from = sends ? mine : *other;
      const Request& to = sends ? *other : mine;
      std::memcpy(to.transfer.data, from.transfer.data, static_cast<size_t>(mine.transfer.bytes));
    }
    {
      // The other end may end its exchange as soon as it sees the signal: it passes this lock before it does.
      std::lock_guard lock(box.mutex);
      other->done.signal(other_generation);
    }
    mine.done.signal(mine.generation);
  }

  // After a wait that was ready: the peer has left signal(), which touches the request until it returns.
  static void let_peer_leave(Request& mine) { std::lock_guard lock(mine.mailbox->mutex); }

  // Takes back what nobody has met; a copy under way is waited for, because it uses this rank's memory.
  static void withdraw(Request& mine) {
    LocalWorld::Mailbox& box = *mine.mailbox;
    {
      std::lock_guard lock(box.mutex);
      Request*& own_place = mine.transfer.direction == Direction::kSend ? box.sender : box.receiver;
      if (own_place == &mine) {
        own_place = nullptr;
        return;
      }
    }
    while (mine.done.wait(mine.generation, WaitControl{}) != WaitResult::kReady) {
    }
    let_peer_leave(mine);
  }

  std::vector<Request> requests_;
};

class LocalTransport : public Transport {
 public:
  LocalTransport(LocalWorld& world, int32_t rank, int32_t world_size)
      : world_(world), rank_(rank), world_size_(world_size) {}
  int32_t rank() const override { return rank_; }
  int32_t world_size() const override { return world_size_; }
  std::unique_ptr<Exchange> prepare(std::vector<Transfer> transfers) override {
    return std::make_unique<LocalExchange>(world_, rank_, std::move(transfers));
  }
  int64_t buffer_bytes() const override { return 0; }

 private:
  LocalWorld& world_;
  int32_t rank_, world_size_;
};

}  // namespace

LocalWorld::LocalWorld(int32_t world_size) : world_size_(world_size) {}
LocalWorld::~LocalWorld() = default;

std::unique_ptr<Transport> LocalWorld::transport(int32_t rank) {
  PIPER_CHECK(rank >= 0 && rank < world_size_, "rank ", rank, " of ", world_size_);
  return std::make_unique<LocalTransport>(*this, rank, world_size_);
}

LocalWorld::Mailbox* LocalWorld::mailbox(int32_t source, int32_t destination, int32_t channel) {
  std::lock_guard lock(mutex_);
  auto& box = mailboxes_[{source, destination, channel}];
  if (box == nullptr) box = std::make_unique<Mailbox>();
  return box.get();
}

}  // namespace piper::hal
