#include <charconv>
#include <cmath>
#include <unordered_set>

#include "schemas/plan/bundle_files.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/chunk_digests.h"
#include "schemas/plan/json_reader.h"
#include "schemas/plan/lr_curves.h"
#include "schemas/plan/names.h"
#include "schemas/plan/optimizers.h"
#include "schemas/plan/provenance_text.h"
#include "schemas/plan/reader_codes.h"

namespace piper::plan {
namespace {

constexpr std::string_view kVersion = "P0608";

// A file of the bundle: relative, forward slashes, never up and out of it.
bool is_safe_path(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string_view::npos) return false;
  while (!path.empty()) {
    const auto part = path.substr(0, path.find('/'));
    if (part.empty() || part == "." || part == "..") return false;
    path.remove_prefix(std::min(path.size(), part.size() + 1));
  }
  return true;
}

class ManifestParser {
 public:
  ManifestParser(std::string_view text, const std::string& file) : reader_(text, file) {}

  Result<Manifest> parse() {
    reader_.open_object();
    version();
    manifest_.target.device = word<DeviceKind>("device", device_name);
    manifest_.target.summing = word<Summing>("reduction", summing_name);
    source("model", manifest_.model_name, manifest_.model_sha256);
    source("strategy", manifest_.strategy_name, manifest_.strategy_sha256);
    manifest_.world_size = static_cast<int32_t>(number("world_size", 1, 1 << 24));
    manifest_.reporting_rank = static_cast<int32_t>(number("reporting_rank", 0, manifest_.world_size - 1));
    manifest_.batch = number("batch", 0, INT64_MAX);
    model_flops();
    proved();
    if (reader_.optional_key("evaluates")) manifest_.evaluates = reader_.boolean();
    inputs();
    tensors();
    chunks();
    optimizer();
    run();
    evaluation();
    ranks();
    files();
    reader_.close_object();
    reader_.end_of_text();
    if (!reader_.ok()) return reader_.status();
    return std::move(manifest_);
  }

 private:
  void version() {
    reader_.key("format");
    const size_t at = reader_.position();
    if (const auto format = reader_.string(); format != "piper plan")
      reader_.fail(kSyntax, at, "this is not the manifest of a plan bundle");
    reader_.key("version");
    manifest_.version = reader_.small_integer();
    if (manifest_.version != kFormatVersion)
      reader_.fail(kVersion, at,
                   "plan format version " + std::to_string(manifest_.version) +
                       " cannot be read; this program reads version " + std::to_string(kFormatVersion) +
                       ": compile the plan again");
  }
  template <class Enum>
  Enum word(const char* key, std::string_view (*name_of)(Enum)) {
    reader_.key(key);
    (void)reader_.peek();
    const size_t at = reader_.position();
    const auto text = reader_.string();
    const auto known = enum_from_name<Enum>(text, name_of);
    if (!known) reader_.fail(kSyntax, at, "unknown " + std::string(key) + " " + in_quotes(text));
    return known.value_or(Enum{});
  }
  void source(const char* key, std::string& name, std::string& digest) {
    reader_.key(key);
    reader_.open_object();
    reader_.key("name");
    name = reader_.string();
    reader_.key("sha256");
    digest = reader_.string();
    reader_.close_object();
  }
  int64_t number(const char* key, int64_t low, int64_t high) {
    reader_.key(key);
    const size_t at = reader_.position();
    const int64_t value = reader_.integer();
    if (value >= low && value <= high) return value;
    reader_.fail(kRange, at, std::string(key) + " is out of range");
    return low;
  }
  double real(const char* key) {
    reader_.key(key);
    return reader_.real();
  }
  std::string text(const char* key) {
    reader_.key(key);
    return std::string(reader_.string());
  }
  bool boolean(const char* key) {
    reader_.key(key);
    return reader_.boolean();
  }
  DType dtype() {
    reader_.key("dtype");
    const size_t at = reader_.position();
    const auto name = reader_.string();
    const auto known = dtype_from_name(name);
    if (!known) reader_.fail(kSyntax, at, "unknown dtype " + in_quotes(name));
    return known.value_or(DType::kF32);
  }
  std::vector<int64_t> shape(const char* key) {
    reader_.key(key);
    const size_t at = reader_.position();
    auto extents = reader_.integers();
    if (!element_count(extents)) reader_.fail(kRange, at, "a shape with a negative or too large extent");
    return extents;
  }
  template <class Item>
  void section(const char* key, Item item) {
    reader_.key(key);
    reader_.open_array();
    names_.clear();
    while (reader_.next_item()) {
      reader_.open_object();
      item();
      reader_.close_object();
    }
  }
  void unique(const std::string& name, const char* what) {
    if (reader_.ok() && !names_.insert(name).second)
      reader_.fail(kName, reader_.position(), std::string("two ") + what + " are called " + in_quotes(name));
  }

  void inputs() {
    section("inputs", [&] {
      auto& input = manifest_.inputs.emplace_back();
      input.name = text("input");
      unique(input.name, "inputs");
      input.dtype = dtype();
      input.sample_shape = shape("sample_shape");
      input.batched = boolean("batched");
      reader_.key("feed");
      const size_t at = reader_.position();
      const auto feed = reader_.string();
      const auto known = enum_from_name<Feed>(feed, feed_name);
      if (!known && !feed.empty()) reader_.fail(kSyntax, at, "unknown feed " + in_quotes(feed));
      input.feed = known.value_or(Feed::kNone);
    });
  }
  void tensors() {
    section("tensors", [&] {
      auto& tensor = manifest_.tensors.emplace_back();
      tensor.name = text("tensor");
      unique(tensor.name, "tensors");
      tensor.dtype = dtype();
      tensor.shape = shape("shape");
      reader_.key("aliases");
      tensor.aliases = reader_.strings();
      tensor.trained = boolean("trained");
      if (reader_.optional_key("group")) {
        const size_t at = reader_.position();
        tensor.group = reader_.small_integer();
        if (tensor.group < 1) reader_.fail(kSyntax, at, "a group below 1");
      }
      if (!reader_.optional_key("buffer")) return;
      const size_t at = reader_.position();
      const auto word = reader_.string();
      const auto known = enum_from_name<ModelBuffer>(word, model_buffer_name);
      if (!known || *known == ModelBuffer::kNone || tensor.trained)
        reader_.fail(kSyntax, at, "no kind of buffer: " + in_quotes(word));
      tensor.buffer = known.value_or(ModelBuffer::kNone);
    });
  }
  // nullptr: unknown, which is reported.
  const OptimizerInfo* numbers(OptimizerNumbers& numbers) {
    size_t at = reader_.position();
    numbers.kind = text("kind");
    const OptimizerInfo* const info = find_optimizer(numbers.kind);
    if (info == nullptr) reader_.fail(kSyntax, at, "unknown optimizer " + in_quotes(numbers.kind));
    numbers.lr = real("lr");
    numbers.momentum = real("momentum");
    numbers.beta1 = real("beta1");
    numbers.beta2 = real("beta2");
    numbers.eps = real("eps");
    numbers.nesterov = boolean("nesterov");
    if (info == nullptr || !info->has(OptimizerInfo::kOrthogonal)) return info;
    numbers.steps = number("steps", 1, kMostOrthogonalSteps);
    at = reader_.position();
    const std::string word = text("adjust");
    const auto rule = enum_from_name<RateByShape>(word, rate_by_shape_name);
    if (!rule) reader_.fail(kSyntax, at, "no rule for the rate: " + in_quotes(word));
    numbers.adjust = rule.value_or(RateByShape::kOriginal);
    return info;
  }
  void chunks() {
    std::unordered_set<std::string> names;
    section("chunks", [&] {
      const size_t at = reader_.position();
      auto& chunk = manifest_.chunks.emplace_back();
      chunk.name = chunk.region = text("chunk");
      if (!names.insert(chunk.name).second) reader_.fail(kName, at, "two chunks are called " + in_quotes(chunk.name));
      if (reader_.optional_key("region")) chunk.region = reader_.string();
      tags(chunk);
    });
  }
  void tags(Chunk& chunk) {
    reader_.key("tags");
    reader_.open_object();
    for (std::string_view name; reader_.next_key(name);) {
      const size_t at = reader_.position();
      for (const Tag& tag : chunk.tags)
        if (tag.tag == name) reader_.fail(kName, at, "the tag " + in_quotes(name) + " stands twice");
      Tag& tag = chunk.tags.emplace_back(Tag{std::string(name)});
      tag.index = reader_.small_integer();
      if (tag.index < 0) reader_.fail(kRange, at, "the index of tag " + in_quotes(tag.tag) + " is negative");
    }
  }
  void optimizer() {
    auto& optimizer = manifest_.optimizer;
    reader_.key("optimizer");
    reader_.open_object();
    size_t at = reader_.position();
    const OptimizerInfo* const info = numbers(optimizer);
    if (reader_.optional_key("rest")) {
      reader_.open_object();
      const OptimizerInfo* const rest = numbers(optimizer.rest.emplace());
      reader_.close_object();
      if (info != nullptr && rest != nullptr && (!info->of_matrices || rest->of_matrices || !(optimizer.lr > 0)))
        reader_.fail(kSyntax, at,
                     in_quotes(rest->name) + " is no optimizer for the rest beside " + in_quotes(info->name));
    }
    reader_.close_object();
    section("optimizer_groups", [&] {
      auto& group = optimizer.groups.emplace_back();
      group.name = text("group");
      group.weight_decay = real("weight_decay");
      if (!reader_.optional_key("rest")) return;
      const size_t rest_at = reader_.position();
      group.rest = reader_.boolean();
      if (group.rest && !optimizer.rest) reader_.fail(kSyntax, rest_at, "the optimizer has no rest");
    });
    auto& schedule = manifest_.lr_schedule;
    reader_.key("lr_schedule");
    reader_.open_object();
    at = reader_.position();
    schedule.kind = text("kind");
    if (schedule.kind != "constant" && schedule.kind != "cosine" && schedule.kind != "linear" &&
        schedule.kind != "phases")
      reader_.fail(kSyntax, at, "unknown learning-rate schedule " + in_quotes(schedule.kind));
    schedule.warmup = number("warmup", 0, INT64_MAX);
    schedule.until = number("until", 0, INT64_MAX);
    schedule.to = real("to");
    schedule.constant = real("constant");
    if (schedule.kind == "phases") lr_phases(schedule.phases);
    reader_.close_object();
    manifest_.clip_grad_norm = real("clip_grad_norm");
    if (!reader_.optional_key("loss_scale")) return;
    at = reader_.position();
    manifest_.loss_scale = reader_.real();
    if (reader_.ok() && !(manifest_.loss_scale > 0)) reader_.fail(kRange, at, "a loss scale is positive");
  }
  void lr_phases(std::vector<LrPhase>& phases) {
    reader_.key("phases");
    size_t at = reader_.position();
    reader_.open_array();
    while (reader_.next_item()) {
      if (!phases.empty() && phases.back().steps == 0)
        reader_.fail(kRange, at, "the last phase of a learning rate alone may be without end");
      LrPhase& phase = phases.emplace_back();
      reader_.open_object();
      at = reader_.position();
      const std::string name = text("curve");
      const auto curve = lr_curve_from_name(name);
      if (!curve) reader_.fail(kSyntax, at, "unknown curve of a learning rate " + in_quotes(name));
      phase.curve = curve.value_or(LrCurve::kConstant);
      phase.steps = number("steps", 0, INT64_MAX);
      phase.from = factor("from");
      const LrCurveInfo& info = lr_curve(phase.curve);
      if (reader_.ok() && phase.steps == 0 && info.has(LrCurveInfo::kTo))
        reader_.fail(kRange, at, "a curve of a learning rate that has an end takes at least one step");
      if (info.has(LrCurveInfo::kTo)) phase.to = factor("to");
      if (info.has(LrCurveInfo::kPower)) phase.power = factor("power");
      if (info.has(LrCurveInfo::kTimescale)) phase.timescale = factor("timescale");
      reader_.close_object();
    }
    if (reader_.ok() && phases.empty()) reader_.fail(kRange, at, "a learning rate has at least one phase");
  }
  double factor(const char* key) {
    const size_t at = reader_.position();
    const double value = real(key);
    if (reader_.ok() && !(value >= 0 && std::isfinite(value)))
      reader_.fail(kRange, at, "a number of a learning rate's phase is at least 0");
    return value;
  }
  // One path without a weight, or a mix, in which every path has one.
  void data() {
    auto& paths = manifest_.run.data;
    reader_.key("data");
    const size_t at = reader_.position();
    size_t weighted = 0;
    reader_.open_array();
    while (reader_.next_item()) {
      DataPath& data = paths.emplace_back();
      reader_.open_object();
      data.path = text("path");
      if (reader_.optional_key("weight")) {
        data.weight = reader_.real();
        if (reader_.ok() && !(data.weight > 0 && std::isfinite(data.weight)))
          reader_.fail(kRange, at, "the weight of a data path is a positive number");
        ++weighted;
      }
      if (reader_.optional_key("at")) data.at = std::string(reader_.string());
      reader_.close_object();
    }
    if (reader_.ok() && (paths.size() > kMaxDataPaths || (weighted != paths.size() && paths.size() != 1)))
      reader_.fail(kRange, at, "data are one path, or up to 2^20 of which each has a weight");
  }
  void run() {
    auto& run = manifest_.run;
    reader_.key("run");
    reader_.open_object();
    data();
    run.steps = number("steps", 0, INT64_MAX);
    reader_.key("seed");
    run.seed = reader_.unsigned_integer();
    run.sampling = text("sampling");
    if (reader_.optional_key("document_end")) {
      const size_t at = reader_.position();
      run.document_end = reader_.integer();
      if (reader_.ok() && (run.document_end < 0 || run.document_end > UINT32_MAX))
        reader_.fail(kRange, at, "document_end is no token");
    }
    reader_.close_object();
  }
  void evaluation() {
    if (!reader_.optional_key("eval")) return;
    const size_t at = reader_.position();
    auto& eval = manifest_.eval.emplace();
    reader_.open_object();
    eval.data = text("data");
    eval.every = number("every", 0, INT64_MAX);
    eval.batches = number("batches", 0, INT64_MAX);
    eval.perplexity = boolean("perplexity");
    reader_.close_object();
    if (reader_.ok() && manifest_.evaluates) reader_.fail(kRange, at, "an evaluation has no evaluation");
  }
  void model_flops() {
    if (!reader_.optional_key("model_flops")) return;
    const size_t at = reader_.position();
    manifest_.model_flops = reader_.real();
    if (reader_.ok() && !(manifest_.model_flops > 0 && std::isfinite(manifest_.model_flops)))
      reader_.fail(kRange, at, "model_flops is out of range");
  }
  void proved() {
    if (!reader_.optional_key("proved")) return;
    const size_t at = reader_.position();
    manifest_.proved = reader_.integer();
    if (reader_.ok() && manifest_.proved < 1) reader_.fail(kRange, at, "proved is out of range");
  }
  void ranks() {
    section("ranks", [&] {
      auto& rank = manifest_.ranks.emplace_back();
      rank.arena_bytes = number("arena_bytes", 0, INT64_MAX);
      rank.persistent_bytes = number("persistent_bytes", 0, INT64_MAX);
      rank.scratch_bytes = number("scratch_bytes", 0, INT64_MAX);
      rank.sent_bytes = number("sent_bytes", 0, INT64_MAX);
      rank.peak_bytes = number("peak_bytes", 0, INT64_MAX);
    });
    if (reader_.ok() && manifest_.ranks.size() != static_cast<size_t>(manifest_.world_size))
      reader_.fail(kRange, reader_.position(),
                   "the manifest describes " + std::to_string(manifest_.ranks.size()) + " ranks, world_size is " +
                       std::to_string(manifest_.world_size));
  }
  void chunks(FileEntry& file) {
    reader_.key("chunks");
    const size_t at = reader_.position();
    for (const std::string& text : reader_.strings()) {
      uint32_t& digest = file.chunks.emplace_back();
      if (text.size() != 8 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
        reader_.fail(kSyntax, at, "the digest of a chunk is 8 hexadecimal digits, not " + in_quotes(text));
      else std::from_chars(text.data(), text.data() + text.size(), digest, 16);
    }
    if (reader_.ok() && static_cast<int64_t>(file.chunks.size()) != chunk_count(file.bytes))
      reader_.fail(kRange, at,
                   in_quotes(file.path) + " has " + std::to_string(file.chunks.size()) + " digests, its " +
                       std::to_string(file.bytes) + " bytes are " + std::to_string(chunk_count(file.bytes)) +
                       " chunks");
  }
  void files() {
    section("files", [&] {
      auto& file = manifest_.files.emplace_back();
      const size_t at = reader_.position();
      file.path = text("file");
      unique(file.path, "files");
      if (reader_.ok() && !is_safe_path(file.path))
        reader_.fail(kName, at, "a bundle cannot hold the file " + in_quotes(file.path));
      file.bytes = number("bytes", 0, INT64_MAX);
      file.sha256 = text("sha256");
      if (file.path.starts_with(kWeightFolder)) chunks(file);
    });
  }

  JsonReader reader_;
  Manifest manifest_;
  std::unordered_set<std::string> names_;
};

}  // namespace

Result<Manifest> parse_manifest(std::string_view text, const std::string& file) {
  return ManifestParser(text, file).parse();
}

Result<std::vector<ProvenanceEntry>> parse_provenance(std::string_view text, const std::string& file) {
  JsonReader reader(text, file);
  std::vector<ProvenanceEntry> entries;
  std::unordered_set<std::string> keys;
  reader.open_object();
  reader.key("provenance");
  reader.open_object();
  std::string_view key;
  while (reader.next_key(key)) {
    const size_t at = reader.position();
    if (!keys.emplace(key).second) reader.fail("P0606", at, "two entries are called " + in_quotes(key));
    entries.push_back({std::string(key), std::string(reader.string())});
  }
  reader.close_object();
  reader.end_of_text();
  if (!reader.ok()) return reader.status();
  return entries;
}

}  // namespace piper::plan
