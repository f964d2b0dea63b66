#include "launcher/cluster/peer_link.h"

#include <httplib.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "launcher/cluster/peer_server.h"

namespace piper::launcher {

namespace {

int64_t wall_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class Link : public PeerLink {
 public:
  Link(EventLoop& loop, const Token& token, NodeAddress node)
      : loop_(loop), token_(token), node_(std::move(node)), client_(node_.host, node_.port) {
    client_.set_connection_timeout(kPatience);
    client_.set_read_timeout(kPatience);
    client_.set_write_timeout(kPatience);
    client_.set_tcp_nodelay(true);
    thread_ = std::thread([this] { work(); });
  }
  ~Link() override {
    {
      std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    client_.stop();
    thread_.join();
  }

  void send(const std::string& path, std::string body, Answered answered) override {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back({path, std::move(body), std::move(answered)});
    }
    changed_.notify_all();
  }

 private:
  struct Message {
    std::string path, body;
    Answered answered;
  };

  void work() {
    for (;;) {
      Message message;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ends_ || !queue_.empty(); });
        if (ends_) return;
        message = std::move(queue_.front());
        queue_.pop_front();
      }
      PeerAnswer answer = ask(message);
      loop_.post(
          [alive = std::weak_ptr<int>(alive_), answer = std::move(answer), answered = std::move(message.answered)] {
            if (!alive.expired()) answered(answer);
          });
    }
  }

  PeerAnswer ask(const Message& message) {
    httplib::Request request;
    const std::string nonce = new_nonce();
    const int64_t now = wall_ms();
    request.method = "POST";
    request.path = message.path;
    request.body = message.body;
    request.headers = {{kTimeHeader, std::to_string(now)},
                       {kNonceHeader, nonce},
                       {kStampHeader, token_.stamp({"POST", message.path, node_.name, message.body, now, nonce})},
                       {"Content-Type", "application/json"},
                       {"Connection", "close"}};
    std::string body;
    request.content_receiver = [&body](const char* data, size_t bytes, uint64_t, uint64_t) {
      body.append(data, bytes);
      return body.size() <= PeerServer::kLongestBody;
    };
    const httplib::Result result = client_.send(request);
    if (!result) return {std::nullopt, "does not answer"};
    const std::string stamp = result->get_header_value(kStampHeader);
    if (!same_stamp(stamp, token_.stamp_answer(result->status, nonce, body)))
      return {std::nullopt, result->status == 403 ? "refuses the token of this node, or its clock"
                                                  : "answers without the token of this node"};
    if (result->status != 200) return {std::nullopt, body};
    return {std::move(body), ""};
  }

  EventLoop& loop_;
  const Token& token_;
  NodeAddress node_;
  httplib::Client client_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> queue_;
  bool ends_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // let go by the loop's thread
  std::thread thread_;
};

}  // namespace

std::unique_ptr<PeerLink> PeerLink::open(EventLoop& loop, const Token& token, const NodeAddress& node) {
  return std::make_unique<Link>(loop, token, node);
}

}  // namespace piper::launcher
