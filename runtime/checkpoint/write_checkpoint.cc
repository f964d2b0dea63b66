#include "runtime/checkpoint/write_checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "schemas/plan/chunk_digests.h"
#include "schemas/plan/file_bytes.h"

namespace piper::checkpoint {

namespace {

constexpr int kAttempts = 3;
constexpr size_t kWriteBytes = size_t{8} << 20;
constexpr std::string_view kTrash = "trash-", kAbandoned = "abandoned-", kReplaced = "replaced-", kInProgress = ".tmp-";

std::string failed(const std::string& what, int number) { return what + ": " + std::strerror(number); }

// A folder and the files in it; what cannot be removed stays.
void remove_folder(Storage& storage, const std::string& folder) {
  std::vector<std::string> names;
  if (storage.list(folder, names) != 0) return;
  for (const std::string& name : names) storage.remove_file(folder + "/" + name);
  storage.remove_directory(folder);
}

bool starts_with(const std::string& name, std::string_view prefix) {
  return name.compare(0, prefix.size(), prefix) == 0;
}

// The step of "PREFIXstep-000001200-RUN", -1 for any other name.
int64_t step_after(std::string_view prefix, const std::string& name) {
  if (!starts_with(name, prefix)) return -1;
  const size_t run = name.find('-', prefix.size() + std::string_view("step-").size());
  return run == std::string::npos ? -1 : step_of_folder(name.substr(prefix.size(), run - prefix.size()));
}

// What a rank says of its file: "bytes sha256 crc crc ...", or "!why".
std::string record_of(std::string_view shard) {
  std::ostringstream text;
  text << shard.size() << ' ' << plan::sha256(shard);
  for (const uint32_t digest : plan::chunk_digests(shard)) text << ' ' << digest;
  return text.str();
}

void read_record(const std::string& record, plan::FileEntry& file) {
  std::istringstream in(record);
  in >> file.bytes >> file.sha256;
  file.chunks.clear();
  for (uint32_t digest = 0; in >> digest;) file.chunks.push_back(digest);
}

constexpr std::string_view kRefused = "~";  // sent instead of a record

// The first rank's failure, with the rank; empty: none.
std::string first_failure(const std::vector<std::string>& by_rank) {
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    if (!by_rank[rank].empty() && by_rank[rank].front() == '!')
      return "rank " + std::to_string(rank) + ": " + by_rank[rank].substr(1);
  return {};
}

std::string told(const std::string& failure) { return failure.empty() ? "" : "!" + failure; }

}  // namespace

void clear_leavings(Storage& storage) {
  std::vector<std::string> names;
  if (storage.list(".", names) != 0) return;
  for (const std::string& name : names) {
    const size_t in_progress = name.find(kInProgress);
    const bool begun = in_progress != std::string::npos && step_of_folder(name.substr(0, in_progress)) >= 0;
    const int64_t replaced = step_after(kReplaced, name);
    // Where its name is taken, the new one has it.
    if (replaced >= 0 && storage.rename(name, step_folder(replaced)) == 0) continue;
    if (begun || replaced >= 0 || starts_with(name, kTrash)) remove_folder(storage, name);
  }
}

// Empty, or why the file is not on the disk.
std::string CheckpointWriter::write_file(const std::string& path, std::string_view bytes) {
  int file = -1;
  if (const int number = storage_.create_file(path, file); number != 0) return failed("cannot create " + path, number);
  int failure = 0;
  while (!bytes.empty() && failure == 0) {
    size_t written = 0;
    const std::string_view part = bytes.substr(0, kWriteBytes);
    failure = storage_.write(file, part.data(), part.size(), written);
    if (failure == 0 && written == 0) failure = EIO;  // for ever, else
    if (failure == EINTR) failure = 0;
    bytes.remove_prefix(written);
  }
  const char* what = "cannot write ";
  if (failure == 0) {
    failure = storage_.sync_file(file);
    what = "cannot sync ";
  }
  const int closed = storage_.close_file(file);
  if (failure != 0) return failed(what + path, failure);
  return closed == 0 ? std::string() : failed("cannot close " + path, closed);
}

void CheckpointWriter::begin_line() {
  std::vector<std::string> names;
  if (control_.rank() != 0 || storage_.list(".", names) != 0) return;
  for (const std::string& name : names)
    if (of_other_line(step_of_folder(name)))
      (void)storage_.rename(name, std::string(kAbandoned) + name + "-" + options_.run);
  (void)storage_.sync_directory(".");
}

// What is in the way of the new one's name, and, at the first commit, what belongs to another line of the run.
std::string CheckpointWriter::set_aside(const std::string& folder, int64_t step) {
  std::vector<std::string> names;
  if (const int number = storage_.list(".", names); number != 0) return failed("cannot list the folder", number);
  for (const std::string& name : names) {
    const int64_t there = step_of_folder(name);
    const bool other_line = !alone_ && of_other_line(there);
    if (there < 0 || (there != step && !other_line)) continue;
    // Found again by clear_leavings(), should the new one not come to its name.
    const bool replaced = there == step && options_.damaged.count(there) == 0;
    const std::string aside = std::string(replaced ? kReplaced : kAbandoned) + name + "-" +
                              folder.substr(folder.find(kInProgress) + kInProgress.size());
    if (const int number = storage_.rename(name, aside); number != 0) return failed("cannot rename " + name, number);
  }
  return {};
}

std::string CheckpointWriter::give_name(const std::string& folder, int64_t step) {
  if (std::string failure = set_aside(folder, step); !failure.empty()) return failure;
  const std::string name = step_folder(step);
  if (const int number = storage_.rename(folder, name); number != 0) return failed("cannot rename " + folder, number);
  if (const int number = storage_.sync_directory("."); number != 0) return failed("cannot sync the folder", number);
  alone_ = true;
  options_.damaged.erase(step);
  return {};
}

std::string CheckpointWriter::commit(Manifest& manifest, const std::string& folder,
                                     const std::vector<std::string>& records) {
  size_t file = 0;
  for (const std::string& record : records) {
    if (record.empty()) continue;
    if (file == manifest.files.size()) return "more shards than were announced";
    const int64_t announced = manifest.files[file].bytes;
    read_record(record, manifest.files[file]);
    if (manifest.files[file].bytes != announced) return manifest.files[file].path + " has another size than announced";
    ++file;
  }
  if (file != manifest.files.size()) return "fewer shards than were announced";
  const std::string text = print_manifest(manifest);
  // Gaps and overlaps of the parts are found by the reader.
  if (const auto read = parse_manifest(text, std::string(kManifestFile)); !read.ok()) return read.error().message;
  const std::string path = folder + "/" + std::string(kManifestFile), partial = folder + "/MANIFEST.tmp";
  if (std::string failure = write_file(partial, text); !failure.empty()) return failure;
  if (const int number = storage_.rename(partial, path); number != 0) return failed("cannot rename " + partial, number);
  if (const int number = storage_.sync_directory(folder); number != 0) return failed("cannot sync " + folder, number);
  return give_name(folder, manifest.step);
}

Result<std::string> CheckpointWriter::attempt(Manifest& manifest, const std::string& folder, const std::string& name,
                                              std::optional<std::string_view> shard, const hal::WaitControl& wait) {
  using live::EventKind;
  const int64_t step = manifest.step;
  // All ranks record the same events, whatever they have to write: so it shows who lags behind whom.
  options_.track.event(EventKind::kWrite, step);
  std::string mine;
  if (control_.rank() == 0)
    if (const int number = storage_.make_directory(folder); number != 0)
      mine = told(failed("cannot make " + folder, number));
  options_.track.event(EventKind::kGather, step);
  PIPER_ASSIGN(const std::vector<std::string> made, control_.allgather(mine, wait));
  if (std::string failure = first_failure(made); !failure.empty()) return failure;

  options_.track.event(EventKind::kWrite, step);
  if (!shard) {
    mine = kRefused;
  } else if (!name.empty()) {
    std::string failure = write_file(folder + "/" + name, *shard);
    if (failure.empty())
      if (const int number = storage_.sync_directory(folder); number != 0)
        failure = failed("cannot sync " + folder, number);
    mine = failure.empty() ? record_of(*shard) : told(failure);
  }
  options_.track.event(EventKind::kGather, step);
  PIPER_ASSIGN(const std::vector<std::string> records, control_.allgather(mine, wait));
  refused_ = std::find(records.begin(), records.end(), kRefused) != records.end();
  if (refused_) return std::string(kRefused);
  if (std::string failure = first_failure(records); !failure.empty()) return failure;

  options_.track.event(EventKind::kWrite, step);
  mine = control_.rank() == 0 ? told(commit(manifest, folder, records)) : "";
  options_.track.event(EventKind::kGather, step);
  PIPER_ASSIGN(const std::vector<std::string> committed, control_.allgather(mine, wait));
  return first_failure(committed);
}

// After the commit: what is to go is renamed first, so that nobody takes a folder half removed for a checkpoint.
void CheckpointWriter::remove_old(int64_t step) {
  std::vector<std::string> names;
  if (storage_.list(".", names) != 0) return;
  std::vector<std::pair<int64_t, std::string>> older, abandoned;
  for (const std::string& name : names) {
    const int64_t there = step_of_folder(name), aside = step_after(kAbandoned, name);
    if (there >= 0 && there < step && options_.damaged.count(there) == 0) older.emplace_back(there, name);
    if (aside >= 0) abandoned.emplace_back(aside, name);
    if (step_after(kReplaced, name) >= 0) remove_folder(storage_, name);
  }
  if (options_.keep == 0) return;
  remove_beyond(std::move(older), static_cast<size_t>(options_.keep) - 1);
  remove_beyond(std::move(abandoned), static_cast<size_t>(options_.keep));
}

void CheckpointWriter::remove_beyond(std::vector<std::pair<int64_t, std::string>> folders, size_t keep) {
  std::sort(folders.rbegin(), folders.rend());
  for (size_t i = keep; i < folders.size(); ++i) {
    const std::string trash = std::string(kTrash) + folders[i].second + "-" + options_.run;
    if (storage_.rename(folders[i].second, trash) == 0) remove_folder(storage_, trash);
  }
}

Status CheckpointWriter::write(Manifest manifest, const std::string& name, std::string_view shard,
                               const hal::WaitControl& wait) {
  return write_or_refuse(std::move(manifest), name, shard, wait);
}

Status CheckpointWriter::refuse(Manifest manifest, const hal::WaitControl& wait) {
  return write_or_refuse(std::move(manifest), "", std::nullopt, wait);
}

Status CheckpointWriter::write_or_refuse(Manifest manifest, const std::string& name,
                                         std::optional<std::string_view> shard, const hal::WaitControl& wait) {
  refused_ = false;
  manifest.run = options_.run;
  manifest.parent = options_.parent;
  std::string failure;
  for (int i = 1; i <= kAttempts; ++i) {
    const std::string folder =
        step_folder(manifest.step) + std::string(kInProgress) + options_.run + (i == 1 ? "" : "-" + std::to_string(i));
    PIPER_ASSIGN(failure, attempt(manifest, folder, name, shard, wait));
    if (failure.empty()) {
      options_.parent = manifest.digest;
      options_.track.event(live::EventKind::kWrite, manifest.step);
      if (control_.rank() == 0) remove_old(manifest.step);
      options_.track.event(live::EventKind::kGather, manifest.step);
      // No rank is a removal ahead of the others, which would wait for it elsewhere.
      return control_.barrier(wait);
    }
    options_.track.event(live::EventKind::kWrite, manifest.step);
    if (control_.rank() == 0) remove_folder(storage_, folder);
    options_.track.event(live::EventKind::kGather, manifest.step);
    // A rank's file is gone before the next attempt asks for room.
    PIPER_RETURN_IF_ERROR(control_.barrier(wait));
    if (refused_) return {};
  }
  return Status::failure("R0701", "the checkpoint of step " + std::to_string(manifest.step) + " cannot be written, " +
                                      std::to_string(kAttempts) + " attempts failed; the last one: " + failure);
}

}  // namespace piper::checkpoint
