// How many intra-operator threads a rank gets, and how long they may spin. Used by piper-run before anything else.
// It starts no thread.
#pragma once

#include <optional>
#include <string>

namespace piper::bootstrap {

// Cores that this process may run on, by its affinity mask; at least 1.
int usable_cores();

// Threads of each rank where `flag` (--threads; 0: not given) does not say: the cores shared by the ranks on this
// machine, and no more than `omp_num_threads`, the variable OMP_NUM_THREADS. Of a list, one number a nesting level, the
// first counts; what is no positive number is ignored, as libgomp does. At least 1.
int threads_per_rank(int flag, const std::optional<std::string>& omp_num_threads, int cores, int ranks_here);

// Bounds how long an idle thread of libgomp spins, by starting this program anew, once, with GOMP_SPINCOUNT in its
// environment; does nothing where that or OMP_WAIT_POLICY is set. libgomp reads both when it is loaded, before main(),
// and by default spins for milliseconds at every barrier: beside busy processes that is a time slice that its peer
// waits for. Belongs into the program's .preinit_array, whose functions run before those of any library: nothing of
// LibTorch is set up twice. There is no environ yet, hence the arguments.
void bound_spinning(int argc, char** argv, char** environment);

}  // namespace piper::bootstrap
