#include "runtime/checkpoint/checkpointer.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <sstream>
#include <tuple>

#include "runtime/checkpoint/save.h"
#include "schemas/plan/optimizers.h"
#include "schemas/plan/safetensors.h"

namespace piper::checkpoint {

namespace {

// "kind dtype first count owner axes extent...", then the name, a line each.
std::string encode_parts(const std::vector<StatePart>& parts) {
  std::ostringstream text;
  for (const StatePart& part : parts) {
    if (part.copy) continue;
    text << static_cast<int>(part.kind) << ' ' << static_cast<int>(part.dtype) << ' ' << part.first << ' ' << part.count
         << ' ' << part.owner << ' ' << part.shape.size();
    for (const int64_t extent : part.shape) text << ' ' << extent;
    text << '\n' << part.name << '\n';
  }
  return text.str();
}

std::vector<StatePart> decode_parts(const std::string& text) {
  std::vector<StatePart> parts;
  std::istringstream in(text);
  int kind = 0, dtype = 0;
  size_t axes = 0;
  for (StatePart part; in >> kind >> dtype >> part.first >> part.count >> part.owner >> axes;) {
    part.kind = static_cast<StateKind>(kind);
    part.dtype = static_cast<DType>(dtype);
    part.shape.resize(axes);
    for (int64_t& extent : part.shape) in >> extent;
    in.ignore();
    std::getline(in, part.name);
    parts.push_back(part);
  }
  return parts;
}

using TensorKey = std::pair<StateKind, std::string>;

// The tensors of all ranks, in the manifest's order, without parts.
std::vector<StoredTensor> all_tensors(const std::vector<std::vector<StatePart>>& by_rank,
                                      const plan::Manifest& manifest) {
  std::map<TensorKey, StoredTensor> found;
  for (const auto& parts : by_rank)
    for (const StatePart& part : parts)
      found.try_emplace({part.kind, part.name}, StoredTensor{part.name, part.kind, part.dtype, part.shape, {}, {}});
  const plan::PartsByName along(manifest);
  std::map<std::string, const plan::TensorInfo*> of_model;
  for (const plan::TensorInfo& tensor : manifest.tensors) of_model[tensor.name] = &tensor;
  std::vector<StoredTensor> tensors;
  for (auto& [key, tensor] : found) {
    const auto info = of_model.find(key.second);
    if (info != of_model.end() && key.first == StateKind::kParameter) tensor.aliases = info->second->aliases;
    if (key.first != StateKind::kTraining) tensor.cut = stored_cut(along.of(tensor.name, tensor.shape));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

Status Checkpointer::lay_out(const plan::Manifest& manifest, const plan::RankPlan& plan,
                             const std::vector<hal::Address>& buffers, hal::ControlChannel& control) {
  const std::vector<StatePart> all_mine = state_parts(manifest, plan);
  PIPER_ASSIGN(const std::vector<std::string> texts, control.allgather(encode_parts(all_mine), wait_));
  std::vector<std::vector<StatePart>> by_rank;
  for (const std::string& text : texts) by_rank.push_back(decode_parts(text));
  manifest_.tensors = all_tensors(by_rank, manifest);

  std::map<TensorKey, int64_t> index;
  std::vector<plan::TensorInfo> infos;
  std::vector<plan::ElementOrder> orders;
  for (const StoredTensor& tensor : manifest_.tensors) {
    index[{tensor.kind, tensor.name}] = static_cast<int64_t>(infos.size());
    infos.push_back({tensor.name, tensor.dtype, tensor.shape, {}, true});
    orders.push_back(tensor.order());
  }
  std::vector<std::vector<Piece>> pieces;
  for (const auto& parts : by_rank) {
    pieces.emplace_back();
    for (const StatePart& part : parts) {
      const int64_t element = dtype_bytes(part.dtype);
      pieces.back().push_back(
          {index.at({part.kind, part.name}), part.first * element, part.count * element, part.owner, {}});
    }
  }
  PIPER_ASSIGN(const std::vector<Chosen> chosen, choose_pieces(pieces, infos, orders));

  // Every rank computes all files alike, so that rank 0 needs digests alone.
  std::vector<const StatePart*> mine;  // as encode_parts() lists them
  for (const StatePart& part : all_mine)
    if (!part.copy) mine.push_back(&part);
  std::vector<std::vector<plan::TensorToWrite>> entries(by_rank.size());
  std::vector<const Chosen*> copied;
  for (const Chosen& c : chosen) {
    StoredTensor& tensor = manifest_.tensors[static_cast<size_t>(c.tensor)];
    const int64_t element = dtype_bytes(tensor.dtype), begin = c.offset / element, end = (c.offset + c.bytes) / element;
    entries[static_cast<size_t>(c.rank)].push_back(shard_entry(tensor, begin, end));
    tensor.parts.push_back({c.rank, entries[static_cast<size_t>(c.rank)].back().name, begin, end});
    if (c.rank == control.rank()) copied.push_back(&c);
  }
  std::vector<int32_t> file_of(by_rank.size(), -1);
  for (size_t rank = 0; rank < entries.size(); ++rank) {
    if (entries[rank].empty()) continue;
    file_of[rank] = static_cast<int32_t>(manifest_.files.size());
    const std::string header = plan::safetensors_header(entries[rank]);
    auto at = static_cast<int64_t>(header.size());
    const std::string name = shard_file(static_cast<int32_t>(rank), control.world_size());
    if (static_cast<int32_t>(rank) == control.rank()) {
      file_ = name;
      for (const Chosen* c : copied) {
        const StatePart& part = *mine[static_cast<size_t>(c->piece)];
        const int64_t inside = c->offset - part.first * dtype_bytes(part.dtype);
        copies_.push_back({buffers.at(static_cast<size_t>(part.where.buffer)) + (part.where.offset + inside), at,
                           c->bytes, c->tensor});
        at += c->bytes;
      }
      bytes_ = at;
      PIPER_ASSIGN(copy_, device_.allocate_host(bytes_));
      std::memcpy(copy_->data(), header.data(), header.size());
    } else {
      for (const plan::TensorToWrite& entry : entries[rank]) at += entry.bytes;
    }
    manifest_.files.push_back({name, "", at});
    total_bytes_ += at;
  }
  for (StoredTensor& tensor : manifest_.tensors)
    for (StoredPart& part : tensor.parts) part.file = file_of[static_cast<size_t>(part.file)];
  return {};
}

Result<std::unique_ptr<Checkpointer>> Checkpointer::make(const plan::Manifest& manifest, const plan::RankPlan& plan,
                                                         const std::vector<hal::Address>& buffers, hal::Device& device,
                                                         hal::ControlChannel& control, const hal::WaitControl& wait,
                                                         Storage& storage, const RunIdentity& run,
                                                         WriterOptions options) {
  std::unique_ptr<Checkpointer> made(new Checkpointer(storage, control, std::move(options), device, wait));
  Manifest& next = made->manifest_;
  next.seed = run.seed;
  next.plan_sha256 = run.bundle_digest;
  next.model_sha256 = manifest.model.sha256;
  next.strategy_sha256 = manifest.strategy.sha256;
  next.world_size = manifest.world_size;
  next.optimizer = plan::optimizer_title(manifest.optimizer);
  next.data = run.data;
  PIPER_RETURN_IF_ERROR(made->lay_out(manifest, plan, buffers, control));
  made->thread_ = std::thread([checkpointer = made.get()] { checkpointer->work(); });
  return made;
}

Checkpointer::~Checkpointer() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status Checkpointer::failure() {
  std::lock_guard lock(mutex_);
  return failure_.ok() ? Status() : Status(failure_.error());
}

int64_t Checkpointer::committed_step() {
  std::lock_guard lock(mutex_);
  return committed_;
}

Status Checkpointer::finish() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !writing_; });
  }
  return failure();
}

Checkpointer::NotFinite Checkpointer::not_finite() {
  std::lock_guard lock(mutex_);
  return not_finite_;
}

double Checkpointer::write_seconds() {
  std::lock_guard lock(mutex_);
  return write_s_;
}

Status Checkpointer::save(int64_t step, int64_t samples) {
  PIPER_RETURN_IF_ERROR(finish());
  saved_at_ = std::chrono::steady_clock::now();
  for (const Copy& copy : copies_)
    PIPER_RETURN_IF_ERROR(device_.read(copy_->data() + copy.offset, copy.from, copy.bytes));
  begin_writing(step, samples, false);
  return {};
}

Status Checkpointer::refuse(int64_t step) {
  PIPER_RETURN_IF_ERROR(finish());
  begin_writing(step, 0, true);
  return {};
}

void Checkpointer::begin_writing(int64_t step, int64_t samples, bool refuses) {
  {
    std::lock_guard lock(mutex_);
    manifest_.step = step;
    manifest_.samples = samples;
    refuses_ = refuses;
    writing_ = true;
    if (count_ != nullptr) ++*count_;
  }
  changed_.notify_all();
}

std::string Checkpointer::fault_of_copy() {
  if (finite_ == nullptr) return "";
  for (const Copy& copy : copies_) {
    const StoredTensor& tensor = manifest_.tensors[static_cast<size_t>(copy.tensor)];
    std::string fault = finite_->fault(tensor.kind, tensor.name, tensor.dtype, copy_->data() + copy.offset,
                                       copy.bytes / dtype_bytes(tensor.dtype));
    if (!fault.empty()) return fault;
  }
  finite_->saved();
  return "";
}

// Nothing may leave the thread.
Status Checkpointer::write(std::string_view shard) {
  try {
    if (std::string fault = refuses_ ? "" : fault_of_copy(); !fault.empty()) {
      std::lock_guard lock(mutex_);
      refuses_ = true;
      if (not_finite_.step == 0) not_finite_ = {manifest_.step, std::move(fault)};
    }
    return refuses_ ? writer_.refuse(manifest_, wait_) : writer_.write(manifest_, file_, shard, wait_);
  } catch (const std::bad_alloc&) {
    return Status::failure("R0701", "the checkpoint of step " + std::to_string(manifest_.step) +
                                        " cannot be written: this machine has no memory left");
  } catch (const std::exception& failure) {
    return Status::failure("bug", failure.what());
  }
}

// One checkpoint after the other, each as save() left it.
void Checkpointer::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return writing_ || ends_; });
      if (!writing_) return;
    }
    const std::string_view shard(copy_ == nullptr ? nullptr : reinterpret_cast<const char*>(copy_->data()),
                                 static_cast<size_t>(bytes_));
    Status status = write(shard);
    track_.event(live::EventKind::kIdle, manifest_.step);
    {
      std::lock_guard lock(mutex_);
      if (status.ok() && !writer_.refused()) {
        committed_ = manifest_.step;
        write_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - saved_at_).count();
      }
      failure_ = std::move(status);
      writing_ = false;
      if (count_ != nullptr) --*count_;
      if (!failure_.ok()) ends_ = true;
    }
    changed_.notify_all();
  }
}

}  // namespace piper::checkpoint
