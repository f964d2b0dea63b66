// piper-run: executes a plan bundle. Exit status: program/exit_status.h.
#include <cstdio>
#include <exception>

#include "runtime/bootstrap/threads.h"
#include "runtime/kernels/kernel.h"
#include "runtime/program/exit_status.h"
#include "runtime/program/program.h"

// Sanitizers are not set up yet at that point.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PIPER_RUNS_BEFORE_LIBRARIES
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#undef PIPER_RUNS_BEFORE_LIBRARIES
#endif
#endif
#endif
#if defined(PIPER_RUNS_BEFORE_LIBRARIES)
[[gnu::used,
  gnu::section(".preinit_array")]] void (*const before_libraries)(int, char**,
                                                                  char**) = &piper::bootstrap::bound_spinning;
#endif

int main(int argc, char** argv) {
  piper::kernels::initialise_process();
  piper::program::Flags flags;
  if (const auto status = piper::program::read_flags(argc, argv, flags)) return *status;
  try {
    return piper::program::run(flags);
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "piper-run: bug in piper-run: %s\n", bug.what());
    return piper::program::kBug;
  }
}
