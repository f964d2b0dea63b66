#include "tools/mutate/subject.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "schemas/plan/bundle_files.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/verify/verify.h"

namespace piper::mutate {
namespace {

namespace fs = std::filesystem;
using namespace plan;

const std::string kManifest(kManifestFile);

// The manifest with sizes and digests of `texts`; as it is where it cannot be read.
std::string with_digests(const std::string& manifest, const Texts& texts) {
  auto parsed = parse_manifest(manifest, kManifest);
  if (!parsed.ok()) return manifest;
  for (FileEntry& file : parsed->files)
    if (const auto text = texts.find(file.path); text != texts.end()) {
      file.sha256 = sha256(text->second);
      file.bytes = static_cast<int64_t>(text->second.size());
    }
  return print_manifest(*parsed);
}

Status write(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  return out.flush() ? Status() : Status::failure("", "cannot write " + path.string());
}

}  // namespace

Texts print_texts(const Bundle& bundle) {
  Texts texts;
  const auto files = program_files(bundle.programs);
  for (size_t p = 0; p < files.size(); ++p) texts[files[p]] = print_program(bundle.programs[p], bundle.manifest.chunks);
  const auto like = like_ranks(bundle);
  for (size_t r = 0; r < bundle.ranks.size(); ++r)
    texts[rank_file(bundle.ranks[r].rank)] =
        print_rank_plan(bundle.ranks[r], bundle.provenance, bundle.programs,
                        like[r] < 0 ? nullptr : &bundle.ranks[static_cast<size_t>(like[r])]);
  texts[kManifest] = print_manifest(bundle.manifest);
  return texts;
}

Result<Subject> Subject::open(const std::string& name, const std::string& directory, const std::string& copy,
                              Changed changed) {
  Subject subject;
  subject.changed_ = changed;
  subject.name_ = name;
  subject.copy_ = copy;
  std::error_code error;
  fs::remove_all(copy, error);
  fs::create_directories(copy, error);
  fs::copy(directory, copy, fs::copy_options::recursive, error);
  if (error) return Status::failure("", "cannot copy " + directory + " to " + copy + ": " + error.message());
  PIPER_ASSIGN(subject.whole_, read_bundle(copy));
  PIPER_RETURN_IF_ERROR(verify::verify(subject.whole_).status());
  if (changed == Changed::kEvaluation && subject.whole_.evaluation.empty())
    return Status::failure("", "it has no evaluation");
  subject.texts_ = print_texts(subject.bundle());
  return subject;
}

Status Subject::place(const Texts& texts) {
  Texts differ;
  for (const auto& [path, text] : texts)
    if (const auto own = texts_.find(path); own == texts_.end() || own->second != text) differ[path] = text;
  Texts all = texts_;
  for (const auto& [path, text] : differ) all[path] = text;
  differ[kManifest] = with_digests(all[kManifest], all);
  const fs::path root(copy_), folder = changed_ == Changed::kTraining ? root : root / kEvaluationFolder;
  for (const auto& [path, text] : placed_)
    if (differ.count(path) == 0) PIPER_RETURN_IF_ERROR(write(folder / path, texts_[path]));
  for (const auto& [path, text] : differ) PIPER_RETURN_IF_ERROR(write(folder / path, text));
  if (changed_ == Changed::kEvaluation)
    PIPER_RETURN_IF_ERROR(
        write(root / kManifest,
              with_digests(print_manifest(whole_.manifest), {{std::string(kEvaluationManifest), differ[kManifest]}})));
  placed_ = std::move(differ);
  return {};
}

}  // namespace piper::mutate
