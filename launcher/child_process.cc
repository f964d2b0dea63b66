#include "launcher/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "schemas/launch/variables.h"

namespace piper::launcher {

namespace {

struct Pipe {
  int ends[2] = {-1, -1};
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) close(end);
  }
  bool open() { return pipe2(ends, O_CLOEXEC) == 0; }
  int release(int end) { return std::exchange(ends[end], -1); }
};

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// In the child, which has one thread and may use nothing that takes a lock. Returns where something fails, with errno.
void become_program(const ChildStart& start, pid_t parent, const Pipe& out, const Pipe& err, char* const* arguments,
                    char* const* variables) {
  setpgid(0, 0);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return;
  if (getppid() != parent) _exit(128 + SIGKILL);  // it ended before it could take this process with it
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) return;
  if (nothing != STDIN_FILENO) close(nothing);
  if (dup2(out.ends[1], STDOUT_FILENO) < 0 || dup2(err.ends[1], STDERR_FILENO) < 0) return;
  if (start.close_others) close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  for (const int descriptor : start.inherited) fcntl(descriptor, F_SETFD, 0);
  if (!start.folder.empty() && chdir(start.folder.c_str()) != 0) return;
  // A shell's background processes have signals ignored that are passed on here.
  for (const int number : {SIGPIPE, SIGXFSZ, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT})
    signal(number, SIG_DFL);
  sigprocmask(SIG_SETMASK, &start.blocked, nullptr);
  execve(arguments[0], arguments, variables);
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const ChildStart& start) {
  const auto failed = [&](const std::string& what) {
    return Status::failure("L0104", start.name + ": " + what + ": " + std::strerror(errno));
  };
  Pipe out, err, failure;
  if (!out.open() || !err.open() || !failure.open()) return failed("no pipe");
  std::vector<std::string> arguments = start.arguments, variables = start.variables;
  const std::vector<char*> argv = pointers_to(arguments), envp = pointers_to(variables);
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) return failed("no process");
  if (pid == 0) {
    become_program(start, parent, out, err, argv.data(), envp.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t told = write(failure.ends[1], &error, sizeof error);
    _exit(127);
  }
  setpgid(pid, pid);  // whichever of the two is first
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  for (Pipe* pipe : {&out, &err}) fcntl(pipe->ends[0], F_SETFL, O_NONBLOCK);
  const int error_of_descriptor = errno;
  ChildProcess process(pid, descriptor, Output(out.release(0), start.out), Output(err.release(0), start.err));
  if (descriptor < 0) {
    errno = error_of_descriptor;
    return failed("no descriptor of a process, which Linux has since 5.3");
  }
  close(failure.release(1));
  if (int error = 0; read(failure.ends[0], &error, sizeof error) == static_cast<ssize_t>(sizeof error))
    return Status::failure("L0102", "'" + start.arguments[0] + "' does not start" +
                                        (start.folder.empty() ? "" : " in '" + start.folder + "'") + ": " +
                                        std::strerror(error));
  return process;
}

ChildProcess::ChildProcess(pid_t pid, int descriptor, Output out, Output err)
    : pid_(pid), descriptor_(descriptor), out_(std::move(out)), err_(std::move(err)) {}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0) return;
  signal_group(SIGKILL);
  take_end();
}

void ChildProcess::signal_group(int number) const {
  if (pid_ <= 0) return;
  kill(-pid_, number);
  if (number == SIGTERM || number == SIGINT) kill(-pid_, SIGCONT);  // what is stopped acts on nothing else
}

void ChildProcess::signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

// The group is killed while its leader's id is still taken by what is left of it: no other group can have it.
int ChildProcess::take_end() {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  kill(-pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<std::string> own_environment_with(std::vector<std::string> variables) {
  const size_t own = variables.size();
  for (char** inherited = environ; *inherited != nullptr; ++inherited) {
    const std::string_view text = *inherited;
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(variables.begin(), variables.begin() + static_cast<int64_t>(own),
                                      [&](const std::string& v) { return v.compare(0, v.find('='), name) == 0; });
    if (!replaced && name != launch::kStoreSocket) variables.emplace_back(text);
  }
  return variables;
}

}  // namespace piper::launcher
