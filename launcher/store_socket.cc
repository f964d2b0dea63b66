#include "launcher/store_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace piper::launcher {

namespace {

// A socket that listens at a free port of `address`, whose family is IPv4's or IPv6's; -1, with errno: none.
int listening(const sockaddr* address, socklen_t size) {
  const int descriptor = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int off = 0;
  // One socket for both families.
  if (address->sa_family == AF_INET6) setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (descriptor < 0 || (bind(descriptor, address, size) == 0 && listen(descriptor, SOMAXCONN) == 0)) return descriptor;
  const int error = errno;
  close(descriptor);
  errno = error;
  return -1;
}

}  // namespace

Result<StoreSocket> StoreSocket::open(Reach reach) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(reach == Reach::kLoopback ? INADDR_LOOPBACK : INADDR_ANY);
  sockaddr_in6 every{};
  every.sin6_family = AF_INET6;
  every.sin6_addr = in6addr_any;
  int descriptor = -1;
  if (reach == Reach::kAllInterfaces) descriptor = listening(reinterpret_cast<const sockaddr*>(&every), sizeof every);
  // Also on a machine without IPv6.
  if (descriptor < 0) descriptor = listening(reinterpret_cast<const sockaddr*>(&address), sizeof address);
  StoreSocket made(descriptor, 0);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (descriptor < 0 || getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return Status::failure("L0104", std::string(reach == Reach::kLoopback ? "no port of 127.0.0.1: " : "no port: ") +
                                        std::strerror(errno));
  // The port is at the same place in the addresses of both families.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  std::memcpy(&address, &bound, sizeof address);
  made.port_ = ntohs(address.sin_port);
  return made;
}

StoreSocket::~StoreSocket() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace piper::launcher
