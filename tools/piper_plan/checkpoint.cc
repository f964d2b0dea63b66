// piper-plan checkpoint: what a folder holds, whether it is what was committed, what differs between two, and the
// weights of one under the model's own names.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <vector>

#include "schemas/checkpoint/find_checkpoint.h"
#include "schemas/plan/convert_elements.h"
#include "schemas/plan/json_writer.h"
#include "schemas/plan/weight_files.h"
#include "tools/piper_plan/commands.h"

namespace piper::tools {

namespace {

using checkpoint::OpenCheckpoint;
using checkpoint::StoredTensor;

// A folder of checkpoints, or the folder of one.
bool is_one(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path + "/" + std::string(checkpoint::kManifestFile), error);
}

Result<std::vector<std::string>> checkpoints_of(const std::string& path) {
  if (is_one(path)) return std::vector<std::string>{path};
  PIPER_ASSIGN(const std::vector<int64_t> steps, checkpoint::list_steps(path));
  if (steps.empty()) return Status::failure("R0702", path + " holds no checkpoint");
  std::vector<std::string> paths;
  for (const int64_t step : steps) paths.push_back(path + "/" + checkpoint::step_folder(step));
  return paths;
}

// That of a step, or the newest valid one.
Result<OpenCheckpoint> choose(const std::string& path, int64_t step) {
  if (is_one(path)) {
    PIPER_ASSIGN(OpenCheckpoint one, OpenCheckpoint::open(path));
    if (step >= 0 && one.manifest().step != step)
      return Status::failure("R0702", path + " is of step " + std::to_string(one.manifest().step) + ", not of step " +
                                          std::to_string(step));
    PIPER_RETURN_IF_ERROR(one.check_all(false));
    return one;
  }
  if (step >= 0) return checkpoint::find_exact(path, step);
  PIPER_ASSIGN(auto found, checkpoint::find_newest_valid(path, [](const std::string& damaged) {
                 std::fprintf(stderr, "piper-plan: warning[R0705]: a checkpoint is passed over: %s\n", damaged.c_str());
               }));
  if (!found) return Status::failure("R0702", path + " holds no checkpoint");
  return std::move(*found);
}

int64_t bytes_of(const checkpoint::Manifest& manifest) {
  int64_t bytes = 0;
  for (const auto& file : manifest.files) bytes += file.bytes;
  return bytes;
}

std::string label(const StoredTensor& tensor) {
  return std::string(checkpoint::state_kind_name(tensor.kind)) + " '" + tensor.name + "'";
}

Result<std::vector<std::byte>> whole(const OpenCheckpoint& of, const StoredTensor& tensor) {
  PIPER_ASSIGN(const int64_t count, checkpoint::element_count(tensor.shape));
  std::vector<std::byte> bytes(static_cast<size_t>(count * dtype_bytes(tensor.dtype)));
  PIPER_RETURN_IF_ERROR(of.read(tensor, {}, 0, count, [&](int64_t offset, const std::byte* data, int64_t size) {
    std::memcpy(bytes.data() + offset, data, static_cast<size_t>(size));
    return Status();
  }));
  return bytes;
}

DType written_as(DType stored, const std::string& asked) {
  const auto dtype = dtype_from_name(asked);
  return dtype && can_convert_elements(stored, *dtype) ? *dtype : stored;
}

// All `count` elements, in row-major order.
Status write_as(const OpenCheckpoint& from, const StoredTensor& tensor, DType as, int64_t count,
                const std::function<Status(const void*, int64_t)>& write) {
  std::vector<std::byte> converted;
  return from.read(tensor, {}, 0, count, [&](int64_t, const std::byte* data, int64_t bytes) -> Status {
    if (as == tensor.dtype) return write(data, bytes);
    const int64_t elements = bytes / dtype_bytes(tensor.dtype);
    converted.resize(static_cast<size_t>(elements * dtype_bytes(as)));
    convert_elements(tensor.dtype, data, as, converted.data(), elements);
    return write(converted.data(), static_cast<int64_t>(converted.size()));
  });
}

// One thing in which two checkpoints differ.
struct Differing {
  std::string what, how;  // "step", "4 against 8"
};

Difference told(const std::vector<Differing>& all, bool as_json) {
  std::string text;
  plan::JsonWriter json;
  json.raw("[");
  for (const Differing& one : all) {
    text += one.what + ": " + one.how + "\n";
    json.raw(&one == all.data() ? "{" : ",{");
    json.member("what", one.what);
    json.member("how", one.how);
    json.raw("}");
  }
  json.raw("]\n");
  if (as_json) return {json.str(), !all.empty()};
  return {all.empty() ? "no difference\n" : text, !all.empty()};
}

}  // namespace

Result<Difference> list_checkpoints(const std::string& path, bool json) {
  PIPER_ASSIGN(const std::vector<std::string> paths, checkpoints_of(path));
  std::string text;
  bool damaged = false;
  plan::JsonWriter list;
  list.raw("[");
  for (const std::string& one : paths) {
    const std::string name = std::filesystem::path(one).filename().string();
    const auto opened = OpenCheckpoint::open(one);
    list.raw(&one == paths.data() ? "{" : ",{");
    list.key("name");
    list.string(name);
    list.key("damaged");
    list.string(opened.ok() ? "" : opened.error().message);
    if (opened.ok())
      for (const auto& [key, value] : {std::pair{"step", opened->manifest().step},
                                       {"samples", opened->manifest().samples},
                                       {"tensors", static_cast<int64_t>(opened->manifest().tensors.size())},
                                       {"ranks", int64_t{opened->manifest().world_size}},
                                       {"bytes", bytes_of(opened->manifest())}}) {
        list.key(key);
        list.number(value);
      }
    list.raw("}");
    if (!opened.ok()) {
      damaged = true;
      text += name + "  damaged: " + opened.error().message + "\n";
      continue;
    }
    const checkpoint::Manifest& m = opened->manifest();
    text += name + "  " + std::to_string(m.samples) + " samples, " + std::to_string(m.tensors.size()) + " tensors in " +
            std::to_string(m.files.size()) + " files of " + std::to_string(m.world_size) + " ranks, " +
            std::to_string(bytes_of(m)) + " bytes, " + m.optimizer + ", run " + m.run + "\n";
  }
  list.raw("]\n");
  return Difference{json ? list.str() : text, damaged};
}

Result<std::string> verify_checkpoints(const std::string& path) {
  PIPER_ASSIGN(const std::vector<std::string> paths, checkpoints_of(path));
  std::string damaged;
  for (const std::string& one : paths) {
    const auto opened = OpenCheckpoint::open(one);
    const Status status = opened.ok() ? opened->check_all(true) : opened.status();
    if (!status.ok()) damaged += (damaged.empty() ? "" : "\n") + status.error().message;
  }
  if (!damaged.empty()) return Status::failure("R0705", damaged);
  return std::to_string(paths.size()) + " checkpoints: every byte is what was committed\n";
}

Result<Difference> verify_checkpoints_as_json(const std::string& path) {
  PIPER_ASSIGN(const std::vector<std::string> paths, checkpoints_of(path));
  plan::JsonWriter json;
  bool any = false;
  json.raw("[");
  for (const std::string& one : paths) {
    const auto opened = OpenCheckpoint::open(one);
    const Status status = opened.ok() ? opened->check_all(true) : opened.status();
    any |= !status.ok();
    json.raw(&one == paths.data() ? "{" : ",{");
    json.member("name", std::filesystem::path(one).filename().string());
    json.member("damaged", status.ok() ? "" : status.error().message);
    json.raw("}");
  }
  json.raw("]\n");
  return Difference{json.str(), any};
}

Result<Difference> diff_checkpoints(const std::string& a, const std::string& b, bool json) {
  PIPER_ASSIGN(const OpenCheckpoint left, choose(a, -1));
  PIPER_ASSIGN(const OpenCheckpoint right, choose(b, -1));
  const checkpoint::Manifest &l = left.manifest(), &r = right.manifest();
  std::vector<Differing> all;
  const auto compare = [&all](const std::string& what, const std::string& mine, const std::string& theirs) {
    if (mine != theirs) all.push_back({what, mine + " against " + theirs});
  };
  compare("step", std::to_string(l.step), std::to_string(r.step));
  compare("samples", std::to_string(l.samples), std::to_string(r.samples));
  compare("seed", std::to_string(l.seed), std::to_string(r.seed));
  compare("optimizer", l.optimizer, r.optimizer);
  compare("data", l.data.sha256, r.data.sha256);
  for (const StoredTensor& tensor : l.tensors) {
    const StoredTensor* other = checkpoint::find_tensor(r, tensor.kind, tensor.name);
    if (other == nullptr) {
      all.push_back({label(tensor), "only in " + left.path()});
      continue;
    }
    if (other->dtype != tensor.dtype || other->shape != tensor.shape) {
      all.push_back({label(tensor), "another type or shape"});
      continue;
    }
    PIPER_ASSIGN(const std::vector<std::byte> mine, whole(left, tensor));
    PIPER_ASSIGN(const std::vector<std::byte> theirs, whole(right, *other));
    if (mine != theirs) all.push_back({label(tensor), "other values"});
  }
  for (const StoredTensor& tensor : r.tensors)
    if (checkpoint::find_tensor(l, tensor.kind, tensor.name) == nullptr)
      all.push_back({label(tensor), "only in " + right.path()});
  return told(all, json);
}

Result<std::string> export_checkpoint(const std::string& path, const ExportOptions& options) {
  PIPER_ASSIGN(const OpenCheckpoint from, choose(path, options.step));
  std::vector<plan::TensorToWrite> tensors;
  for (const StoredTensor& tensor : from.manifest().tensors) {
    if (tensor.kind != checkpoint::StateKind::kParameter && tensor.kind != checkpoint::StateKind::kBuffer) continue;
    PIPER_ASSIGN(const int64_t count, checkpoint::element_count(tensor.shape));
    const DType as = written_as(tensor.dtype, options.dtype);
    plan::TensorToWrite entry{tensor.name, as, tensor.shape, {}, count * dtype_bytes(as)};
    entry.produce = [&from, &tensor, as, count](const auto& write) { return write_as(from, tensor, as, count, write); };
    tensors.push_back(entry);
    for (const std::string& alias : tensor.aliases) {
      entry.name = alias;
      tensors.push_back(entry);
    }
  }
  const std::string what =
      std::to_string(tensors.size()) + " tensors of step " + std::to_string(from.manifest().step) + " written to ";
  if (options.max_shard_bytes == 0) {
    PIPER_RETURN_IF_ERROR(plan::write_safetensors(options.out, tensors));
    return what + options.out + "\n";
  }
  PIPER_ASSIGN(const int64_t files, plan::write_weight_files(options.out, tensors, options.max_shard_bytes));
  return what + std::to_string(files) + (files == 1 ? " file in " : " files in ") + options.out + "\n";
}

}  // namespace piper::tools
