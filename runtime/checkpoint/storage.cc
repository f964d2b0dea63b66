#include "runtime/checkpoint/storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "schemas/plan/durable_files.h"

namespace piper::checkpoint {

namespace {

constexpr const char* kLockFile = "LOCK";
// File systems that cannot sync a directory are trusted.
int sync_unless_unknown(int fd) {
  if (::fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP) return 0;
  return errno;
}

class PosixStorage : public Storage {
 public:
  // Takes the open folder.
  explicit PosixStorage(int folder) : folder_(folder) {}
  ~PosixStorage() override {
    ::close(folder_);
    if (lock_ >= 0) ::close(lock_);
  }

  // Takes the open lock file, too: the lock is held as long as that is open.
  void keep(int lock) { lock_ = lock; }

  int make_directory(const std::string& path) override { return done(::mkdirat(folder_, path.c_str(), 0700)); }
  int create_file(const std::string& path, int& file) override {
    file = ::openat(folder_, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return file < 0 ? errno : 0;
  }
  int write(int file, const char* data, size_t bytes, size_t& written) override {
    const ssize_t count = ::write(file, data, bytes);
    written = count < 0 ? 0 : static_cast<size_t>(count);
    return count < 0 ? errno : 0;
  }
  int sync_file(int file) override { return done(::fsync(file)); }
  int close_file(int file) override { return done(::close(file)); }
  int rename(const std::string& from, const std::string& to) override {
    if (::renameat2(folder_, from.c_str(), folder_, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return errno;
    // One process writes here: nobody makes `to` between the two calls.
    struct stat found{};
    if (::fstatat(folder_, to.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0) return EEXIST;
    return done(::renameat(folder_, from.c_str(), folder_, to.c_str()));
  }
  int sync_directory(const std::string& path) override {
    const int fd = ::openat(folder_, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno;
    const int failure = sync_unless_unknown(fd);
    return ::close(fd) != 0 && failure == 0 ? errno : failure;
  }
  int list(const std::string& path, std::vector<std::string>& names) override {
    const int fd = ::openat(folder_, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno;
    DIR* const directory = ::fdopendir(fd);
    if (directory == nullptr) {
      const int failure = errno;
      ::close(fd);
      return failure;
    }
    names.clear();
    errno = 0;
    while (const dirent* entry = ::readdir(directory)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    const int failure = errno;
    ::closedir(directory);
    return failure;
  }
  int remove_file(const std::string& path) override { return done(::unlinkat(folder_, path.c_str(), 0)); }
  int remove_directory(const std::string& path) override {
    return done(::unlinkat(folder_, path.c_str(), AT_REMOVEDIR));
  }

 private:
  static int done(int result) { return result == 0 ? 0 : errno; }

  int folder_, lock_ = -1;
};

// The folder and those above it, each for good.
std::error_code make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return {};
  const std::filesystem::path above = folder.has_parent_path() ? folder.parent_path() : ".";
  if (error = make_folder(above); error) return error;
  std::filesystem::create_directory(folder, error);
  if (!error) error = plan::sync_directory(above);
  return error;
}

}  // namespace

Result<std::unique_ptr<Storage>> open_storage(const std::string& folder, bool owner) {
  const auto failure = [&](int number) {
    return Status::failure("R0701", "cannot keep checkpoints in " + folder + ": " + std::strerror(number));
  };
  std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  if (!path.has_filename() && path.has_parent_path()) path = path.parent_path();
  if (const std::error_code error = make_folder(path); error) return failure(error.value());
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return failure(errno);
  auto storage = std::make_unique<PosixStorage>(fd);
  if (::faccessat(fd, ".", W_OK | X_OK, 0) != 0) return failure(errno);
  if (!owner) return std::unique_ptr<Storage>(std::move(storage));
  const int lock = ::openat(fd, kLockFile, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (lock < 0) return failure(errno);
  storage->keep(lock);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failure(errno);
    return Status::failure("R0704", "another run writes checkpoints to " + folder);
  }
  return std::unique_ptr<Storage>(std::move(storage));
}

}  // namespace piper::checkpoint
