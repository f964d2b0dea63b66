#include "launcher/daemon/http_server.h"

#include <httplib.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

namespace piper::launcher {

namespace {

constexpr const char* kAddress = "127.0.0.1";
constexpr std::chrono::seconds kPatience{2};
constexpr size_t kThreads = 2;

class Server : public HttpServer {
 public:
  Server(EventLoop& loop, Pages pages) : loop_(loop), pages_(std::make_shared<Pages>(std::move(pages))) {}
  // The library stops a server that listens, and no other: the thread may be about to.
  ~Server() override {
    if (!thread_.joinable()) return;
    while (!server_.is_running() && !finished_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server_.stop();
    thread_.join();
  }

  Status listen(uint16_t port) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    // Not SO_REUSEPORT, the library's own choice: a port that another program has is taken.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server_.set_payload_max_length(0);
    server_.set_keep_alive_max_count(1);
    server_.set_read_timeout(kPatience);
    server_.set_write_timeout(kPatience);
    server_.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
      if (request.method == "GET") return httplib::Server::HandlerResponse::Unhandled;
      response.status = 405;
      response.set_header("Allow", "GET");
      return httplib::Server::HandlerResponse::Handled;
    });
    server_.Get("/healthz", [this](const httplib::Request&, httplib::Response& response) {
      const auto why = ask([pages = pages_] { return pages->unhealthy(); });
      response.status = why && why->empty() ? 200 : 503;
      response.set_content(why ? (why->empty() ? "ok" : *why) + "\n" : kSilent, "text/plain");
    });
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      const auto text = ask([pages = pages_] { return pages->metrics(); });
      response.status = text ? 200 : 503;
      response.set_content(text.value_or(kSilent), text ? "text/plain; version=0.0.4" : "text/plain");
    });
    port_ = port == 0 ? server_.bind_to_any_port(kAddress) : server_.bind_to_port(kAddress, port) ? port : -1;
    if (port_ <= 0)
      return Status::failure("L0136", std::string("port ") + std::to_string(port) + " of " + kAddress +
                                          " cannot be had; choose another with --http-port, or 0 for a free one");
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      finished_ = true;
    });
    return {};
  }

  uint16_t port() const override { return static_cast<uint16_t>(port_); }

 private:
  static constexpr const char* kSilent = "piperd does not answer\n";

  // The answer of the loop's thread; nothing where it takes too long.
  std::optional<std::string> ask(std::function<std::string()> page) {
    auto promise = std::make_shared<std::promise<std::string>>();
    auto answer = promise->get_future();
    loop_.post([promise, page = std::move(page)] { promise->set_value(page()); });
    if (answer.wait_for(kPatience) != std::future_status::ready) return std::nullopt;
    return answer.get();
  }

  EventLoop& loop_;
  std::shared_ptr<Pages> pages_;  // shared with calls that are still under way at the end
  httplib::Server server_;
  int port_ = 0;
  std::atomic<bool> finished_{false};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::open(EventLoop& loop, uint16_t port, Pages pages) {
  auto server = std::make_unique<Server>(loop, std::move(pages));
  PIPER_RETURN_IF_ERROR(server->listen(port));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace piper::launcher
