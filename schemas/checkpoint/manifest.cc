#include "schemas/checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "schemas/plan/chunk_digests.h"
#include "schemas/plan/field_reader.h"
#include "schemas/plan/field_writer.h"
#include "schemas/plan/file_bytes.h"

namespace piper::checkpoint {

std::string_view word_of(StateKind kind) { return state_kind_name(kind); }

namespace {

constexpr std::string_view kDamaged = "R0705";
constexpr std::string_view kDigestKey = "\"digest\":\"";
constexpr size_t kMostNames = size_t{1} << 22;  // tensors, and parts of one

// A plain name in the checkpoint's own folder.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.size() < 256 &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

void fields(auto& v, Of<plan::FileEntry> auto& file) {
  v("file", file.path);
  v("bytes", file.bytes, {.least = 0});
  v("sha256", file.sha256);
  v("chunks", file.chunks);
}
template <class V>
void fields(V& v, Of<StoredPart> auto& part) {
  v("file", part.file);
  v("key", part.key);
  std::vector<int64_t> flat = {part.begin, part.end};
  v("flat", flat);
  if constexpr (V::kReads) {
    const bool two = flat.size() == 2;
    part.begin = two ? flat[0] : -1;
    part.end = two ? flat[1] : -1;
  }
}
void fields(auto& v, Of<plan::PartsAlong> auto& cut) {
  v("axis", cut.axis, {.least = 0});
  v("parts", cut.parts, {.least = 2});
  v.optional("segments", cut.segments, 1, {.least = 2});
  v.optional("extents", cut.extents, std::vector<int64_t>());
}
void fields(auto& v, Of<StoredTensor> auto& tensor) {
  v("tensor", tensor.name);
  v("kind", tensor.kind);
  v("dtype", tensor.dtype);
  v("shape", tensor.shape);
  v("cut", tensor.cut);
  v("aliases", tensor.aliases);
  v("parts", tensor.parts);
}
void fields(auto& v, Of<DataIdentity> auto& data) {
  v("sha256", data.sha256);
  v("samples", data.samples, {.least = 0});
  v("sampling", data.sampling);
}
void fields(auto& v, Of<Manifest> auto& manifest) {
  int64_t version = kFormatVersion;
  v("checkpoint", version,
    {.least = version, .most = version, .says = "a checkpoint of another format; this program knows format 1"});
  v("run", manifest.run);
  v("step", manifest.step, {.least = 0});
  v("samples", manifest.samples, {.least = 0});
  v.decimal("seed", manifest.seed);
  v("parent", manifest.parent);
  v("plan", manifest.plan_sha256);
  v("model", manifest.model_sha256);
  v("strategy", manifest.strategy_sha256);
  v("world_size", manifest.world_size, {.least = 0});
  v("optimizer", manifest.optimizer);
  v("data", manifest.data);
  v("files", manifest.files);
  v("tensors", manifest.tensors);
  v.digest(manifest.digest);
}

class ManifestWriter : public plan::FieldWriter<ManifestWriter> {
 public:
  explicit ManifestWriter(plan::JsonWriter& json) : FieldWriter(json) {}

  void decimal(std::string_view key, uint64_t value) { (*this)(key, std::to_string(value)); }
  void digest(const std::string&) {
    json_.next_member();
    found_ = plan::sha256(json_.text());
    json_.raw(kDigestKey);
    json_.raw(found_ + "\"");
  }
  std::string found_;  // of the text before it
};

class ManifestReader : public plan::FieldReader<ManifestReader> {
 public:
  ManifestReader(std::string_view text, const std::string& file) : FieldReader(text, file), text_(text) {}
  using FieldReader::check;
  using FieldReader::read;

  Result<Manifest> parse() {
    file(manifest_);
    if (!reader_.ok()) return Status::failure(std::string(kDamaged), reader_.status().error().message);
    // What is not canonical was not written by print_manifest().
    const std::string found = manifest_.digest;
    if (print_manifest(manifest_) != text_ || manifest_.digest != found)
      return Status::failure(std::string(kDamaged), reader_.file() + " is not as it was written");
    return std::move(manifest_);
  }

  void decimal(std::string_view key, uint64_t& value) {
    reader_.key(key);
    const size_t at = reader_.position();
    const std::string_view text = reader_.string();
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size())
      reader_.fail(kDamaged, at, "the " + std::string(key) + " is no number");
  }
  void digest(std::string& digest) {
    (*this)("digest", digest);
    const size_t key = text_.rfind(kDigestKey);
    if (key == std::string_view::npos || plan::sha256(text_.substr(0, key)) != digest)
      reader_.fail(kDamaged, reader_.position(), "the manifest's own digest is not that of its text");
  }
  void read(std::string_view, std::vector<uint32_t>& digests, const plan::Rule&) {
    reader_.open_array();
    while (reader_.next_item()) {
      const size_t at = reader_.position();
      const int64_t digest = reader_.integer();
      if (digest < 0 || digest > UINT32_MAX) reader_.fail(kDamaged, at, "a CRC32C has 32 bits");
      digests.push_back(static_cast<uint32_t>(digest));
    }
  }

  void check(const plan::FileEntry& file, size_t at) {
    if (!is_plain_name(file.path))
      reader_.fail(kDamaged, at, "'" + file.path + "' is not the name of a file in the checkpoint");
    if (static_cast<int64_t>(file.chunks.size()) != plan::chunk_count(file.bytes))
      reader_.fail(kDamaged, at, file.path + ": not one digest for each MiB");
    if (manifest_.files.size() > kMostNames) reader_.fail(kDamaged, at, "too many files");
  }
  void check(const StoredTensor& tensor, size_t at) {
    const auto bad = [&](const std::string& why) { reader_.fail(kDamaged, at, why); };
    const auto elements = element_count(tensor.shape);
    if (!elements.ok()) return bad("tensor '" + tensor.name + "': a shape that is none");
    if (const auto& cut = tensor.cut) {
      const auto axis = static_cast<size_t>(cut->axis);
      const int64_t extent = axis < tensor.shape.size() ? tensor.shape[axis] : 0;
      if (!cut->extents.empty() && (cut->segments > 1 || !plan::are_segments(cut->extents, extent, cut->parts)))
        return bad("tensor '" + tensor.name + "' has no axis " + std::to_string(axis) + " of segments with " +
                   std::to_string(cut->parts) + " equal parts");
      if (extent == 0 || extent % cut->parts != 0 || extent / cut->parts % cut->segments != 0)
        return bad("tensor '" + tensor.name + "' has no axis " + std::to_string(axis) + " of " +
                   std::to_string(cut->parts) + " equal parts" +
                   (cut->segments > 1 ? " in each of " + std::to_string(cut->segments) + " segments" : ""));
    }
    int64_t covered = 0;
    for (const StoredPart& part : tensor.parts) {
      if (part.file < 0 || static_cast<size_t>(part.file) >= manifest_.files.size())
        return bad("tensor '" + tensor.name + "' lies in a file that is not listed");
      if (part.begin != covered || part.end <= covered || part.end > *elements)
        return bad("the parts of tensor '" + tensor.name + "' leave gaps or overlap");
      covered = part.end;
    }
    if (covered != *elements) bad("the parts of tensor '" + tensor.name + "' end before the tensor does");
    const auto& all = manifest_.tensors;
    const StoredTensor* const before = all.size() > 1 ? &all[all.size() - 2] : nullptr;
    const auto place = [](const StoredTensor& t) { return std::pair(t.kind, std::string_view(t.name)); };
    if (before != nullptr && place(*before) >= place(tensor))
      bad("tensor '" + tensor.name + "' stands out of order or twice");
  }

 private:
  std::string_view text_;
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
  ManifestWriter writer(json);
  writer.file(manifest);
  manifest.digest = writer.found_;
  return json.str();
}

Result<Manifest> parse_manifest(std::string_view text, const std::string& file) {
  return ManifestReader(text, file).parse();
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
