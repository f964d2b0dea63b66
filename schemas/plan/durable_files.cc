#include "schemas/plan/durable_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

namespace piper::plan {
namespace {

std::error_code last_error() { return {errno, std::generic_category()}; }

template <class Sync>
std::error_code sync_through(const std::filesystem::path& path, Sync sync) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return last_error();
  const std::error_code error = sync(fd) == 0 ? std::error_code() : last_error();
  ::close(fd);
  return error;
}

}  // namespace

void let_large_files_fail() { std::signal(SIGXFSZ, SIG_IGN); }

void let_unread_pipes_fail() { std::signal(SIGPIPE, SIG_IGN); }

std::error_code sync_directory(const std::filesystem::path& directory) {
  const auto error = sync_through(directory.empty() ? "." : directory, ::fsync);
  return error == std::errc::invalid_argument || error == std::errc::not_supported ? std::error_code() : error;
}

std::error_code sync_file_system(const std::filesystem::path& path) { return sync_through(path, ::syncfs); }

std::error_code put_file(const std::filesystem::path& file, const std::filesystem::path& target) {
  std::error_code error;
  std::filesystem::rename(file, target, error);
  return error ? error : sync_directory(target.parent_path());
}

std::error_code swap_directories(const std::filesystem::path& a, const std::filesystem::path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0 ? std::error_code() : last_error();
}

}  // namespace piper::plan
