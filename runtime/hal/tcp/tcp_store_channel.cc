#include "runtime/hal/tcp/tcp_store_channel.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "runtime/hal/tcp/store_connection.h"

namespace piper::hal {

// One job's way to wait.
struct TcpStoreChannel::Turn {
  const BoundedThread::GivenUp& given_up;
  std::chrono::steady_clock::time_point end;
  std::chrono::milliseconds timeout;
};

namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<uint8_t>;
using Store = c10d::TCPStore;

constexpr size_t kHeaderBytes = sizeof(uint64_t);
// What a message costs the store beside its bytes, so that many empty ones are bounded, too.
constexpr int64_t kKeyBytes = 64;
static_assert(TcpStoreChannel::kPieceBytes + kKeyBytes < TcpStoreChannel::kBlockBytes,
              "a piece ends one block at most");
static_assert(TcpStoreChannel::kPieceBytes < (8 << 20), "the store's server refuses longer values");

std::string duration(std::chrono::milliseconds time) {
  if (time < std::chrono::seconds(1)) return std::to_string(time.count()) + " ms";
  return std::to_string(time.count() / 1000) + " s";
}

Status timed_out(std::chrono::milliseconds timeout, const std::string& awaited) {
  return Status::failure("R0302", "waited " + duration(timeout) + " for " + awaited);
}

int64_t pieces_of(size_t bytes) {
  const auto count = static_cast<int64_t>((bytes + TcpStoreChannel::kPieceBytes - 1) / TcpStoreChannel::kPieceBytes);
  return std::max<int64_t>(1, count);
}

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

// Used by jobs of the thread alone, `options` excepted, which nobody changes.
struct TcpStoreChannel::State {
  // What has gone from one rank to another. Both ends count the same, so neither sends the other where a block ends.
  struct Flow {
    int64_t pieces = 0, bytes = 0;
    int64_t acknowledged = 0;  // blocks, at the sender
  };

  // `name`: of a channel beside another one.
  State(Options given, const std::string& name)
      : options(std::move(given)),
        is_first(name.empty()),
        prefix(key_prefix(options.at) + name),
        sent(size(options)),
        taken(size(options)) {}
  static size_t size(const Options& options) { return static_cast<size_t>(options.world_size); }
  std::string place() const { return place_of(options.at); }
  bool serves() const { return is_first && options.rank == 0 && !options.at.served_by_launcher; }
  std::string key(const char* kind, int32_t from, int32_t to, int64_t index) const {
    return prefix + kind + "/" + std::to_string(from) + "/" + std::to_string(to) + "/" + std::to_string(index);
  }

  void connect(int listening, std::chrono::milliseconds timeout);
  Status await_key(const std::string& key, const Turn& turn, const std::string& awaited);
  Result<Bytes> take(const std::string& key, const Turn& turn, const std::string& awaited);
  Status greet(const Turn& turn);
  Status compare(const std::string& of_rank_0) const;
  Status send_piece(int32_t to, const std::string& out, int64_t piece, const Turn& turn);
  Status take_piece(int32_t from, std::string& in, size_t size, int64_t piece, const Turn& turn);
  Status leave(const Turn& turn);

  const Options options;
  const bool is_first;
  const std::string prefix;
  c10::intrusive_ptr<Store> store;
  std::vector<Flow> sent, taken;  // by rank
};

// The caller gives up first, in one line; the library would print a stack.
void TcpStoreChannel::State::connect(int listening, std::chrono::milliseconds timeout) {
  store = connect_to_store(options.at, options.rank, listening, timeout + 2 * BoundedThread::kGrace);
}

// Asks for the key again and again: the library's own wait cannot be ended from outside, and logs each time-out.
Status TcpStoreChannel::State::await_key(const std::string& key, const Turn& turn, const std::string& awaited) {
  std::chrono::microseconds pause{100};
  constexpr std::chrono::microseconds kLongestPause{20000};
  while (!store->check({key})) {
    if (turn.given_up) return stopped();
    if (Clock::now() >= turn.end) return timed_out(turn.timeout, awaited);
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
  return {};
}

Result<Bytes> TcpStoreChannel::State::take(const std::string& key, const Turn& turn, const std::string& awaited) {
  PIPER_RETURN_IF_ERROR(await_key(key, turn, awaited));
  Bytes value = store->get(key);
  store->deleteKey(key);
  return value;
}

// A store that a launcher serves is there for all of its attempts, one that rank 0 serves for its own.
Status TcpStoreChannel::State::greet(const Turn& turn) {
  const StoreAddress& at = options.at;
  const std::string hello = at.served_by_launcher ? "piper/hello/" + std::to_string(at.attempt) : "piper/hello";
  const std::string mine = at.run_id + "\n" + std::to_string(at.attempt) + "\n" + options.bundle_digest;
  Bytes of_rank_0;
  if (options.rank == 0) {
    of_rank_0 = store->compareSet(hello, Bytes(), bytes_of(mine));
  } else {
    PIPER_RETURN_IF_ERROR(await_key(hello, turn, "rank 0 to come to the TCP store at " + place()));
    of_rank_0 = store->get(hello);
  }
  PIPER_RETURN_IF_ERROR(compare({of_rank_0.begin(), of_rank_0.end()}));
  if (store->add(prefix + "here/" + std::to_string(options.rank), 1) != 1)
    return Status::failure("R0107", "rank " + std::to_string(options.rank) + " of run '" + at.run_id +
                                        "' is at the TCP store " + place() +
                                        " already: two processes have the same rank. Was the run started twice?");
  return {};
}

Status TcpStoreChannel::State::compare(const std::string& of_rank_0) const {
  const StoreAddress& at = options.at;
  const auto run = [](const std::string& id, const std::string& attempt) {
    return "'" + id.substr(0, StoreAddress::kMaxRunIdBytes) + "'" +
           (attempt == "0" ? "" : " (attempt " + attempt.substr(0, 20) + ")");
  };
  const size_t second = of_rank_0.find('\n'), third = of_rank_0.find('\n', second + 1);
  if (second == std::string::npos || third == std::string::npos)
    return Status::failure("R0107", "the content of the TCP store at " + place() + " is not from a run of piper");
  const std::string id = of_rank_0.substr(0, second), attempt = of_rank_0.substr(second + 1, third - second - 1),
                    digest = of_rank_0.substr(third + 1);
  if (id != at.run_id || attempt != std::to_string(at.attempt))
    return Status::failure("R0107", "run " + run(id, attempt) + " has the TCP store at " + place() +
                                        ", and this process is of run " + run(at.run_id, std::to_string(at.attempt)) +
                                        ". End what is left of the other run, or give this run another port with "
                                        "MASTER_PORT, e.g. torchrun --master-port");
  if (digest != options.bundle_digest)
    return Status::failure("R0102", "rank " + std::to_string(options.rank) + " read another plan than rank 0: digest " +
                                        options.bundle_digest.substr(0, 12) + " against " + digest.substr(0, 12) +
                                        ". Give every rank the same bundle, e.g. on a shared file system");
  return {};
}

Status TcpStoreChannel::State::send_piece(int32_t to, const std::string& out, int64_t piece, const Turn& turn) {
  Flow& flow = sent[static_cast<size_t>(to)];
  for (; flow.acknowledged + 1 < flow.bytes / kBlockBytes; ++flow.acknowledged) {
    auto told = take(key("taken", options.rank, to, flow.acknowledged), turn,
                     "rank " + std::to_string(to) + " to take control messages");
    if (!told.ok()) return told.take_status();
  }
  const size_t begin = static_cast<size_t>(piece * kPieceBytes),
               count = std::min(out.size() - begin, static_cast<size_t>(kPieceBytes));
  const uint64_t size = out.size();
  Bytes value(kHeaderBytes + count);
  std::memcpy(value.data(), &size, kHeaderBytes);
  if (count > 0) std::memcpy(value.data() + kHeaderBytes, out.data() + begin, count);
  store->set(key("message", options.rank, to, flow.pieces), value);
  ++flow.pieces;
  flow.bytes += static_cast<int64_t>(count) + kKeyBytes;
  return {};
}

Status TcpStoreChannel::State::take_piece(int32_t from, std::string& in, size_t size, int64_t piece, const Turn& turn) {
  Flow& flow = taken[static_cast<size_t>(from)];
  const std::string sender = "rank " + std::to_string(from);
  PIPER_ASSIGN(const Bytes value,
               take(key("message", from, options.rank, flow.pieces), turn, "a control message of " + sender));
  uint64_t of_sender = 0;
  if (value.size() >= kHeaderBytes) std::memcpy(&of_sender, value.data(), kHeaderBytes);
  if (value.size() < kHeaderBytes || of_sender != size)
    return Status::failure("R0301", sender + " has a control message of " + std::to_string(of_sender) +
                                        " bytes, rank " + std::to_string(options.rank) + " expects " +
                                        std::to_string(size));
  const size_t begin = static_cast<size_t>(piece * kPieceBytes),
               count = std::min(size - begin, static_cast<size_t>(kPieceBytes));
  if (value.size() != kHeaderBytes + count)
    return Status::failure("R0303", "a piece of a control message of " + sender + " has " +
                                        std::to_string(value.size()) + " bytes instead of " +
                                        std::to_string(kHeaderBytes + count));
  if (piece == 0) in.resize(size);
  if (count > 0) std::memcpy(in.data() + begin, value.data() + kHeaderBytes, count);
  const int64_t block = flow.bytes / kBlockBytes;
  ++flow.pieces;
  flow.bytes += static_cast<int64_t>(count) + kKeyBytes;
  if (flow.bytes / kBlockBytes > block) store->set(key("taken", from, options.rank, block), Bytes(1));
  return {};
}

Status TcpStoreChannel::State::leave(const Turn& turn) {
  const auto left = [&](int32_t rank) { return prefix + "left/" + std::to_string(rank); };
  if (!serves()) {
    store->set(left(options.rank), Bytes(1));
    return {};
  }
  for (int32_t rank = 1; rank < options.world_size; ++rank)
    PIPER_RETURN_IF_ERROR(await_key(left(rank), turn, "rank " + std::to_string(rank) + " to end"));
  return {};
}

TcpStoreChannel::TcpStoreChannel(std::shared_ptr<State> state) : state_(std::move(state)) {}
TcpStoreChannel::~TcpStoreChannel() = default;
int32_t TcpStoreChannel::rank() const { return state_->options.rank; }
int32_t TcpStoreChannel::world_size() const { return state_->options.world_size; }
const TcpStoreChannel::Options& TcpStoreChannel::options() const { return state_->options; }

Result<std::unique_ptr<TcpStoreChannel>> TcpStoreChannel::beside(const std::string& name,
                                                                 const WaitControl& wait) const {
  std::unique_ptr<TcpStoreChannel> channel(new TcpStoreChannel(std::make_shared<State>(state_->options, name + "/")));
  PIPER_RETURN_IF_ERROR(channel->on_thread(
      [timeout = wait.timeout](State& state, const Turn&) {
        state.connect(-1, timeout);
        return Status();
      },
      wait, "the TCP store at " + state_->place() + " to answer"));
  return channel;
}

Result<std::unique_ptr<TcpStoreChannel>> TcpStoreChannel::join(Options options, const WaitControl& wait) {
  if (options.rank != 0 || options.at.served_by_launcher) return meet(std::move(options), -1, wait);
  if (options.at.listening >= 0) {
    PIPER_ASSIGN(BoundPort inherited, BoundPort::inherit(options.at.listening));
    return serve(std::move(options), std::move(inherited), wait);
  }
  const auto reach = options.at.several_nodes ? BoundPort::Reach::kAllInterfaces : BoundPort::Reach::kLoopback;
  PIPER_ASSIGN(BoundPort port, BoundPort::bind(options.at.port, reach));
  return serve(std::move(options), std::move(port), wait);
}

Result<std::unique_ptr<TcpStoreChannel>> TcpStoreChannel::serve(Options options, BoundPort port,
                                                                const WaitControl& wait) {
  PIPER_CHECK(options.rank == 0 && !options.at.served_by_launcher, "rank ", options.rank, " serves no store");
  options.at.port = port.port();
  return meet(std::move(options), port.release(), wait);
}

Result<std::unique_ptr<TcpStoreChannel>> TcpStoreChannel::meet(Options options, int listening,
                                                               const WaitControl& wait) {
  PIPER_CHECK(options.rank >= 0 && options.rank < options.world_size, "rank ", options.rank, " of ",
              options.world_size);
  PIPER_CHECK(options.at.run_id.size() <= StoreAddress::kMaxRunIdBytes, "a run id of ", options.at.run_id.size());
  std::unique_ptr<TcpStoreChannel> channel(new TcpStoreChannel(std::make_shared<State>(std::move(options), "")));
  State& state = *channel->state_;
  const std::string served = std::string("the TCP store of ") +
                             (state.options.at.served_by_launcher ? "the launcher" : "rank 0") + " at " + state.place();
  const Status met = channel->on_thread(
      [listening, timeout = wait.timeout](State& state, const Turn& turn) {
        state.connect(listening, timeout);
        return state.greet(turn);
      },
      wait, served);
  if (!met.ok()) return Status(met.error());
  return channel;
}

Status TcpStoreChannel::leave(const WaitControl& wait) {
  if (broken_) return Status::failure("R0303", "the control channel has failed before");
  return on_thread([](State& state, const Turn& turn) { return state.leave(turn); }, wait,
                   "the TCP store at " + state_->place() + " to answer");
}

// In each turn one piece goes and one comes: a rank that waits for its blocks to be taken has taken what others sent
// it in the turns before, so that a ring of ranks with long messages moves on.
Result<std::string> TcpStoreChannel::exchange(int32_t to, std::string out, int32_t from, size_t in,
                                              const WaitControl& wait) {
  if (broken_) return Status::failure("R0303", "the control channel has failed before");
  const auto received = std::make_shared<std::string>();
  Status status = on_thread(
      [=, out = std::move(out)](State& state, const Turn& turn) -> Status {
        const int64_t going = to == kNobody ? 0 : pieces_of(out.size()), coming = from == kNobody ? 0 : pieces_of(in);
        for (int64_t piece = 0; piece < std::max(going, coming); ++piece) {
          if (piece < going) PIPER_RETURN_IF_ERROR(state.send_piece(to, out, piece, turn));
          if (piece < coming) PIPER_RETURN_IF_ERROR(state.take_piece(from, *received, in, piece, turn));
        }
        return {};
      },
      wait, "the TCP store at " + state_->place() + " to answer");
  if (!status.ok()) {
    broken_ = true;
    return status;
  }
  return std::move(*received);
}

Status TcpStoreChannel::on_thread(const Job& job, const WaitControl& wait, const std::string& awaited) {
  auto status = thread_.run(
      [state = state_, job, timeout = wait.timeout,
       end = Clock::now() + wait.timeout](const BoundedThread::GivenUp& given_up) -> Status {
        const auto failed = [&](const char* what) {
          return Status::failure("R0303", "the TCP store at " + state->place() + " failed: " + first_line(what));
        };
        try {
          return job(*state, Turn{given_up, end, timeout});
        } catch (const c10::Error& error) {
          return failed(error.what_without_backtrace());
        } catch (const std::exception& error) {
          return failed(error.what());
        }
      },
      wait);
  return status ? std::move(*status) : timed_out(wait.timeout, awaited);
}

}  // namespace piper::hal
