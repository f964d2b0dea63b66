#include "launcher/store_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace piper::launcher {

Result<StoreSocket> StoreSocket::open() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  StoreSocket made(descriptor, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (descriptor < 0 || bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(descriptor, SOMAXCONN) != 0 || getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return Status::failure("L0104", std::string("no port of 127.0.0.1: ") + std::strerror(errno));
  made.port_ = ntohs(address.sin_port);
  return made;
}

StoreSocket::~StoreSocket() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace piper::launcher
