#include "launcher/daemon/control_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/read_until.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace piper::launcher {

namespace {

using Protocol = asio::local::stream_protocol;

bool of_this_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

// One request; lives as long as something of it is under way.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Protocol::socket socket, const ControlServer::Answer& answer, std::shared_ptr<void> place)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), answer_(answer), place_(std::move(place)) {}

  void begin() {
    timer_.expires_after(ControlServer::kPatience);
    timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      asio::error_code none;
      if (!error) (void)self->socket_.close(none);
    });
    asio::async_read_until(socket_, asio::dynamic_buffer(request_, ControlServer::kLongestRequest), '\n',
                           [self = shared_from_this()](const asio::error_code& error, size_t bytes) {
                             if (error) return self->end();
                             self->request_.resize(bytes - 1);
                             self->reply();
                           });
  }

 private:
  void reply() {
    reply_ = answer_(request_) + "\n";
    asio::async_write(socket_, asio::buffer(reply_),
                      [self = shared_from_this()](const asio::error_code&, size_t) { self->end(); });
  }
  void end() {
    asio::error_code none;
    (void)timer_.cancel(none);
    (void)socket_.close(none);
  }

  Protocol::socket socket_;
  asio::steady_timer timer_;
  const ControlServer::Answer& answer_;
  std::shared_ptr<void> place_;
  std::string request_, reply_;
};

class Server : public ControlServer {
 public:
  Server(EventLoop& loop, std::string path, Answer answer)
      : loop_(loop), path_(std::move(path)), answer_(std::move(answer)), acceptor_(loop.context()) {}
  ~Server() override { unlink(path_.c_str()); }

  Status listen() {
    if (path_.size() >= sizeof(sockaddr_un::sun_path))
      return Status::failure("L0133", "'" + path_ + "' is too long for a socket; give a shorter --state");
    unlink(path_.c_str());
    try {
      const Protocol::endpoint endpoint(path_);
      acceptor_.open(endpoint.protocol());
      acceptor_.bind(endpoint);
      if (chmod(path_.c_str(), 0600) != 0) throw std::system_error(errno, std::generic_category());
      acceptor_.listen();
    } catch (const std::system_error& failure) {
      return Status::failure("L0133", "no socket '" + path_ + "': " + failure.code().message());
    }
    accept();
    return {};
  }

 private:
  void accept() {
    acceptor_.async_accept([this](const asio::error_code& error, Protocol::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) return pause();
      if (of_this_user(socket.native_handle()))
        std::make_shared<Connection>(std::move(socket), answer_, place())->begin();
      else std::fprintf(stderr, "piperd: a program of another user was sent away\n");
      if (connections_ < kMostConnections) accept();
      else full_ = true;
    });
  }
  // No descriptors are left, most likely.
  void pause() {
    pause_ = loop_.after(std::chrono::milliseconds(100), [this] { accept(); });
  }
  // Given back when the connection ends.
  std::shared_ptr<void> place() {
    ++connections_;
    return {nullptr, [alive = std::weak_ptr<Server*>(self_)](void*) {
              if (const auto server = alive.lock()) (*server)->give_back();
            }};
  }
  void give_back() {
    --connections_;
    if (std::exchange(full_, false)) accept();
  }

  EventLoop& loop_;
  std::string path_;
  Answer answer_;
  Protocol::acceptor acceptor_;
  std::unique_ptr<EventLoop::Watch> pause_;
  int connections_ = 0;
  bool full_ = false;
  std::shared_ptr<Server*> self_ = std::make_shared<Server*>(this);  // connections may outlive it, not to be answered
};

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::open(EventLoop& loop, const std::string& path, Answer answer) {
  auto server = std::make_unique<Server>(loop, path, std::move(answer));
  PIPER_RETURN_IF_ERROR(server->listen());
  return std::unique_ptr<ControlServer>(std::move(server));
}

}  // namespace piper::launcher
