// What a finished file or directory needs so that a power cut leaves the old one or the new one, whole: its bytes on
// the disk, then its name. Used by whoever writes beside a target and renames. No error: an empty code.
#pragma once

#include <filesystem>
#include <system_error>

namespace piper::plan {

// Beyond the limit of `ulimit -f` a write fails as on a full disk, instead of ending the process in the middle of a
// file. For the beginning of a program.
void let_large_files_fail();
// The same of a pipe whose reader has gone, such as that of a log: for programs that have more to do than to write it.
void let_unread_pipes_fail();
// The entries of a directory, renames among them. File systems that cannot be asked are trusted.
std::error_code sync_directory(const std::filesystem::path& directory);
// Everything written so far to the file system that holds `path`.
std::error_code sync_file_system(const std::filesystem::path& path);
// Renames a file whose bytes are on the disk over `target`, for good.
std::error_code put_file(const std::filesystem::path& file, const std::filesystem::path& target);
// Swaps two directories in one step: both names lead somewhere all the time. errc::invalid_argument,
// function_not_supported or operation_not_supported where the file system cannot.
std::error_code swap_directories(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace piper::plan
