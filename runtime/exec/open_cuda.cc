#include "runtime/exec/open_cuda.h"

#include <dlfcn.h>

#include <filesystem>

namespace piper::exec {

namespace {

// Of the library, which stays open.
decltype(&piper_cuda_backend) backend_entry = nullptr;

MakeBackend make_by_library(const CudaBackendOptions& options) {
  MakeBackend made;
  backend_entry(options, made);
  return made;
}

}  // namespace

// Beside the program, or where an installation has libraries.
Result<OpenedCuda> open_cuda() {
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
    const auto devices_entry = reinterpret_cast<decltype(&piper_cuda_devices)>(dlsym(library, "piper_cuda_devices"));
    backend_entry = reinterpret_cast<decltype(&piper_cuda_backend)>(dlsym(library, "piper_cuda_backend"));
    if (devices_entry == nullptr || backend_entry == nullptr) {
      tried += std::string(tried.empty() ? "" : "; ") + file + " is none of piper-run's";
      continue;
    }
    Result<int> devices = 0;
    devices_entry(devices);
    PIPER_ASSIGN(const int count, std::move(devices));
    return OpenedCuda{count, &make_by_library};
  }
  return Status::failure("R0106", "the library that drives GPUs cannot be opened: " + tried);
}

}  // namespace piper::exec
