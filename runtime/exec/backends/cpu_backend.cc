// Queues as threads, LibTorch's and own kernels, collectives over a transport.
#include "runtime/exec/backends/backend.h"
#include "runtime/hal/cpu/transport_collectives.h"

namespace piper::exec {

MakeBackend cpu_backend(hal::Transport& transport, CpuBackendOptions options) {
  return [&transport, options = std::move(options)](const plan::RankPlan& plan) -> Result<Backend> {
    Backend backend;
    backend.kernels = options.kernels;
    if (backend.kernels == nullptr) backend.kernels = {std::shared_ptr<void>(), &kernels::cpu_library()};  // nobody's
    hal::DeviceOptions device = options.device;
    device.enter_thread = [threads = options.threads] { kernels::enter_worker_thread(threads); };
    backend.device = hal::make_cpu_device(device, hal::queues_of(plan));
    if (options.link_delay) backend.delayed = hal::delay_links(transport, *options.link_delay);
    hal::Transport& links = backend.delayed != nullptr ? *backend.delayed : transport;
    backend.collectives = hal::make_transport_collectives(links, &kernels::add_f32);
    return backend;
  };
}

}  // namespace piper::exec
