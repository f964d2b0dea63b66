#include "tests/faults/faulty_rank.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace piper::faults {

namespace {

void for_ever(const hal::Stop* stop) {
  while (stop == nullptr || !stop->raised()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

// ------------------------------------------------------------------ messages
// What the exchanges of a rank share: how many there were, and whose messages are lost from then on.
struct Link {
  Fault fault;
  int32_t rank = -1;
  std::atomic<int64_t> sends{0}, receives{0};
  std::atomic<int32_t> lost_to{-1}, lost_channel{-1};
};

// For the test, which asks who was named: "piper-run-faulty: rank 1 does not get the message of rank 0".
void tell(int32_t sender, int32_t receiver) {
  std::fprintf(stderr, "piper-run-faulty: rank %d does not get the message of rank %d\n", receiver, sender);
}

class FaultyExchange : public hal::Exchange {
 public:
  FaultyExchange(hal::Transport& below, Link& link, std::vector<hal::Transfer> transfers)
      : below_(below), link_(link), transfers_(std::move(transfers)), whole_(below.prepare(transfers_)) {
    for (size_t t = 0; t < transfers_.size(); ++t) {
      if (transfers_[t].channel >= hal::kHostChannel) host_ = true;
      int64_t& first = transfers_[t].direction == hal::Direction::kSend ? send_ : receive_;
      if (first < 0) first = static_cast<int64_t>(t);
    }
  }
  Status run(const hal::WaitControl& control) override {
    const Kind kind = link_.fault.kind;
    if (host_) return whole_->run(control);
    if (kind == Kind::kDelay && receive_ >= 0 && ++link_.receives == link_.fault.at) return run_late(control);
    if (kind == Kind::kDrop && send_ >= 0) {
      const hal::Transfer& sent = transfers_[static_cast<size_t>(send_)];
      if (++link_.sends == link_.fault.at) {
        link_.lost_channel = sent.channel;
        link_.lost_to = sent.peer;
        tell(link_.rank, sent.peer);
      }
    }
    return lost(link_) ? run_rest(control) : whole_->run(control);
  }
  void resize(size_t transfer, int64_t bytes) override {
    transfers_.at(transfer).bytes = bytes;
    whole_->resize(transfer, bytes);
  }

 private:
  static bool is_lost(const hal::Transfer& t, const Link& link) {
    return t.direction == hal::Direction::kSend && t.peer == link.lost_to && t.channel == link.lost_channel;
  }
  bool lost(const Link& link) const {
    return std::any_of(transfers_.begin(), transfers_.end(), [&](const hal::Transfer& t) { return is_lost(t, link); });
  }
  // As if the network had taken what is lost.
  Status run_rest(const hal::WaitControl& control) {
    std::vector<hal::Transfer> rest = transfers_;
    std::erase_if(rest, [this](const hal::Transfer& t) { return is_lost(t, link_); });
    rest_ = below_.prepare(std::move(rest));
    return rest_->run(control);
  }
  // Nobody sends on that channel.
  Status run_late(const hal::WaitControl& control) {
    std::vector<hal::Transfer> late = transfers_;
    hal::Transfer& awaited = late[static_cast<size_t>(receive_)];
    tell(awaited.peer, link_.rank);
    awaited.channel = hal::kChannels - 1;
    rest_ = below_.prepare(std::move(late));
    return rest_->run(control);
  }

  hal::Transport& below_;
  Link& link_;
  std::vector<hal::Transfer> transfers_;
  std::unique_ptr<hal::Exchange> whole_, rest_;
  bool host_ = false;
  int64_t send_ = -1, receive_ = -1;  // its first ones
};

class FaultyTransport : public hal::Transport {
 public:
  FaultyTransport(hal::Transport& below, Link& link) : below_(below), link_(link) {}
  int32_t rank() const override { return below_.rank(); }
  int32_t world_size() const override { return below_.world_size(); }
  std::unique_ptr<hal::Exchange> prepare(std::vector<hal::Transfer> transfers) override {
    return std::make_unique<FaultyExchange>(below_, link_, std::move(transfers));
  }
  int64_t buffer_bytes() const override { return below_.buffer_bytes(); }
  void keep(std::shared_ptr<const void> memory) override { below_.keep(std::move(memory)); }

 private:
  hal::Transport& below_;
  Link& link_;
};

// ------------------------------------------------------------------ kernels
class SlowKernel : public kernels::PreparedKernel {
 public:
  SlowKernel(std::unique_ptr<PreparedKernel> below, const Fault& fault)
      : below_(std::move(below)), kind_(fault.kind), left_(fault.at) {}
  void run(hal::Queue& queue) override {
    below_->run(queue);
    left_ -= left_ > 0 ? 1 : 0;
    if (left_ > 0) return;
    if (kind_ == Kind::kSlow) for_ever(nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

 private:
  std::unique_ptr<PreparedKernel> below_;
  Kind kind_;
  int64_t left_;
};

// The first kernel that is bound is the one that is slow.
class SlowLibrary : public kernels::Library {
 public:
  SlowLibrary(std::shared_ptr<const kernels::Library> below, const Fault& fault)
      : below_(std::move(below)), fault_(fault) {}
  Result<std::unique_ptr<kernels::PreparedKernel>> bind(const plan::KernelCall& call,
                                                        const std::vector<kernels::BoundOperand>& outputs,
                                                        const std::vector<kernels::BoundOperand>& inputs,
                                                        const kernels::TrainingNumbers& numbers) const override {
    PIPER_ASSIGN(auto kernel, below_->bind(call, outputs, inputs, numbers));
    if (bound_.exchange(true)) return kernel;
    return std::unique_ptr<kernels::PreparedKernel>(std::make_unique<SlowKernel>(std::move(kernel), fault_));
  }

 private:
  std::shared_ptr<const kernels::Library> below_;
  Fault fault_;
  mutable std::atomic<bool> bound_{false};
};

// ------------------------------------------------------------------ samples
class StuckSource : public data::DataSource {
 public:
  StuckSource(const data::DataSource& below, int64_t at) : below_(below), at_(at) {}
  void fill(size_t input, int64_t step, int64_t first, int64_t count, std::byte* destination) const override {
    if (step >= at_) for_ever(nullptr);
    below_.fill(input, step, first, count, destination);
  }
  uint64_t sample_id(int64_t step, int64_t position) const override { return below_.sample_id(step, position); }
  int64_t num_samples() const override { return below_.num_samples(); }
  data::Sampling sampling() const override { return below_.sampling(); }
  bool numbers_samples() const override { return below_.numbers_samples(); }
  int64_t tokens_per_sample() const override { return below_.tokens_per_sample(); }
  std::string epoch_note(int64_t step, int64_t batch) const override { return below_.epoch_note(step, batch); }

 private:
  const data::DataSource& below_;
  int64_t at_;
};

// ------------------------------------------------------------------ storage
class FaultyStorage : public checkpoint::Storage {
 public:
  FaultyStorage(checkpoint::Storage& below, const Fault& fault) : below_(below), fault_(fault) {}
  int make_directory(const std::string& path) override { return below_.make_directory(path); }
  int create_file(const std::string& path, int& file) override { return below_.create_file(path, file); }
  int write(int file, const char* data, size_t bytes, size_t& written) override {
    return fault_.kind == Kind::kFull ? ENOSPC : below_.write(file, data, bytes, written);
  }
  int sync_file(int file) override {
    ++files_;
    if (fault_.kind == Kind::kDisk && files_ == fault_.at) for_ever(nullptr);
    if (fault_.kind == Kind::kSync && files_ >= fault_.at) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    return below_.sync_file(file);
  }
  int close_file(int file) override { return below_.close_file(file); }
  int rename(const std::string& from, const std::string& to) override { return below_.rename(from, to); }
  int sync_directory(const std::string& path) override { return below_.sync_directory(path); }
  int list(const std::string& path, std::vector<std::string>& names) override { return below_.list(path, names); }
  int remove_file(const std::string& path) override { return below_.remove_file(path); }
  int remove_directory(const std::string& path) override { return below_.remove_directory(path); }

 private:
  checkpoint::Storage& below_;
  Fault fault_;
  int64_t files_ = 0;
};

// Layers of the process's one rank; they live as long as the run.
struct Layers {
  Link link;
  std::unique_ptr<hal::Transport> transport;
  std::unique_ptr<data::DataSource> source;
  std::unique_ptr<checkpoint::Storage> storage;
};

}  // namespace

Result<Fault> read_fault(const std::string& text) {
  static const std::pair<const char*, Kind> kinds[] = {
      {"drop", Kind::kDrop}, {"delay", Kind::kDelay}, {"slow", Kind::kSlow},
      {"late", Kind::kLate}, {"load", Kind::kLoad},   {"loader", Kind::kLoader},
      {"disk", Kind::kDisk}, {"sync", Kind::kSync},   {"full", Kind::kFull}};
  std::istringstream in(text);
  std::string name;
  Fault fault;
  if (in >> name >> fault.rank >> fault.at)
    for (const auto& [known, kind] : kinds)
      if (name == known) {
        fault.kind = kind;
        return fault;
      }
  return Status::failure("", "PIPER_TEST_FAULT is '" + text + "', not a kind, a rank and a number");
}

program::WrapRanks with_fault(const Fault& fault) {
  return [fault](const program::MakeRank& make, exec::Session& session) -> program::MakeRank {
    auto layers = std::make_shared<Layers>();
    layers->link.fault = fault;
    layers->link.rank = fault.rank;
    return [fault, make, &session, layers](hal::Transport* transport, int32_t rank) -> exec::MakeBackend {
      if (rank != fault.rank) return make(transport, rank);
      if ((fault.kind == Kind::kDrop || fault.kind == Kind::kDelay) && transport != nullptr) {
        layers->transport = std::make_unique<FaultyTransport>(*transport, layers->link);
        return make(layers->transport.get(), rank);
      }
      if (fault.kind == Kind::kLoader) {
        layers->source = std::make_unique<StuckSource>(*session.data, fault.at);
        session.data = layers->source.get();
      }
      const bool of_storage = fault.kind == Kind::kDisk || fault.kind == Kind::kSync || fault.kind == Kind::kFull;
      if (of_storage && session.storage != nullptr) {
        layers->storage = std::make_unique<FaultyStorage>(*session.storage, fault);
        session.storage = layers->storage.get();
      }
      exec::MakeBackend backend = make(transport, rank);
      if (fault.kind == Kind::kLoad)
        return [backend, fault](const plan::RankPlan& plan) {
          std::this_thread::sleep_for(std::chrono::seconds(fault.at));
          return backend(plan);
        };
      if (fault.kind != Kind::kSlow && fault.kind != Kind::kLate) return backend;
      return [backend, fault](const plan::RankPlan& plan) -> Result<exec::Backend> {
        PIPER_ASSIGN(exec::Backend made, backend(plan));
        made.kernels = std::make_shared<SlowLibrary>(made.kernels, fault);
        return made;
      };
    };
  };
}

}  // namespace piper::faults
