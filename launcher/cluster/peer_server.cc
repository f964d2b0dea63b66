#include "launcher/cluster/peer_server.h"

#include <httplib.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <future>
#include <mutex>
#include <thread>

namespace piper::launcher {

namespace {

constexpr std::chrono::seconds kPatience{2};
constexpr size_t kThreads = 8;
constexpr int64_t kTellEveryMs = 10'000;

int64_t wall_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class Server : public PeerServer {
 public:
  Server(EventLoop& loop, const Token& token, std::string name, Answer answer)
      : loop_(loop), token_(token), name_(std::move(name)), answer_(std::make_shared<Answer>(std::move(answer))) {}
  // The library stops a server that listens, and no other: the thread may be about to.
  ~Server() override {
    if (!thread_.joinable()) return;
    while (!server_.is_running() && !finished_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server_.stop();
    thread_.join();
  }

  Status listen(const std::string& host, uint16_t port) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    // Not SO_REUSEPORT, the library's own choice: a port that another program has is taken.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server_.set_payload_max_length(kLongestBody);
    server_.set_keep_alive_max_count(1);
    server_.set_read_timeout(kPatience);
    server_.set_write_timeout(kPatience);
    server_.set_tcp_nodelay(true);
    server_.Post(".*",
                 [this](const httplib::Request& request, httplib::Response& response) { take(request, response); });
    if (!server_.bind_to_port(host, port))
      return Status::failure("L0136", "port " + std::to_string(port) + " of " + host +
                                          " cannot be had for other nodes; --listen says which address of this node");
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      finished_ = true;
    });
    return {};
  }

 private:
  void take(const httplib::Request& request, httplib::Response& response) {
    if (const std::string why = refusal(request); !why.empty()) {
      tell(request.remote_addr, why);
      response.status = 403;
      return;
    }
    const auto body = ask(request.path, request.body);
    response.status = body ? 200 : 400;
    const std::string text = body.value_or("this piperd does not understand it");
    response.set_header(kStampHeader,
                        token_.stamp_answer(response.status, request.get_header_value(kNonceHeader), text));
    response.set_content(text, "application/json");
  }

  // Why it is not believed; "": it is.
  std::string refusal(const httplib::Request& request) {
    const std::string time = request.get_header_value(kTimeHeader), nonce = request.get_header_value(kNonceHeader);
    StampedRequest stamped{request.method, request.path, name_, request.body, 0, nonce};
    const auto read = std::from_chars(time.data(), time.data() + time.size(), stamped.time_ms);
    if (read.ec != std::errc() || read.ptr != time.data() + time.size()) return "it has no time";
    if (!same_stamp(request.get_header_value(kStampHeader), token_.stamp(stamped)))
      return "its stamp is not of this node's token, or it is for another node";
    std::lock_guard lock(mutex_);
    return taken_.take(nonce, stamped.time_ms, wall_ms());
  }

  void tell(const std::string& from, const std::string& why) {
    std::lock_guard lock(mutex_);
    ++refused_;
    if (wall_ms() < told_ms_ + kTellEveryMs) return;
    told_ms_ = wall_ms();
    std::fprintf(stderr, "piperd: %lld requests refused so far, the last one from %s: %s\n",
                 static_cast<long long>(refused_), from.c_str(), why.c_str());
  }

  // The answer of the loop's thread; nothing where it takes too long.
  std::optional<std::string> ask(const std::string& path, const std::string& body) {
    auto promise = std::make_shared<std::promise<std::optional<std::string>>>();
    auto answer = promise->get_future();
    loop_.post([promise, path, body, call = answer_] { promise->set_value((*call)(path, body)); });
    if (answer.wait_for(kPatience) != std::future_status::ready) return std::nullopt;
    return answer.get();
  }

  EventLoop& loop_;
  const Token& token_;
  const std::string name_;
  std::shared_ptr<Answer> answer_;  // shared with calls that are still under way at the end
  std::mutex mutex_;
  TakenRequests taken_{wall_ms()};
  int64_t refused_ = 0, told_ms_ = 0;
  httplib::Server server_;
  std::atomic<bool> finished_{false};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<PeerServer>> PeerServer::open(EventLoop& loop, const Token& token, const std::string& name,
                                                     const std::string& host, uint16_t port, Answer answer) {
  auto server = std::make_unique<Server>(loop, token, name, std::move(answer));
  PIPER_RETURN_IF_ERROR(server->listen(host, port));
  return std::unique_ptr<PeerServer>(std::move(server));
}

}  // namespace piper::launcher
