#include "runtime/bootstrap/threads.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstring>
#include <system_error>
#include <thread>

namespace piper::bootstrap {
namespace {

// About 30 us: longer than it takes to wake a thread, and far less than a time slice.
char spin_count[] = "GOMP_SPINCOUNT=1000";

bool says_how_to_wait(const char* variable) {
  for (const char* name : {"GOMP_SPINCOUNT=", "OMP_WAIT_POLICY="})
    if (std::strncmp(variable, name, std::strlen(name)) == 0) return true;
  return false;
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int threads_per_rank(int flag, const std::optional<std::string>& omp_num_threads, int cores, int ranks_here) {
  if (flag > 0) return flag;
  int bound = INT_MAX;
  if (omp_num_threads) {
    const char* const end = omp_num_threads->data() + omp_num_threads->size();
    int value = 0;
    const auto read = std::from_chars(omp_num_threads->data(), end, value);
    if (read.ec == std::errc() && value > 0 && (read.ptr == end || *read.ptr == ',')) bound = value;
  }
  return std::max(1, std::min(bound, cores / std::max(1, ranks_here)));
}

void bound_spinning(int, char** argv, char** environment) {
  constexpr size_t kMost = 4096;  // on the stack
  char* with_spin_count[kMost + 2];
  size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (count == kMost || says_how_to_wait(environment[count])) return;
    with_spin_count[count] = environment[count];
  }
  with_spin_count[count] = spin_count;
  with_spin_count[count + 1] = nullptr;
  // By its path: the name of the process would be that of the link.
  char program[PATH_MAX + 1];
  const ssize_t length = readlink("/proc/self/exe", program, PATH_MAX);
  if (length <= 0) return;
  program[length] = '\0';
  // Returns where it fails, and the program goes on as it is.
  execve(program, argv, with_spin_count);
}

}  // namespace piper::bootstrap
