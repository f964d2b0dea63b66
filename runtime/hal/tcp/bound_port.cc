#include "runtime/hal/tcp/bound_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace piper::hal {

namespace {

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

Address ipv4(uint16_t port, in_addr_t interface) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  in.sin_addr.s_addr = htonl(interface);
  Address result;
  std::memcpy(&result.bytes, &in, sizeof in);
  result.size = sizeof in;
  return result;
}

Address every_ipv6(uint16_t port) {
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(port);
  in.sin6_addr = in6addr_any;
  Address result;
  std::memcpy(&result.bytes, &in, sizeof in);
  result.size = sizeof in;
  return result;
}

// The bound socket, or minus errno.
int bound(const Address& address) {
  const int socket = ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return -errno;
  const int on = 1, off = 0;
  // Connections of a run that has just ended do not keep the next one from its port.
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // One socket for both families.
  if (address.bytes.ss_family == AF_INET6) setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  // Two sockets that nobody listens on may share a port: only by listening does it become this one's.
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&address.bytes), address.size) == 0 &&
      listen(socket, SOMAXCONN) == 0)
    return socket;
  const int error = errno;
  close(socket);
  return -error;
}

uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  // The port is at the same place in the addresses of both families.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  sockaddr_in in{};
  std::memcpy(&in, &address, sizeof in);
  return ntohs(in.sin_port);
}

}  // namespace

Result<BoundPort> BoundPort::bind(uint16_t port, Reach reach) {
  int socket = -EAFNOSUPPORT;
  if (reach == Reach::kLoopback) {
    socket = bound(ipv4(port, INADDR_LOOPBACK));
  } else {
    socket = bound(every_ipv6(port));
    if (socket < 0 && socket != -EADDRINUSE) socket = bound(ipv4(port, INADDR_ANY));  // a machine without IPv6
  }
  if (socket == -EADDRINUSE)
    return Status::failure("R0107", "port " + std::to_string(port) +
                                        " of this machine is in use, by another run or another program. Give this run "
                                        "another one by MASTER_PORT, e.g. torchrun --master-port");
  if (socket < 0)
    return Status::failure(
        "R0303", "port " + std::to_string(port) + " of this machine cannot be bound: " + std::strerror(-socket));
  return BoundPort(socket, port_of(socket));
}

Result<BoundPort> BoundPort::inherit(int socket) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
    return Status::failure("R0303", "descriptor " + std::to_string(socket) + " is no socket that listens");
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  return BoundPort(socket, port_of(socket));
}

BoundPort::~BoundPort() {
  if (socket_ >= 0) close(socket_);
}

int BoundPort::release() {
  const int socket = socket_;
  socket_ = -1;
  return socket;
}

}  // namespace piper::hal
