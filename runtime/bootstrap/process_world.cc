#include "runtime/bootstrap/process_world.h"

#include <cstdio>
#include <cstdlib>

#include "runtime/bootstrap/rendezvous.h"
#include "runtime/hal/mpi/mpi_transport.h"
#include "runtime/hal/tcp/tcp_store_channel.h"
#include "runtime/hal/ucx/ucx_transport.h"

namespace piper::bootstrap {

namespace {

// A rank that is late by more than this has failed, and says so itself.
constexpr hal::WaitControl kLeaving{nullptr, std::chrono::seconds(10)};

class MpiWorld : public ProcessWorld {
 public:
  explicit MpiWorld(std::unique_ptr<hal::MpiTransport> transport) : transport_(std::move(transport)) {}
  hal::Transport& transport() override { return *transport_; }
  [[noreturn]] void abort(int exit_code) override {
    transport_->abort(exit_code);
    std::_Exit(exit_code);  // which the compiler does not see that it never reaches
  }

 private:
  std::unique_ptr<hal::MpiTransport> transport_;
};

class UcxWorld : public ProcessWorld {
 public:
  UcxWorld(std::unique_ptr<hal::TcpStoreChannel> store, std::unique_ptr<hal::UcxTransport> transport)
      : store_(std::move(store)), transport_(std::move(transport)) {}
  // A message has come when its receiver is here, not when its sender is: shared memory goes with the sender.
  ~UcxWorld() override {
    (void)store_->barrier(kLeaving);
    transport_.reset();
    (void)store_->leave(kLeaving);
  }
  hal::Transport& transport() override { return *transport_; }
  [[noreturn]] void abort(int exit_code) override {
    std::fflush(nullptr);
    std::_Exit(exit_code);
  }

 private:
  std::unique_ptr<hal::TcpStoreChannel> store_;
  std::unique_ptr<hal::UcxTransport> transport_;
};

}  // namespace

Result<std::unique_ptr<ProcessWorld>> join_by_mpi() {
  PIPER_ASSIGN(std::unique_ptr<hal::MpiTransport> transport, hal::MpiTransport::make());
  return std::unique_ptr<ProcessWorld>(std::make_unique<MpiWorld>(std::move(transport)));
}

Result<std::unique_ptr<ProcessWorld>> join_by_ucx(const RankEnvironment& environment, const std::string& bundle_digest,
                                                  const hal::WaitControl& wait) {
  PIPER_ASSIGN(hal::StoreAddress address, read_rendezvous(environment, process_variable));
  const auto reach =
      address.several_nodes ? hal::UcxTransport::Reach::kSeveralNodes : hal::UcxTransport::Reach::kOneNode;
  PIPER_ASSIGN(auto store, hal::TcpStoreChannel::join(
                               {std::move(address), environment.rank, environment.size, bundle_digest}, wait));
  PIPER_ASSIGN(auto transport, hal::UcxTransport::join(*store, reach, wait));
  return std::unique_ptr<ProcessWorld>(std::make_unique<UcxWorld>(std::move(store), std::move(transport)));
}

}  // namespace piper::bootstrap
