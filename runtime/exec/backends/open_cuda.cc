#include "runtime/exec/backends/open_cuda.h"

#include <dlfcn.h>

#include <filesystem>

namespace piper::exec {

namespace {

// A symbol of the library, which stays open.
decltype(&piper_cuda_backend) backend_entry = nullptr;

MakeBackend make_by_library(const CudaBackendOptions& options) {
  MakeBackend made;
  backend_entry(options, made);
  return made;
}

// The driver is asked before libpiper_cuda.so is opened, which wants libraries that a machine without a GPU need not
// have: "there is no GPU" is what such a machine reports, not the first of those libraries.
Status look_for_device() {
  const std::string none = "there is no CUDA device here: ";
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return Status::failure("R0106", none + "no driver is installed (libcuda.so.1)");
  // As cuda.h declares them; a result of 0 is success.
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count_devices = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || count_devices == nullptr)
    return Status::failure("R0106", none + "its driver's library is none of CUDA's (libcuda.so.1)");
  int devices = 0;
  if (const int error = init(0); error != 0)
    return Status::failure("R0106", none + "the driver answers with error " + std::to_string(error));
  if (const int error = count_devices(&devices); error != 0 || devices == 0)
    return Status::failure("R0106", none + "the driver shows none (CUDA_VISIBLE_DEVICES?)");
  return {};
}

}  // namespace

// Beside the program, or where an installation has libraries.
Result<OpenedCuda> open_cuda() {
  PIPER_RETURN_IF_ERROR(look_for_device());
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
