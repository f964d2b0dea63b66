// Every system call by which a checkpoint comes to disk. Tests implement this interface: they fail each call once,
// and generate what a power loss may leave of them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "schemas/base/status.h"

namespace piper::checkpoint {

// Paths are relative to the folder of the checkpoints, "." is the folder itself. Results are 0 or an errno.
class Storage {
 public:
  virtual ~Storage() = default;
  virtual int make_directory(const std::string& path) = 0;
  // A file that is not there yet, for its owner alone; never through a link. `file`: for the calls below.
  virtual int create_file(const std::string& path, int& file) = 0;
  // May write less than it is given: `written`.
  virtual int write(int file, const char* data, size_t bytes, size_t& written) = 0;
  virtual int sync_file(int file) = 0;
  // `file` is gone also where it fails.
  virtual int close_file(int file) = 0;
  // EEXIST where `to` is there.
  virtual int rename(const std::string& from, const std::string& to) = 0;
  // The names in a directory: what was made, renamed and removed in it.
  virtual int sync_directory(const std::string& path) = 0;
  virtual int list(const std::string& path, std::vector<std::string>& names) = 0;
  virtual int remove_file(const std::string& path) = 0;
  virtual int remove_directory(const std::string& path) = 0;
};

// That of the operating system. The folder is made where it is not there. `owner`: the process that commits: it holds
// the folder's lock as long as the storage lives, so that one run at a time writes there. R0701: the folder cannot be
// used; R0704: another process is the owner.
Result<std::unique_ptr<Storage>> open_storage(const std::string& folder, bool owner);

}  // namespace piper::checkpoint
