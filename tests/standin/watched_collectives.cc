#include "tests/standin/watched_collectives.h"

#include <utility>

namespace piper::standin {

namespace {

class Watched : public hal::Collectives {
 public:
  Watched(std::unique_ptr<hal::Collectives> inner, int32_t rank, LookAtEnd at_end)
      : inner_(std::move(inner)), rank_(rank), at_end_(std::move(at_end)) {}
  ~Watched() override {
    at_end_(rank_, inner_.get());
    inner_.reset();
    at_end_(rank_, nullptr);
  }
  Result<std::vector<std::unique_ptr<hal::Group>>> open_groups(const std::vector<plan::Communicator>& communicators,
                                                               hal::ControlChannel& control,
                                                               const hal::WaitControl& wait) override {
    return inner_->open_groups(communicators, control, wait);
  }
  hal::MadeCommand send(const plan::Channel& channel, hal::Address data, int64_t bytes) override {
    return inner_->send(channel, data, bytes);
  }
  hal::MadeCommand recv(const plan::Channel& channel, hal::Address data, int64_t bytes) override {
    return inner_->recv(channel, data, bytes);
  }
  int64_t buffer_bytes() const override { return inner_->buffer_bytes(); }
  void keep(std::shared_ptr<const void> memory) override { inner_->keep(std::move(memory)); }
  Status check() override { return inner_->check(); }
  void close() override { inner_->close(); }
  void abort() override { inner_->abort(); }

 private:
  std::unique_ptr<hal::Collectives> inner_;
  int32_t rank_;
  LookAtEnd at_end_;
};

}  // namespace

MakeRank watched_nccl(const GpuOptions& options, const LookAtEnd& at_end) {
  return [=](hal::Transport& transport) -> exec::MakeBackend {
    return [=, rank = transport.rank()](const plan::RankPlan& plan) -> Result<exec::Backend> {
      PIPER_ASSIGN(exec::Backend made, nccl_backend(plan::Summing::kPosition, options)(plan));
      made.collectives = std::make_unique<Watched>(std::move(made.collectives), rank, at_end);
      return made;
    };
  };
}

}  // namespace piper::standin
