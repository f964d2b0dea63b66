#include <dlfcn.h>

#include <filesystem>

#include "runtime/exec/cuda_backend.h"
#include "runtime/hal/cuda/cuda_device.h"

namespace piper::exec {

namespace {

using Entry = decltype(&piper_cuda_backend);
Entry entry = nullptr;  // of the library, which stays open

MakeBackend make_by_library(const CudaBackendOptions& options) {
  MakeBackend made;
  entry(options, made);
  return made;
}

}  // namespace

// Beside the program, or where an installation has libraries.
Result<OpenedCuda> open_cuda() {
  PIPER_ASSIGN(const int devices, hal::cuda_devices());
  std::error_code error;
  const std::filesystem::path bin = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  std::string tried;
  for (const auto& folder : {bin, bin / ".." / "lib"}) {
    const std::string file = (folder / "libpiper_cuda.so").lexically_normal().string();
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      tried += std::string(tried.empty() ? "" : "; ") + dlerror();
      continue;
    }
    entry = reinterpret_cast<Entry>(dlsym(library, "piper_cuda_backend"));
    if (entry != nullptr) return OpenedCuda{devices, &make_by_library};
    tried += std::string(tried.empty() ? "" : "; ") + file + " is none of piper-run's";
  }
  return Status::failure("R0106", "the library with the kernels of GPUs cannot be opened: " + tried);
}

}  // namespace piper::exec
