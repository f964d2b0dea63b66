#include "schemas/checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "schemas/plan/chunk_digests.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/json_reader.h"
#include "schemas/plan/json_writer.h"

namespace piper::checkpoint {

namespace {

constexpr std::string_view kDamaged = "R0705";
constexpr std::string_view kDigestKey = "\"digest\":\"";
constexpr size_t kMostNames = size_t{1} << 22;  // tensors, and parts of one

void print_file(plan::JsonWriter& json, const plan::FileEntry& file) {
  json.raw("{");
  json.key("file");
  json.string(file.path);
  json.key("bytes");
  json.number(file.bytes);
  json.key("sha256");
  json.string(file.sha256);
  json.key("chunks");
  json.numbers(file.chunks);
  json.raw("}");
}

void print_tensor(plan::JsonWriter& json, const StoredTensor& tensor) {
  json.raw("{");
  json.key("tensor");
  json.string(tensor.name);
  json.key("kind");
  json.string(state_kind_name(tensor.kind));
  json.key("dtype");
  json.string(dtype_name(tensor.dtype));
  json.key("shape");
  json.numbers(tensor.shape);
  json.key("aliases");
  json.strings(tensor.aliases);
  json.key("parts");
  json.raw("[");
  for (size_t i = 0; i < tensor.parts.size(); ++i) {
    const StoredPart& part = tensor.parts[i];
    if (i > 0) json.raw(",");
    json.raw("{");
    json.key("file");
    json.number(part.file);
    json.key("key");
    json.string(part.key);
    json.key("flat");
    json.numbers(std::vector<int64_t>{part.begin, part.end});
    json.raw("}");
  }
  json.raw("]}");
}

void string_member(plan::JsonWriter& json, std::string_view name, std::string_view value) {
  json.next_member();
  json.key(name);
  json.string(value);
}

// A plain name in the checkpoint's own folder.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.size() < 256 &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

class ManifestParser {
 public:
  ManifestParser(std::string_view text, const std::string& file) : text_(text), in_(text, file) {}

  Result<Manifest> parse() {
    in_.open_object();
    in_.key("checkpoint");
    const size_t at = in_.position();
    const int64_t version = in_.integer();
    if (in_.ok() && version != kFormatVersion)
      in_.fail(kDamaged, at, "a checkpoint of format " + std::to_string(version) + "; this program knows format 1");
    head();
    files();
    tensors();
    digest();
    in_.close_object();
    in_.end_of_text();
    if (!in_.ok()) return Status::failure(std::string(kDamaged), in_.status().error().message);
    // What is not canonical was not written by print_manifest().
    const std::string found = manifest_.digest;
    if (print_manifest(manifest_) != text_ || manifest_.digest != found)
      return Status::failure(std::string(kDamaged), in_.file() + " is not as it was written");
    return std::move(manifest_);
  }

 private:
  std::string text_of(std::string_view key) {
    in_.key(key);
    return std::string(in_.string());
  }
  int64_t count_of(std::string_view key) {
    in_.key(key);
    const size_t at = in_.position();
    const int64_t value = in_.integer();
    if (value < 0) in_.fail(kDamaged, at, "'" + std::string(key) + "' is below 0");
    return value;
  }
  void head() {
    manifest_.run = text_of("run");
    manifest_.step = count_of("step");
    manifest_.samples = count_of("samples");
    in_.key("seed");
    const size_t at = in_.position();
    const std::string seed(in_.string());
    const auto read = std::from_chars(seed.data(), seed.data() + seed.size(), manifest_.seed);
    if (in_.ok() && (read.ec != std::errc() || read.ptr != seed.data() + seed.size()))
      in_.fail(kDamaged, at, "the seed is no number");
    manifest_.parent = text_of("parent");
    manifest_.plan_sha256 = text_of("plan");
    manifest_.model_sha256 = text_of("model");
    manifest_.strategy_sha256 = text_of("strategy");
    manifest_.world_size = static_cast<int32_t>(std::min<int64_t>(count_of("world_size"), INT32_MAX));
    manifest_.optimizer = text_of("optimizer");
    in_.key("data");
    in_.open_object();
    manifest_.data.sha256 = text_of("sha256");
    manifest_.data.samples = count_of("samples");
    manifest_.data.sampling = text_of("sampling");
    in_.close_object();
  }
  void files() {
    in_.key("files");
    in_.open_array();
    while (in_.next_item()) {
      const size_t at = in_.position();
      plan::FileEntry file;
      in_.open_object();
      file.path = text_of("file");
      file.bytes = count_of("bytes");
      file.sha256 = text_of("sha256");
      in_.key("chunks");
      in_.open_array();
      while (in_.next_item()) {
        const size_t chunk_at = in_.position();
        const int64_t digest = in_.integer();
        if (digest < 0 || digest > UINT32_MAX) in_.fail(kDamaged, chunk_at, "a CRC32C has 32 bits");
        file.chunks.push_back(static_cast<uint32_t>(digest));
      }
      in_.close_object();
      if (!in_.ok()) return;
      if (!is_plain_name(file.path))
        in_.fail(kDamaged, at, "'" + file.path + "' is not the name of a file in the checkpoint");
      if (static_cast<int64_t>(file.chunks.size()) != plan::chunk_count(file.bytes))
        in_.fail(kDamaged, at, file.path + ": not one digest for each MiB");
      manifest_.files.push_back(std::move(file));
      if (manifest_.files.size() > kMostNames) in_.fail(kDamaged, at, "too many files");
    }
  }
  void parts(StoredTensor& tensor, int64_t elements) {
    int64_t covered = 0;
    in_.key("parts");
    in_.open_array();
    while (in_.next_item()) {
      const size_t at = in_.position();
      StoredPart part;
      in_.open_object();
      in_.key("file");
      part.file = in_.small_integer();
      part.key = text_of("key");
      in_.key("flat");
      const std::vector<int64_t> flat = in_.integers();
      in_.close_object();
      if (!in_.ok()) return;
      if (part.file < 0 || static_cast<size_t>(part.file) >= manifest_.files.size()) {
        in_.fail(kDamaged, at, "tensor '" + tensor.name + "' lies in a file that is not listed");
      } else if (flat.size() != 2 || flat[0] != covered || flat[1] <= covered || flat[1] > elements) {
        in_.fail(kDamaged, at, "the parts of tensor '" + tensor.name + "' leave gaps or overlap");
      } else {
        part.begin = flat[0];
        part.end = covered = flat[1];
        tensor.parts.push_back(std::move(part));
      }
    }
    if (in_.ok() && covered != elements)
      in_.fail(kDamaged, in_.position(), "the parts of tensor '" + tensor.name + "' end before the tensor does");
  }
  void tensors() {
    in_.key("tensors");
    in_.open_array();
    while (in_.next_item()) {
      const size_t at = in_.position();
      StoredTensor tensor;
      in_.open_object();
      tensor.name = text_of("tensor");
      const std::string kind = text_of("kind"), dtype = text_of("dtype");
      in_.key("shape");
      tensor.shape = in_.integers();
      in_.key("aliases");
      tensor.aliases = in_.strings();
      if (!in_.ok()) return;
      bool known = false;
      for (int k = 0; k < kNumStateKinds; ++k)
        if (state_kind_name(static_cast<StateKind>(k)) == kind) {
          tensor.kind = static_cast<StateKind>(k);
          known = true;
        }
      const auto type = dtype_from_name(dtype);
      const auto elements = element_count(tensor.shape);
      if (!known || !type || !elements.ok()) {
        in_.fail(kDamaged, at, "tensor '" + tensor.name + "': unknown kind or type, or a shape that is none");
        return;
      }
      tensor.dtype = *type;
      parts(tensor, *elements);
      in_.close_object();
      if (!in_.ok()) return;
      const bool rises = manifest_.tensors.empty() || before(manifest_.tensors.back(), tensor);
      if (!rises) in_.fail(kDamaged, at, "tensor '" + tensor.name + "' stands out of order or twice");
      manifest_.tensors.push_back(std::move(tensor));
    }
  }
  static bool before(const StoredTensor& a, const StoredTensor& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.name < b.name;
  }
  void digest() {
    in_.key("digest");
    const size_t at = in_.position();
    manifest_.digest = std::string(in_.string());
    if (!in_.ok()) return;
    const size_t key = text_.rfind(kDigestKey);
    if (key == std::string_view::npos || plan::sha256(text_.substr(0, key)) != manifest_.digest)
      in_.fail(kDamaged, at, "the manifest's own digest is not that of its text");
  }

  std::string_view text_;
  plan::JsonReader in_;
  Manifest manifest_;
};

}  // namespace

std::string_view state_kind_name(StateKind kind) {
  switch (kind) {
    case StateKind::kParameter: return "param";
    case StateKind::kFirstMoment: return "m";
    case StateKind::kSecondMoment: return "v";
    case StateKind::kBuffer: return "buffer";
    case StateKind::kTraining: return "training";
  }
  return "";
}

Result<int64_t> element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count) || count > INT64_MAX / 16)
      return Status::failure(std::string(kDamaged), "a shape of too many elements");
  return count;
}

std::string print_manifest(Manifest& manifest) {
  plan::JsonWriter json;
  json.begin_file();
  json.key("checkpoint");
  json.number(kFormatVersion);
  string_member(json, "run", manifest.run);
  json.next_member();
  json.key("step");
  json.number(manifest.step);
  json.next_member();
  json.key("samples");
  json.number(manifest.samples);
  string_member(json, "seed", std::to_string(manifest.seed));
  string_member(json, "parent", manifest.parent);
  string_member(json, "plan", manifest.plan_sha256);
  string_member(json, "model", manifest.model_sha256);
  string_member(json, "strategy", manifest.strategy_sha256);
  json.next_member();
  json.key("world_size");
  json.number(manifest.world_size);
  string_member(json, "optimizer", manifest.optimizer);
  json.next_member();
  json.key("data");
  json.raw("{");
  json.key("sha256");
  json.string(manifest.data.sha256);
  json.key("samples");
  json.number(manifest.data.samples);
  json.key("sampling");
  json.string(manifest.data.sampling);
  json.raw("}");
  json.next_member();
  json.begin_lines("files", '[');
  for (const plan::FileEntry& file : manifest.files) {
    json.line();
    print_file(json, file);
  }
  json.end_lines(']');
  json.next_member();
  json.begin_lines("tensors", '[');
  for (const StoredTensor& tensor : manifest.tensors) {
    json.line();
    print_tensor(json, tensor);
  }
  json.end_lines(']');
  json.next_member();
  manifest.digest = plan::sha256(json.text());
  json.raw(kDigestKey);
  json.raw(manifest.digest);
  json.raw("\"");
  json.end_file();
  return json.str();
}

Result<Manifest> parse_manifest(std::string_view text, const std::string& file) {
  return ManifestParser(text, file).parse();
}

const StoredTensor* find_tensor(const Manifest& manifest, StateKind kind, const std::string& name) {
  const auto found = std::lower_bound(manifest.tensors.begin(), manifest.tensors.end(), name,
                                      [kind](const StoredTensor& tensor, const std::string& wanted) {
                                        return tensor.kind != kind ? tensor.kind < kind : tensor.name < wanted;
                                      });
  const bool there = found != manifest.tensors.end() && found->kind == kind && found->name == name;
  return there ? &*found : nullptr;
}

std::string step_folder(int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "step-%09lld", static_cast<long long>(step));
  return name;
}

int64_t step_of_folder(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (name.substr(0, kPrefix.size()) != kPrefix) return -1;
  const std::string_view digits = name.substr(kPrefix.size());
  int64_t step = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool whole = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  return whole && step >= 0 && step_folder(step) == name ? step : -1;
}

std::string shard_file(int32_t rank, int32_t world_size) {
  char name[64];
  std::snprintf(name, sizeof name, "shard-%05d-of-%05d.safetensors", rank, world_size);
  return name;
}

}  // namespace piper::checkpoint
