// piper-run, run after run: each is a child of this process, which has loaded LibTorch already. For tests that start
// many small runs, of which loading it is the longest part. A run is asked for on standard input as texts that end
// with NUL: how many words there are, the file for what it prints, its folder, and the words of the command. The
// answer is a line with its exit status, or minus the signal that ended it.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/bootstrap/threads.h"
#include "runtime/kernels/kernel.h"
#include "runtime/program/exit_status.h"
#include "runtime/program/program.h"

// As piper-run does.
[[gnu::used,
  gnu::section(".preinit_array")]] void (*const before_libraries)(int, char**,
                                                                  char**) = &piper::bootstrap::bound_spinning;

namespace {

std::optional<std::string> next_text() {
  std::string text;
  char byte = 0;
  while (true) {
    const ssize_t count = read(STDIN_FILENO, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    if (byte == '\0') return text;
    text += byte;
  }
}

int run(const std::vector<std::string>& words) {
  std::vector<const char*> arguments;
  for (const auto& word : words) arguments.push_back(word.c_str());
  piper::program::Flags flags;
  if (const auto status = piper::program::read_flags(static_cast<int>(arguments.size()), arguments.data(), flags)) {
    return *status;
  }
  try {
    return piper::program::run(flags);
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "piper-run: bug in piper-run: %s\n", bug.what());
    return piper::program::kBug;
  }
}

// In the child: does not return.
[[noreturn]] void become(const std::string& output, const std::string& folder, const std::vector<std::string>& words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int in = open("/dev/null", O_RDONLY);
  const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
  if (in < 0 || out < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0 ||
      chdir(folder.c_str()) != 0) {
    std::perror("piper-run-forks");
    std::_Exit(piper::program::kBug);
  }
  close(in);
  close(out);
  const int status = run(words);
  std::fflush(nullptr);
  std::_Exit(status);  // libraries' ends cost more than a small run, and have copies of this process's pages made
}

bool has_one_thread() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return std::distance(begin(threads), end(threads)) == 1;
}

}  // namespace

int main() {
  piper::kernels::initialise_process();
  const int answers = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
  while (const auto count = next_text()) {
    std::vector<std::string> texts;
    for (int left = std::stoi(*count) + 2; left > 0; --left) texts.push_back(next_text().value());
    // A fork has none of the others, which may hold locks.
    if (!has_one_thread()) return piper::program::kBug;
    const pid_t child = fork();
    if (child == 0) {
      close(answers);
      become(texts[0], texts[1], {texts.begin() + 2, texts.end()});
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return piper::program::kBug;
    dprintf(answers, "%d\n", WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
  }
}
