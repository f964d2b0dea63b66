#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <unordered_map>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/chunk_digests.h"
#include "schemas/plan/element_order.h"
#include "schemas/plan/field_reader.h"
#include "schemas/plan/manifest_fields.h"
#include "schemas/plan/provenance_text.h"

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

class ManifestReader : public FieldReader<ManifestReader> {
 public:
  using FieldReader::check;
  ManifestReader(std::string_view text, const std::string& file) : FieldReader(text, file) {}
  using FieldReader::read;

  Result<Manifest> parse() {
    file(manifest_);
    if (!reader_.ok()) return reader_.status();
    return std::move(manifest_);
  }

  void format(int& version) {
    reader_.key("format");
    const size_t at = reader_.position();
    if (const auto format = reader_.string(); format != "piper plan")
      reader_.fail(kSyntax, at, "this is not the manifest of a plan bundle");
    reader_.key("version");
    version = reader_.small_integer();
    if (version != kFormatVersion)
      reader_.fail(kVersion, at,
                   "plan format version " + std::to_string(version) + " cannot be read; this program reads version " +
                       std::to_string(kFormatVersion) + ": compile the plan again");
  }
  void read(std::string_view, std::vector<Tag>& tags, const Rule&) {
    reader_.open_object();
    for (std::string_view name; reader_.next_key(name);) {
      const size_t at = reader_.position();
      for (const Tag& tag : tags)
        if (tag.tag == name) reader_.fail(kName, at, "the tag " + in_quotes(name) + " appears twice");
      Tag& tag = tags.emplace_back(Tag{std::string(name)});
      tag.index = reader_.small_integer();
      if (tag.index < 0) reader_.fail(kRange, at, "the index of tag " + in_quotes(tag.tag) + " is negative");
    }
  }
  void read(std::string_view, std::vector<uint32_t>& digests, const Rule&) {
    const size_t at = reader_.position();
    for (const std::string& text : reader_.strings()) {
      uint32_t& digest = digests.emplace_back();
      if (text.size() != 8 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
        reader_.fail(kSyntax, at, "the digest of a chunk is 8 hexadecimal digits, not " + in_quotes(text));
      else std::from_chars(text.data(), text.data() + text.size(), digest, 16);
    }
  }

  // Ranks of a cut: equal groups, no rank twice.
  void check(const Cut& cut, size_t at) {
    const std::string name = "cut " + in_quotes(cut.name);
    if (cut.groups.empty() || cut.places() < 2) {
      reader_.fail(kRange, at, name + " is over groups of at least two ranks");
      return;
    }
    std::set<int32_t> seen;
    for (const std::vector<int32_t>& group : cut.groups) {
      if (group.size() != cut.groups.front().size())
        reader_.fail(kRange, at, "the groups of " + name + " are not of one size");
      for (const int32_t rank : group)
        if (rank < 0 || rank >= manifest_.world_size || !seen.insert(rank).second)
          reader_.fail(kRange, at, name + " names rank " + std::to_string(rank) + " twice, or there is no such rank");
    }
  }
  void check_cut(const TensorInfo& tensor, size_t at) {
    const auto over = static_cast<size_t>(tensor.cut->cut), axis = static_cast<size_t>(tensor.cut->axis);
    if (over >= manifest_.cuts.size()) {
      reader_.fail(kRange, at, in_quotes(tensor.name) + " is cut over something that is not there");
      return;
    }
    const int64_t places = manifest_.cuts[over].places();
    const auto wrong = [&](const std::string& parts) {
      reader_.fail(
          kRange, at,
          in_quotes(tensor.name) + " has no axis " + std::to_string(axis) + " of " + std::to_string(places) + parts);
    };
    if (axis >= tensor.shape.size()) return wrong(" equal parts");
    if (const std::vector<int64_t>& extents = tensor.cut->extents; !extents.empty()) {
      if (tensor.cut->segments > 1 || !are_segments(extents, tensor.shape[axis], places))
        wrong(" equal parts in each of segments of other extents");
      return;
    }
    if (tensor.shape[axis] % (places * tensor.cut->segments) == 0) return;
    // Parts of unequal size are counted like the whole where nothing is before the axis.
    if (std::any_of(tensor.shape.begin(), tensor.shape.begin() + tensor.cut->axis,
                    [](int64_t extent) { return extent != 1; }) ||
        tensor.cut->segments > 1 || tensor.shape[axis] < places)
      wrong(" equal parts, nor is it the first, of one segment");
  }
  void check(const TensorInfo& tensor, size_t at) {
    if (tensor.cut) check_cut(tensor, at);
    if (tensor.trained && tensor.buffer != ModelBuffer::kNone)
      reader_.fail(kSyntax, at, in_quotes(tensor.name) + " is trained, so it is no buffer that steps leave as it is");
  }
  void check(const Optimizer& optimizer, size_t at) {
    if (!optimizer.rest) return;
    const OptimizerInfo &info = *find_optimizer(optimizer.kind), &rest = *find_optimizer(optimizer.rest->kind);
    if (!info.of_matrices || rest.of_matrices || !(optimizer.lr > 0))
      reader_.fail(kSyntax, at, in_quotes(rest.name) + " is no optimizer for the rest next to " + in_quotes(info.name));
  }
  void check(const LrPhase& phase, size_t at) {
    for (const double number : {phase.from, phase.to, phase.power, phase.timescale})
      if (!(number >= 0 && std::isfinite(number)))
        reader_.fail(kRange, at, "a number of a learning rate's phase is at least 0");
    if (phase.steps == 0 && lr_curve(phase.curve).has(LrCurveInfo::kTo))
      reader_.fail(kRange, at, "a curve of a learning rate that has an end takes at least one step");
  }
  void check(const std::vector<LrPhase>& phases, size_t at) {
    if (phases.empty()) reader_.fail(kRange, at, "a learning rate has at least one phase");
    for (size_t i = 0; i + 1 < phases.size(); ++i)
      if (phases[i].steps == 0) reader_.fail(kRange, at, "only the last phase of a learning rate may be without end");
  }
  void check(const OptimizerGroup& group, size_t at) {
    if (group.rest && !manifest_.optimizer.rest) reader_.fail(kSyntax, at, "the optimizer has no rest");
  }
  // One path without a weight, or a mix, in which every path has one.
  void check(const std::vector<DataPath>& paths, size_t at) {
    const bool mix = std::all_of(paths.begin(), paths.end(), [](const DataPath& path) { return path.weight > 0; });
    if (paths.size() > kMaxDataPaths || (!mix && paths.size() != 1))
      reader_.fail(kRange, at, "data are one path, or up to 2^20 of which each has a weight");
  }
  void check(const FileEntry& file, size_t at) {
    if (!is_safe_path(file.path)) reader_.fail(kName, at, "a bundle cannot hold the file " + in_quotes(file.path));
    if (file.path.starts_with(kWeightFolder) && static_cast<int64_t>(file.chunks.size()) != chunk_count(file.bytes))
      reader_.fail(kRange, at,
                   in_quotes(file.path) + " has " + std::to_string(file.chunks.size()) + " digests, its " +
                       std::to_string(file.bytes) + " bytes are " + std::to_string(chunk_count(file.bytes)) +
                       " chunks");
  }
  void check(const Evaluation&, size_t at) {
    if (manifest_.evaluates) reader_.fail(kRange, at, "an evaluation has no evaluation");
  }
  void check(const std::vector<RankSummary>& ranks, size_t) {
    if (ranks.size() != static_cast<size_t>(manifest_.world_size))
      reader_.fail(kRange, reader_.position(),
                   "the manifest describes " + std::to_string(ranks.size()) + " ranks, world_size is " +
                       std::to_string(manifest_.world_size));
  }

 private:
  Manifest manifest_;
};

}  // namespace

Result<Manifest> parse_manifest(std::string_view text, const std::string& file) {
  return ManifestReader(text, file).parse();
}

Result<std::vector<ProvenanceEntry>> parse_provenance(std::string_view text, const std::string& file) {
  JsonReader reader(text, file);
  std::vector<ProvenanceEntry> entries;
  std::unordered_map<std::string, size_t> places;  // by key
  reader.open_object();
  reader.key("provenance");
  reader.open_object();
  std::string_view key;
  while (reader.next_key(key)) {
    const size_t at = reader.position();
    if (!places.emplace(key, entries.size()).second)
      reader.fail("P0606", at, "two entries are called " + in_quotes(key));
    entries.push_back({std::string(key), std::string(reader.string())});
  }
  if (reader.optional_key("why")) {
    reader.open_object();
    while (reader.next_key(key)) {
      const size_t at = reader.position();
      const auto found = places.find(std::string(key));
      const std::string why(reader.string());
      if (found == places.end()) reader.fail("P0606", at, "no entry is called " + in_quotes(key));
      else if (!entries[found->second].why.empty()) reader.fail("P0606", at, in_quotes(key) + " has two reasons");
      else entries[found->second].why = why;
    }
  }
  reader.close_object();
  reader.end_of_text();
  if (!reader.ok()) return reader.status();
  return entries;
}

}  // namespace piper::plan
