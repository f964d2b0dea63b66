#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "schemas/base/parallel.h"
#include "schemas/plan/bundle_files.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/chunk_digests.h"
#include "schemas/plan/durable_files.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/json_writer.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/plan/provenance_text.h"
#include "schemas/plan/write_weights.h"

namespace piper::plan {
namespace {

namespace fs = std::filesystem;

Status cannot_write(const fs::path& path, const std::error_code& error) {
  return Status::failure("P0602", "cannot write " + path.string() + ": " + error.message());
}

// Refuses to replace anything but an empty directory or a bundle.
Status check_target(const fs::path& directory) {
  std::error_code error;
  const auto status = fs::status(directory, error);
  if (!fs::exists(status)) return {};
  const auto refuse = [&directory](const std::string& why) {
    return Status::failure("P0601", directory.string() + " is not replaced: " + why +
                                        "; name a new directory, an empty one or an existing plan bundle");
  };
  if (!fs::is_directory(status)) return refuse("it is not a directory");
  const std::set<std::string> ours = {std::string(kManifestFile),
                                      std::string(kProvenanceFile),
                                      std::string(kReferenceFile),
                                      std::string(kUncastFile),
                                      "programs",
                                      "ranks",
                                      "weights",
                                      "eval"};
  std::set<std::string> foreign;
  bool any = false;
  fs::directory_iterator entries(directory, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    any = true;
    const auto name = entries->path().filename().string();
    if (ours.count(name) == 0) foreign.insert(name);
  }
  if (error) return cannot_write(directory, error);
  if (!foreign.empty()) return refuse("it holds \"" + *foreign.begin() + "\", which does not belong to a plan bundle");
  if (!any) return {};
  const auto manifest = map_file((directory / kManifestFile).string());
  if (!manifest.ok() || manifest->text().substr(0, 200).find("\"piper plan\"") == std::string_view::npos)
    return refuse("it has no manifest of a plan bundle");
  return {};
}

// A directory that vanishes, unless it has another name by then.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(fs::path path) : path_(std::move(path)) {}
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class BundleWriter {
 public:
  BundleWriter(fs::path root, Bundle& bundle) : root_(std::move(root)), bundle_(bundle) {}

  Status write(const std::vector<WeightTensor>& parameters, const std::vector<WeightTensor>& constants, WeightMode mode,
               const std::function<Status()>& prove) {
    std::vector<WeightTensor> buffers;
    for (const WeightTensor& tensor : parameters)
      if (tensor.buffer) buffers.push_back(tensor);
    for (const auto folder : {kProgramFolder, kRankFolder, kWeightFolder}) {
      if (folder == kWeightFolder && mode == WeightMode::kNone && constants.empty() && buffers.empty()) continue;
      std::error_code error;
      fs::create_directories(root_ / std::string(folder.substr(0, folder.size() - 1)), error);
      if (error) return cannot_write(root_, error);
    }
    const auto files = program_files(bundle_.programs);
    const size_t programs = files.size(), count = 1 + programs + bundle_.ranks.size();
    entries_.resize(count);
    std::vector<Status> statuses(count + 1);
    const std::vector<int32_t> like = like_ranks(bundle_);
    parallel_for(count + 1, [&](size_t turn) {
      if (turn == 0) {
        if (prove) statuses.back() = prove();
        return;
      }
      const size_t i = turn - 1;
      if (i == 0) {
        statuses[i] = text_file(entries_[i], std::string(kProvenanceFile), print_provenance(bundle_.provenance));
      } else if (i <= programs) {
        statuses[i] =
            text_file(entries_[i], files[i - 1], print_program(bundle_.programs[i - 1], bundle_.manifest.chunks));
      } else {
        const RankPlan& rank = bundle_.ranks[i - 1 - programs];
        const int32_t first = like[i - 1 - programs];
        JsonWriter json;
        print_rank_plan(rank, bundle_.provenance, bundle_.programs,
                        first < 0 ? nullptr : &bundle_.ranks[static_cast<size_t>(first)], json);
        statuses[i] = text_file(entries_[i], rank_file(rank.rank), json.text());
      }
    });
    for (Status& status : statuses) PIPER_RETURN_IF_ERROR(std::move(status));
    for (size_t i = 0; i < bundle_.reference.size(); ++i) {
      entries_.emplace_back();
      PIPER_RETURN_IF_ERROR(text_file(entries_.back(), std::string(i == 0 ? kReferenceFile : kUncastFile),
                                      print_reference(bundle_.reference[i])));
    }
    for (Bundle& evaluation : bundle_.evaluation) {
      PIPER_RETURN_IF_ERROR(
          BundleWriter(root_ / std::string(kEvaluationFolder), evaluation).write({}, {}, WeightMode::kNone, {}));
      entries_.emplace_back();
      PIPER_RETURN_IF_ERROR(
          text_file(entries_.back(), std::string(kEvaluationManifest), print_manifest(evaluation.manifest)));
    }
    if (mode != WeightMode::kNone) PIPER_RETURN_IF_ERROR(weight_file(kModelWeights, parameters, mode));
    else if (!buffers.empty()) PIPER_RETURN_IF_ERROR(weight_file(kModelWeights, buffers, WeightMode::kCopy));
    if (!constants.empty()) PIPER_RETURN_IF_ERROR(weight_file(kConstantWeights, constants, WeightMode::kCopy));
    std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    bundle_.manifest.files = std::move(entries_);
    return write_file((root_ / kManifestFile).string(), print_manifest(bundle_.manifest));
  }

 private:
  Status text_file(FileEntry& entry, const std::string& path, std::string_view text) const {
    entry = {path, sha256(text), static_cast<int64_t>(text.size()), {}};
    return write_file((root_ / path).string(), text);
  }
  Status weight_file(std::string_view path, const std::vector<WeightTensor>& tensors, WeightMode mode) {
    const std::string full = (root_ / path).string();
    PIPER_RETURN_IF_ERROR(write_weights(full, tensors, mode));
    PIPER_ASSIGN(const auto file, map_file(full));
    entries_.push_back({std::string(path), sha256(file.text()), file.bytes, chunk_digests(file.text())});
    return {};
  }

  fs::path root_;
  Bundle& bundle_;
  std::vector<FileEntry> entries_;
};

bool cannot_swap(const std::error_code& error) {
  return error == std::errc::invalid_argument || error == std::errc::function_not_supported ||
         error == std::errc::not_supported;
}

// Puts the directory `fresh` in the place of `target`, for good. What was there is gone afterwards.
Status replace(const fs::path& fresh, const fs::path& target) {
  // One syncfs, not an fsync of every file: a bundle is a hundred small files and more, and each fsync is a commit of
  // the journal. On ext4 (medians of 7, paired): 10 files 12 ms against 48, 100 files 20 against 404, 600 files 160
  // against 1830. What other programs have not written yet is written as well.
  std::error_code error = sync_file_system(fresh);
  if (error) return cannot_write(fresh, error);
  TemporaryDirectory old(target.string() + ".replaced-" + std::to_string(::getpid()));
  const bool existed = fs::exists(target, error);
  if (existed && !error) error = swap_directories(fresh, target);  // `fresh` is then the name of the old one
  if (!existed || cannot_swap(error)) {
    error.clear();
    if (existed) fs::rename(target, old.path(), error);  // for a moment there is no `target`
    if (error) return cannot_write(target, error);
    fs::rename(fresh, target, error);
    std::error_code ignored;
    if (error && existed) fs::rename(old.path(), target, ignored);
  }
  if (!error) error = sync_directory(target.parent_path());  // before the old one goes
  return error ? cannot_write(target, error) : Status();
}

}  // namespace

Status write_bundle(const std::string& directory, Bundle& bundle, const std::vector<WeightTensor>& parameters,
                    const std::vector<WeightTensor>& constants, WeightMode mode, const std::function<Status()>& prove) {
  std::error_code error;
  // "plans/" and "plans" are the same directory; a link to a directory is followed.
  fs::path target = fs::weakly_canonical(fs::absolute(directory, error), error);
  if (error) return cannot_write(directory, error);
  if (!target.has_filename()) target = target.parent_path();
  PIPER_RETURN_IF_ERROR(check_target(target));
  fs::create_directories(target.parent_path(), error);
  if (error) return cannot_write(target.parent_path(), error);
  TemporaryDirectory fresh(target.string() + ".partial-" + std::to_string(::getpid()));
  fs::remove_all(fresh.path(), error);
  PIPER_RETURN_IF_ERROR(BundleWriter(fresh.path(), bundle).write(parameters, constants, mode, prove));
  return replace(fresh.path(), target);
}

}  // namespace piper::plan
