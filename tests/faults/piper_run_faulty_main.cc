// piper-run with the fault that PIPER_TEST_FAULT says (faulty_rank.h).
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "runtime/kernels/kernel.h"
#include "runtime/program/exit_status.h"
#include "tests/faults/faulty_rank.h"

int main(int argc, char** argv) {
  piper::kernels::initialise_process();
  piper::program::Flags flags;
  if (const auto status = piper::program::read_flags(argc, argv, flags)) return *status;
  const char* const text = std::getenv("PIPER_TEST_FAULT");
  const auto fault = piper::faults::read_fault(text == nullptr ? "" : text);
  if (!fault.ok()) {
    std::fprintf(stderr, "piper-run-faulty: %s\n", fault.error().message.c_str());
    return piper::program::kCommandLine;
  }
  try {
    return piper::program::run(flags, piper::faults::with_fault(*fault));
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "piper-run-faulty: bug in piper-run: %s\n", bug.what());
    return piper::program::kBug;
  }
}
