// What a job's ranks print, in files of bounded size: log-0, log-67108864, ..., named by the bytes that came before.
// Older ones are removed. Readers count bytes from the job's first one on, whatever is still there.
#pragma once

#include <cstdint>
#include <string>

#include "schemas/base/status.h"

namespace piper::launcher {

class JobLog {
 public:
  struct Limits {
    int64_t file_bytes = int64_t{64} << 20;
    int files = 4;
  };
  // Goes on where the files in `folder` end. L0133.
  static Result<JobLog> open(const std::string& folder, Limits limits);
  JobLog(JobLog&& other) noexcept;
  JobLog& operator=(JobLog&&) = delete;
  ~JobLog();

  // What the disk does not take is lost: a full disk ends no training.
  void append(const std::string& line);

 private:
  JobLog(std::string folder, Limits limits) : folder_(std::move(folder)), limits_(limits) {}
  Status open_file(int64_t begin, int64_t bytes);

  std::string folder_;
  Limits limits_;
  int file_ = -1;
  int64_t begin_ = 0, bytes_ = 0;  // of the newest file: what came before it, what it has
};

struct LogPiece {
  std::string text;
  int64_t next = 0;  // after it
};
// Up to `bytes` of the log from byte `begin` on, or from the oldest one that is still there. `begin` below 0: the last
// -begin bytes. Empty at the end.
LogPiece read_log(const std::string& folder, int64_t begin, int64_t bytes);
// The last bytes.
std::string end_of_log(const std::string& folder, int64_t bytes);

}  // namespace piper::launcher
