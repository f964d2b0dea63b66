#include "compiler/search/write_found.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <stdexcept>

#include "compiler/search/search_texts.h"
#include "schemas/plan/file_bytes.h"

namespace piper::search {
namespace {

constexpr int kMostWritten = 99;
constexpr const char *kTable = "table.md", *kRejected = "rejected.md", *kTradeoff = "tradeoff.html";

// The folder, without what an earlier search wrote. The table goes last: it shows that the files are those of a search.
Status make_room(const std::filesystem::path& directory) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed) return Status::failure("P0602", directory.string() + " cannot be made: " + failed.message());
  if (!std::filesystem::exists(directory / kTable)) return {};
  for (int place = 1; place <= kMostWritten; ++place)
    for (const char* ending : {".yaml", ".tuned.yaml"})
      std::filesystem::remove(directory / fmt::format("{:02}{}", place, ending), failed);
  for (const char* name : {kRejected, kTradeoff, kTable}) std::filesystem::remove(directory / name, failed);
  return {};
}

class Folder {
 public:
  Folder(const SearchOptions& options, const Searched& found, const std::vector<Neighbour>& neighbours,
         const Writers& writers)
      : options_(options), found_(found), neighbours_(neighbours), writers_(writers) {}

  Status write() {
    const size_t last = std::min(found_.explored.fit.size(), options_.keep);
    for (size_t i = 0; i < last; ++i) PIPER_RETURN_IF_ERROR(write_one(i));
    return {};
  }
  bool has_any() const { return !written_.empty(); }
  std::string said() const { return options_.json ? json_text(report()) : table_text(report()); }

 private:
  Report report() const {
    return {found_, written_, neighbours_, options_.compile.machine->name, options_.dollars_per_hour};
  }
  std::string path_of(const std::string& name) const { return options_.directory + "/" + name; }

  Status write_one(size_t i) {
    const Found& one = found_.explored.fit[i];
    const std::string name = fmt::format("{:02}.yaml", i + 1);
    const std::string text = writers_.text_of(one.point, head_text(found_, one, i, options_.compile.machine->name,
                                                                   i == 0 ? neighbours_ : std::vector<Neighbour>()));
    PIPER_RETURN_IF_ERROR(prove(name, one, text));
    if (i == 0) PIPER_RETURN_IF_ERROR(make_room(options_.directory));
    PIPER_RETURN_IF_ERROR(plan::write_file(path_of(name), text));
    written_.push_back({name, one, "", ""});
    PIPER_RETURN_IF_ERROR(write_report());
    PIPER_ASSIGN(const Tuned tuned, writers_.tune(i, one, path_of(name)));
    if (tuned.name.empty()) return {};
    written_.back().tuned = tuned.said;
    written_.back().tuned_name = tuned.name;
    return write_report();
  }

  Status prove(const std::string& name, const Found& one, const std::string& text) const {
    try {
      return writers_.prove(text).with_context(whose(name, one));
    } catch (const std::exception& bug) {
      throw std::runtime_error(whose(name, one) + ": " + bug.what() + "\nwith this strategy:\n" + text);
    }
  }
  std::string whose(const std::string& name, const Found& one) const {
    std::string files;
    for (const Written& file : written_) files += (files.empty() ? "" : ", ") + file.name;
    return fmt::format("the proof of {} ({}) failed, so it is not written; {} in {}", name, describe(one.point),
                       files.empty() ? "nothing was changed" : "proved before, and written: " + files,
                       options_.directory);
  }

  Status write_report() const {
    PIPER_RETURN_IF_ERROR(plan::write_file(path_of(kTable), table_text(report())));
    PIPER_RETURN_IF_ERROR(plan::write_file(path_of(kRejected), rejected_text(report())));
    return plan::write_file(path_of(kTradeoff), page_text(report()));
  }

  const SearchOptions& options_;
  const Searched& found_;
  const std::vector<Neighbour>& neighbours_;
  const Writers& writers_;
  std::vector<Written> written_;
};

}  // namespace

Status write_found(const SearchOptions& options, const Searched& found, const std::vector<Neighbour>& neighbours,
                   const Writers& writers, std::ostream& out) {
  Folder folder(options, found, neighbours, writers);
  const auto say = [&] {
    if (folder.has_any()) out << folder.said();
  };
  try {
    Status status = folder.write();
    say();
    return status;
  } catch (const std::exception&) {
    say();
    throw;
  }
}

}  // namespace piper::search
