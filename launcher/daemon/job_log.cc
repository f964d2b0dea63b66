#include "launcher/daemon/job_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "launcher/output.h"

namespace piper::launcher {

namespace {

constexpr std::string_view kPrefix = "log-";

// By the bytes that came before.
std::map<int64_t, std::string> files_of(const std::string& folder) {
  std::map<int64_t, std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    int64_t begin = 0;
    const char* const last = name.data() + name.size();
    if (name.compare(0, kPrefix.size(), kPrefix) != 0) continue;
    const auto read = std::from_chars(name.data() + kPrefix.size(), last, begin);
    if (read.ec == std::errc() && read.ptr == last && begin >= 0) files[begin] = at->path().string();
  }
  return files;
}

int64_t size_of(const std::string& path) {
  struct stat about{};
  return stat(path.c_str(), &about) == 0 ? about.st_size : 0;
}

}  // namespace

Result<JobLog> JobLog::open(const std::string& folder, Limits limits) {
  JobLog log(folder, limits);
  const auto files = files_of(folder);
  if (files.empty()) PIPER_RETURN_IF_ERROR(log.open_file(0, 0));
  else PIPER_RETURN_IF_ERROR(log.open_file(files.rbegin()->first, size_of(files.rbegin()->second)));
  return log;
}

JobLog::JobLog(JobLog&& other) noexcept
    : folder_(std::move(other.folder_)),
      limits_(other.limits_),
      file_(std::exchange(other.file_, -1)),
      begin_(other.begin_),
      bytes_(other.bytes_) {}

JobLog::~JobLog() {
  if (file_ >= 0) close(file_);
}

Status JobLog::open_file(int64_t begin, int64_t bytes) {
  const std::string path = folder_ + "/" + std::string(kPrefix) + std::to_string(begin);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return Status::failure("L0133", "no log '" + path + "': " + std::strerror(errno));
  if (file_ >= 0) close(file_);
  file_ = file;
  begin_ = begin;
  bytes_ = bytes;
  return {};
}

void JobLog::append(const std::string& line) {
  if (bytes_ > 0 && bytes_ + static_cast<int64_t>(line.size()) > limits_.file_bytes &&
      open_file(begin_ + bytes_, 0).ok()) {
    auto files = files_of(folder_);
    for (; files.size() > static_cast<size_t>(limits_.files); files.erase(files.begin()))
      unlink(files.begin()->second.c_str());
  }
  write_all(file_, line);
  struct stat about{};
  bytes_ = fstat(file_, &about) == 0 ? about.st_size : bytes_;
}

LogPiece read_log(const std::string& folder, int64_t begin, int64_t bytes) {
  LogPiece piece;
  const auto files = files_of(folder);
  if (files.empty()) return piece;
  const int64_t end = files.rbegin()->first + size_of(files.rbegin()->second);
  if (begin < 0) begin = std::max<int64_t>(0, end + begin);
  begin = std::clamp(begin, files.begin()->first, end);
  auto at = std::prev(files.upper_bound(begin));
  // After the end of a file the next one begins, also where a full disk kept it short.
  if (begin - at->first >= size_of(at->second) && std::next(at) != files.end()) begin = (++at)->first;
  piece.next = begin;
  const int file = open(at->second.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return piece;
  piece.text.resize(static_cast<size_t>(bytes));
  const ssize_t count = pread(file, piece.text.data(), piece.text.size(), begin - at->first);
  close(file);
  piece.text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  piece.next += static_cast<int64_t>(piece.text.size());
  return piece;
}

std::string end_of_log(const std::string& folder, int64_t bytes) {
  std::string text;
  for (int64_t at = -bytes;;) {
    const LogPiece piece = read_log(folder, at, bytes);
    if (piece.text.empty() || static_cast<int64_t>(text.size()) >= bytes) return text;
    text += piece.text;
    at = piece.next;
  }
}

}  // namespace piper::launcher
