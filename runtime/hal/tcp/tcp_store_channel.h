// The control channel over LibTorch's TCP store, which torchrun brings or rank 0 serves: for ranks whose data does not
// go over MPI. A message is a key that its sender sets and its receiver deletes. All of it passes the store's process:
// for what hosts tell each other, not for the data of a step.
//
// The store knows no users: whoever reaches its port can read and write. It stays on loopback unless the run has
// several nodes; what keeps other runs out are their ids, and they are no secret.
#pragma once

#include <functional>
#include <memory>

#include "runtime/hal/control_channel.h"
#include "runtime/hal/tcp/bound_port.h"
#include "runtime/hal/tcp/bounded_thread.h"
#include "runtime/hal/tcp/store_address.h"

namespace piper::hal {

class TcpStoreChannel : public ControlChannel {
 public:
  struct Options {
    StoreAddress at;
    int32_t rank = 0;
    int32_t world_size = 1;
    std::string bundle_digest;  // hexadecimal
  };
  // Meets the other processes of the run; rank 0 serves the store unless the launcher does. Run id and digest are
  // compared with rank 0's before anything else. R0107: another run is there, or this rank is there already. R0102:
  // rank 0 read another plan. R0302: rank 0 did not come. R0303: the library failed.
  static Result<std::unique_ptr<TcpStoreChannel>> join(Options options, const WaitControl& wait);
  // Rank 0 at a port that was bound before.
  static Result<std::unique_ptr<TcpStoreChannel>> serve(Options options, BoundPort port, const WaitControl& wait);
  // Without leave(): the other ranks find the store gone, R0303.
  ~TcpStoreChannel() override;

  // Another channel between the same ranks, for another thread, while this one lives. All ranks give it the same name.
  // R0302, R0303.
  Result<std::unique_ptr<TcpStoreChannel>> beside(const std::string& name, const WaitControl& wait) const;
  const Options& options() const;

  // After the last message, on every rank: whoever serves the store stays until all have taken theirs.
  // R0302: a rank has not come; what this rank has taken is right anyway.
  Status leave(const WaitControl& wait);

  int32_t rank() const override;
  int32_t world_size() const override;

  // A message goes in pieces, and of what one rank sends another at most about two blocks lie in the store, so that
  // memory of its process is bounded by what ranks send at the same time, not by the size of a checkpoint.
  static constexpr int64_t kPieceBytes = int64_t{1} << 20;
  static constexpr int64_t kBlockBytes = 2 * kPieceBytes;

 private:
  struct State;
  struct Turn;
  using Job = std::function<Status(State& state, const Turn& turn)>;
  explicit TcpStoreChannel(std::shared_ptr<State> state);
  Result<std::string> exchange(int32_t to, std::string out, int32_t from, size_t in, const WaitControl& wait) override;
  // Runs `job` on the thread. R0303: the library's words; R0302: waited for `awaited`, which is not answering.
  Status on_thread(const Job& job, const WaitControl& wait, const std::string& awaited);
  static Result<std::unique_ptr<TcpStoreChannel>> meet(Options options, int listening, const WaitControl& wait);

  std::shared_ptr<State> state_;  // with jobs of the thread, which may outlive this object
  BoundedThread thread_;
  bool broken_ = false;  // an exchange failed: nobody knows which messages came
};

}  // namespace piper::hal
