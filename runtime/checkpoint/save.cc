#include "runtime/checkpoint/save.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

namespace piper::checkpoint {

namespace {

int64_t tensor_bytes(const plan::TensorInfo& tensor) {
  int64_t bytes = dtype_bytes(tensor.dtype);
  for (int64_t extent : tensor.shape) bytes *= extent;
  return bytes;
}

std::vector<plan::ElementOrder> orders_of(const plan::Manifest& manifest) {
  std::vector<plan::ElementOrder> orders;
  for (const plan::TensorInfo& tensor : manifest.tensors)
    orders.emplace_back(tensor.shape, plan::parts_along(manifest, tensor));
  return orders;
}

std::string encode(const std::vector<Piece>& pieces) {
  std::ostringstream text;
  for (const Piece& p : pieces) text << p.tensor << ' ' << p.offset << ' ' << p.bytes << ' ' << p.owner << '\n';
  return text.str();
}

std::vector<Piece> decode_pieces(const std::string& text) {
  std::vector<Piece> pieces;
  std::istringstream in(text);
  for (Piece p; in >> p.tensor >> p.offset >> p.bytes >> p.owner;) pieces.push_back(p);
  return pieces;
}

struct Candidate {
  int32_t rank;
  int64_t index;
  const Piece* piece;
};

// The owned candidate that holds byte `at`, of the lowest rank that has it.
const Candidate* pick(const std::vector<Candidate>& candidates, int64_t at) {
  for (const Candidate& c : candidates)
    if (c.piece->owner && c.piece->offset <= at && at < c.piece->offset + c.piece->bytes) return &c;
  return nullptr;
}

}  // namespace

Result<std::vector<Chosen>> choose_pieces(const std::vector<std::vector<Piece>>& by_rank,
                                          const std::vector<plan::TensorInfo>& tensors,
                                          const std::vector<plan::ElementOrder>& orders) {
  std::vector<std::vector<Candidate>> of_tensor(tensors.size());
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    for (size_t i = 0; i < by_rank[rank].size(); ++i) {
      const Piece& piece = by_rank[rank][i];
      of_tensor.at(static_cast<size_t>(piece.tensor))
          .push_back({static_cast<int32_t>(rank), static_cast<int64_t>(i), &piece});
    }
  std::vector<Chosen> chosen;
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (of_tensor[t].empty()) continue;
    const int64_t bytes = tensor_bytes(tensors[t]);
    for (int64_t at = 0; at < bytes;) {
      const Candidate* best = pick(of_tensor[t], at);
      if (best == nullptr) {
        const plan::ElementOrder order = orders.empty() ? plan::ElementOrder() : orders.at(t);
        const plan::ElementRuns element = order.row_major_runs(at / dtype_bytes(tensors[t].dtype), 1);
        return Status::failure("R0503", "tensor '" + tensors[t].name + "' cannot be saved: no rank owns its element " +
                                            std::to_string(element.begin()->there));
      }
      const int64_t end = std::min(best->piece->offset + best->piece->bytes, bytes);
      chosen.push_back({static_cast<int64_t>(t), best->rank, best->index, at, end - at});
      at = end;
    }
  }
  return chosen;
}

namespace {

// To rank 0, in the messages that its receive() of all bytes waits for.
Status send(hal::Address from, int64_t bytes, hal::Device& device, hal::ControlChannel& control,
            const hal::WaitControl& wait) {
  std::vector<std::byte> message(static_cast<size_t>(std::min(bytes, hal::ControlChannel::kMessageBytes)));
  for (int64_t at = 0; at < bytes; at += hal::ControlChannel::kMessageBytes) {
    const int64_t count = std::min(hal::ControlChannel::kMessageBytes, bytes - at);
    PIPER_RETURN_IF_ERROR(device.read(message.data(), from + at, count));
    PIPER_RETURN_IF_ERROR(control.send(0, message.data(), count, wait));
  }
  return {};
}

// Rank 0: collects a tensor when the writer asks for it; its other names follow it and reuse it.
class Collector {
 public:
  Collector(const plan::Manifest& manifest, const std::vector<plan::ElementOrder>& orders,
            const std::vector<Piece>& mine, const std::vector<Chosen>& chosen, hal::Device& device,
            hal::ControlChannel& control, const hal::WaitControl& wait)
      : manifest_(manifest),
        orders_(orders),
        mine_(mine),
        chosen_(chosen),
        device_(device),
        control_(control),
        wait_(wait) {}

  Status write(int64_t tensor, const std::function<Status(const void*, int64_t)>& write) {
    if (tensor != held_) PIPER_RETURN_IF_ERROR(collect(tensor));
    return write(bytes_.data(), static_cast<int64_t>(bytes_.size()));
  }

 private:
  Status collect(int64_t tensor) {
    held_ = tensor;
    const plan::TensorInfo& info = manifest_.tensors[static_cast<size_t>(tensor)];
    const plan::ElementOrder& order = orders_[static_cast<size_t>(tensor)];
    const int64_t element = dtype_bytes(info.dtype);
    bytes_.resize(static_cast<size_t>(tensor_bytes(info)));
    std::vector<std::byte> counted;  // a piece of a tensor that is cut
    for (; next_ < chosen_.size() && chosen_[next_].tensor == tensor; ++next_) {
      const Chosen& c = chosen_[next_];
      if (order.row_major()) {
        PIPER_RETURN_IF_ERROR(fetch(c, bytes_.data() + c.offset));
        continue;
      }
      counted.resize(static_cast<size_t>(c.bytes));
      PIPER_RETURN_IF_ERROR(fetch(c, counted.data()));
      for (const plan::ElementRun& run : order.row_major_runs(c.offset / element, c.bytes / element))
        std::memcpy(bytes_.data() + run.there * element, counted.data() + run.at * element,
                    static_cast<size_t>(run.count * element));
    }
    return {};
  }
  Status fetch(const Chosen& c, std::byte* to) {
    if (c.rank != control_.rank()) return control_.receive(c.rank, to, c.bytes, wait_);
    const Piece& piece = mine_[static_cast<size_t>(c.piece)];
    return device_.read(to, piece.data + (c.offset - piece.offset), c.bytes);
  }

  const plan::Manifest& manifest_;
  const std::vector<plan::ElementOrder>& orders_;  // by tensor
  const std::vector<Piece>& mine_;
  const std::vector<Chosen>& chosen_;
  hal::Device& device_;
  hal::ControlChannel& control_;
  const hal::WaitControl& wait_;
  int64_t held_ = -1;
  size_t next_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace

Status check_writable(const std::string& path) {
  // A finished file takes the path's place: what is no file must not be lost by that.
  struct stat found{};
  if (::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode))
    return Status::failure(
        "P0621", "cannot write " + path + ": it is " + (S_ISDIR(found.st_mode) ? "a directory" : "no regular file"));
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  if (::access(directory.c_str(), W_OK | X_OK) == 0) return {};
  return Status::failure("P0621", "cannot write " + path + ": directory " + directory + ": " + std::strerror(errno));
}

Status save_tensors(const SaveOptions& options, const plan::Manifest& manifest, const std::vector<Piece>& mine,
                    hal::Device& device, hal::ControlChannel& control, const hal::WaitControl& wait) {
  PIPER_ASSIGN(std::vector<std::string> encoded, control.allgather(encode(mine), hal::patient(wait)));
  const hal::WaitControl writing = hal::for_files(wait);
  std::vector<std::vector<Piece>> by_rank;
  for (const std::string& text : encoded) by_rank.push_back(decode_pieces(text));
  const std::vector<plan::ElementOrder> orders = orders_of(manifest);
  PIPER_ASSIGN(const std::vector<Chosen> chosen, choose_pieces(by_rank, manifest.tensors, orders));

  if (control.rank() != 0) {
    for (const Chosen& c : chosen) {
      if (c.rank != control.rank()) continue;
      const Piece& piece = mine[static_cast<size_t>(c.piece)];
      PIPER_RETURN_IF_ERROR(send(piece.data + (c.offset - piece.offset), c.bytes, device, control, writing));
    }
    return control.barrier(writing);
  }

  Collector collector(manifest, orders, mine, chosen, device, control, writing);
  std::vector<bool> placed(manifest.tensors.size(), false);
  for (const Chosen& c : chosen) placed[static_cast<size_t>(c.tensor)] = true;
  std::vector<plan::TensorToWrite> to_write;
  for (size_t t = 0; t < manifest.tensors.size(); ++t) {
    const plan::TensorInfo& tensor = manifest.tensors[t];
    plan::TensorToWrite entry{tensor.name, tensor.dtype, tensor.shape, {}, tensor_bytes(tensor)};
    if (placed[t] || entry.bytes == 0) {
      entry.produce = [&collector, t](const auto& write) { return collector.write(static_cast<int64_t>(t), write); };
    } else {
      const plan::TensorView* view = options.unplaced == nullptr ? nullptr : options.unplaced->find_tensor(tensor);
      if (view == nullptr || view->bytes != entry.bytes) continue;
      entry.produce = [view, source = options.unplaced](const auto& write) -> Status {
        PIPER_RETURN_IF_ERROR(source->check(view->data, view->bytes));
        return write(view->data, view->bytes);
      };
    }
    to_write.push_back(entry);
    for (const std::string& alias : tensor.aliases) {
      entry.name = alias;
      to_write.push_back(entry);
    }
  }
  PIPER_RETURN_IF_ERROR(plan::write_safetensors(options.path, to_write, options.metadata));
  return control.barrier(writing);
}

}  // namespace piper::checkpoint
