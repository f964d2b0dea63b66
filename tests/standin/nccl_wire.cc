#include "tests/standin/nccl_wire.h"

#include <sys/socket.h>

namespace piper::standin {

namespace {

bool write_all(int socket, const void* data, size_t bytes) {
  for (const auto* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t done = send(socket, at, bytes, MSG_NOSIGNAL);
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

bool read_all(int socket, void* data, size_t bytes) {
  for (auto* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t done = recv(socket, at, bytes, 0);
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

}  // namespace

bool write_letter(int socket, Letter letter, const void* bytes) {
  return write_all(socket, &letter, sizeof letter) && write_all(socket, bytes, letter.bytes);
}

bool read_letter(int socket, Letter& letter, std::string& bytes) {
  if (!read_all(socket, &letter, sizeof letter)) return false;
  bytes.resize(letter.bytes);
  return read_all(socket, bytes.data(), bytes.size());
}

}  // namespace piper::standin
