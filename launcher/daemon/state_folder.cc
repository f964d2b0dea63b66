#include "launcher/daemon/state_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "launcher/daemon/job_file.h"
#include "schemas/plan/durable_files.h"
#include "schemas/plan/file_bytes.h"

namespace piper::launcher {

namespace fs = std::filesystem;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DaemonRecord, next_job, draining, ended, restarts, incidents)

namespace {

using Json = nlohmann::json;
constexpr const char *kJobs = "jobs", *kJobFile = "job.json", *kRecordFile = "daemon.json";
constexpr int64_t kLargestFile = int64_t{4} << 20;

Status folder_refused(const std::string& path, const std::string& why) {
  return Status::failure("L0133", "state folder '" + path + "': " + why);
}

std::string last_error() { return std::strerror(errno); }

Result<std::string> small_file(const std::string& path) {
  PIPER_ASSIGN(const plan::MappedFile file, plan::map_file(path));
  if (file.bytes > kLargestFile) return Status::failure("L0133", "'" + path + "' is too large");
  return std::string(file.text());
}

Result<DaemonRecord> read_record(const std::string& text, const std::string& where) {
  try {
    return Json::parse(text).get<DaemonRecord>();
  } catch (const std::exception& failure) {
    return Status::failure("L0133", "'" + where + "' is no record of piperd: " + failure.what());
  }
}

Status make_folder(const std::string& path) {
  std::error_code error;
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  if (!error && mkdir(path.c_str(), 0700) == 0) error = plan::sync_directory(parent.empty() ? "." : parent);
  else if (!error && errno != EEXIST) return folder_refused(path, last_error());
  return error ? folder_refused(path, error.message()) : Status();
}

}  // namespace

Result<StateFolder> StateFolder::open(const std::string& path) {
  PIPER_RETURN_IF_ERROR(make_folder(path));
  struct stat about{};
  if (stat(path.c_str(), &about) != 0) return folder_refused(path, last_error());
  if (!S_ISDIR(about.st_mode)) return folder_refused(path, "is no folder");
  if (about.st_uid != geteuid()) return folder_refused(path, "belongs to another user");
  if ((about.st_mode & 077) != 0) return folder_refused(path, "others can look into it: chmod 700");
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  const std::string lock = path + "/LOCK";
  StateFolder folder(error ? path : absolute.string(), ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (folder.lock_ < 0) return folder_refused(path, last_error());
  if (flock(folder.lock_, LOCK_EX | LOCK_NB) != 0)
    return folder_refused(path, errno == EWOULDBLOCK ? "a piperd has it already" : last_error());
  PIPER_RETURN_IF_ERROR(make_folder(folder.path_ + "/" + kJobs));
  return folder;
}

StateFolder::StateFolder(StateFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

StateFolder::~StateFolder() {
  if (lock_ >= 0) close(lock_);
}

Result<std::vector<Job>> StateFolder::load_jobs(const std::function<void(const std::string&)>& note) const {
  std::vector<Job> jobs;
  std::error_code error;
  const std::string folder = path_ + "/" + kJobs;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string file = (at->path() / kJobFile).string();
    const auto text = small_file(file);
    auto job = text.ok() ? read_job(*text, "'" + file + "'") : Result<Job>(text.status());
    if (!job.ok()) note(job.error().message);
    else if (folder_of(job->id) != at->path().string()) note("'" + file + "' is of another job");
    else jobs.push_back(std::move(job).value());
  }
  if (error) return folder_refused(folder, error.message());
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.id < b.id; });
  return jobs;
}

Result<DaemonRecord> StateFolder::load_record() const {
  const std::string path = path_ + "/" + kRecordFile;
  std::error_code none;
  if (!fs::exists(path, none)) return DaemonRecord();
  PIPER_ASSIGN(const std::string text, small_file(path));
  return read_record(text, path);
}

Status StateFolder::save(const Job& job) const {
  const std::string folder = folder_of(job.id);
  PIPER_RETURN_IF_ERROR(make_folder(folder));
  return write_durably(folder + "/" + kJobFile, job_text(job));
}

Status StateFolder::save(const DaemonRecord& record) const {
  return write_durably(path_ + "/" + kRecordFile, Json(record).dump() + "\n");
}

Status StateFolder::remove(int64_t job) const {
  std::error_code error;
  fs::remove_all(folder_of(job), error);
  return error ? folder_refused(folder_of(job), error.message()) : Status();
}

std::string StateFolder::folder_of(int64_t job) const {
  char name[32];
  std::snprintf(name, sizeof name, "/%06lld", static_cast<long long>(job));
  return path_ + "/" + kJobs + name;
}

std::string default_state_folder() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string told = variable("PIPERD_STATE"); !told.empty()) return told;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string own = std::string("/piperd/") + host;
  if (const std::string state = variable("XDG_STATE_HOME"); !state.empty()) return state + own;
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.local/state" + own;
}

Status write_durably(const std::string& path, const std::string& text) {
  const std::string partial = path + ".partial";
  unlink(partial.c_str());
  const int file = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return folder_refused(partial, last_error());
  size_t done = 0;
  bool failed = false;
  while (!failed && done < text.size()) {
    const ssize_t count = write(file, text.data() + done, text.size() - done);
    if (count > 0) done += static_cast<size_t>(count);
    else failed = !(count < 0 && errno == EINTR);
  }
  failed = failed || fsync(file) != 0;
  const std::string why = failed ? last_error() : "";
  if (close(file) != 0 || failed) return folder_refused(partial, failed ? why : last_error());
  const std::error_code error = plan::put_file(partial, path);
  return error ? folder_refused(path, error.message()) : Status();
}

}  // namespace piper::launcher
