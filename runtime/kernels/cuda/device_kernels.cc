#include "runtime/kernels/cuda/device_kernels.h"

#include <utility>
#include <vector>

#include "runtime/kernels/cuda/cuda_library.h"
#include "runtime/kernels/cuda/group_commands.h"

namespace piper::kernels::cuda {

Result<std::shared_ptr<const Library>> open_kernels(hal::Device& device) {
  using Regions = std::vector<std::unique_ptr<hal::MemoryRegion>>;
  const auto regions = std::make_shared<Regions>();
  PIPER_ASSIGN(auto library, CudaLibrary::make({[&device, regions](int64_t bytes) -> Result<hal::Address> {
                 PIPER_ASSIGN(auto region, device.allocate(bytes));
                 regions->push_back(std::move(region));
                 return regions->back()->base();
               }}));
  return std::shared_ptr<const Library>(std::move(library));
}

hal::GroupKernels group_kernels() { return {&make_piece_sum, &make_conversion}; }

}  // namespace piper::kernels::cuda
