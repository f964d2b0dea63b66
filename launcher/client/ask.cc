#include "launcher/client/ask.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace piper::launcher {

namespace {

struct Socket {
  int descriptor;
  ~Socket() {
    if (descriptor >= 0) close(descriptor);
  }
};

Status no_answer(const std::string& path, const std::string& why) {
  return Status::failure("L0131", "no piperd answers at '" + path + "': " + why);
}

Status send_all(int socket, const std::string& path, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = send(socket, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (count < 0 && errno != EINTR) return no_answer(path, std::strerror(errno));
    if (count > 0) done += static_cast<size_t>(count);
  }
  return {};
}

Result<std::string> receive_line(int socket, const std::string& path) {
  std::string reply;
  char data[65536];
  for (;;) {
    const ssize_t count = recv(socket, data, sizeof data, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return no_answer(path, std::strerror(errno));
    if (count == 0) return no_answer(path, "it ended the connection");
    reply.append(data, static_cast<size_t>(count));
    if (reply.back() != '\n') continue;
    reply.pop_back();
    return reply;
  }
}

}  // namespace

Result<std::string> ask_daemon(const std::string& state_folder, const std::string& request) {
  const std::string path = state_folder + "/socket";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return no_answer(path, "the path is too long for a socket");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const Socket made{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (made.descriptor < 0 || connect(made.descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return no_answer(path, std::strerror(errno));
  const timeval patience{30, 0};
  setsockopt(made.descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(made.descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  PIPER_RETURN_IF_ERROR(send_all(made.descriptor, path, request + "\n"));
  return receive_line(made.descriptor, path);
}

}  // namespace piper::launcher
