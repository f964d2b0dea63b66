#include "tools/mutate/trainer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "runtime/kernels/kernel.h"
#include "runtime/program/exit_status.h"
#include "runtime/program/program.h"

namespace piper::mutate {
namespace {

// A request: the timeout, the file for stderr and the arguments, each with its final zero. It fits one message.
constexpr size_t kMostBytes = 64 * 1024;

int train(const std::vector<const char*>& words) {
  program::Flags flags;
  if (const auto status = program::read_flags(static_cast<int>(words.size()), words.data(), flags)) return *status;
  try {
    return program::run(flags);
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "bug in piper-run: %s\n", bug.what());
    return program::kBug;
  }
}

[[noreturn]] void run_and_exit(const std::vector<const char*>& words, const char* said) {
  const int file = open(said, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0 || dup2(file, STDERR_FILENO) < 0) _exit(program::kStorage);
  const int status = train(words);
  std::fflush(nullptr);
  _exit(status);
}

int wait_status(pid_t child, int timeout_s) {
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  pollfd ended{descriptor, POLLIN, 0};
  if (descriptor < 0 || poll(&ended, 1, timeout_s * 1000) <= 0) kill(child, SIGKILL);
  if (descriptor >= 0) close(descriptor);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

[[noreturn]] void serve(int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  kernels::initialise_process();
  std::string request(kMostBytes, '\0');
  while (true) {
    const ssize_t size = recv(socket, request.data(), request.size(), 0);
    if (size <= 0) _exit(0);
    std::vector<const char*> words;
    for (const char* at = request.data(); at < request.data() + size; at += std::strlen(at) + 1) words.push_back(at);
    const int timeout_s = std::atoi(words.at(0));
    const char* const said = words.at(1);
    words.erase(words.begin(), words.begin() + 2);
    const pid_t child = fork();
    if (child == 0) {
      close(socket);
      run_and_exit(words, said);
    }
    const int status = child < 0 ? W_EXITCODE(program::kBug, 0) : wait_status(child, timeout_s);
    if (send(socket, &status, sizeof status, MSG_NOSIGNAL) != sizeof status) _exit(1);
  }
}

}  // namespace

Result<Trainer> Trainer::start() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return Status::failure("", std::string("no pair of sockets: ") + std::strerror(errno));
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process == 0) {
    close(sockets[0]);
    serve(sockets[1]);
  }
  close(sockets[1]);
  if (process < 0) {
    close(sockets[0]);
    return Status::failure("", std::string("no process to train in: ") + std::strerror(errno));
  }
  return Trainer(process, sockets[0]);
}

Trainer::Trainer(Trainer&& other) noexcept
    : process_(std::exchange(other.process_, -1)), socket_(std::exchange(other.socket_, -1)) {}

Trainer& Trainer::operator=(Trainer&& other) noexcept {
  std::swap(process_, other.process_);
  std::swap(socket_, other.socket_);
  return *this;
}

Trainer::~Trainer() {
  if (socket_ >= 0) close(socket_);
  if (process_ <= 0) return;
  kill(process_, SIGKILL);  // it has no child now; other trainers may keep its end of the socket open
  waitpid(process_, nullptr, 0);
}

Result<int> Trainer::run(const std::vector<std::string>& arguments, const std::string& said, int timeout_s) const {
  std::string request;
  request.append(std::to_string(timeout_s))
      .append(1, '\0')
      .append(said)
      .append(1, '\0')
      .append("piper-run")
      .append(1, '\0');
  for (const std::string& argument : arguments) request.append(argument).append(1, '\0');
  int status = 0;
  if (request.size() > kMostBytes || send(socket_, request.data(), request.size(), MSG_NOSIGNAL) < 0 ||
      recv(socket_, &status, sizeof status, 0) != sizeof status)
    return Status::failure("", "the process that trains is gone");
  return status;
}

}  // namespace piper::mutate
