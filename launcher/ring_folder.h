// Where the rings of a node's ranks are while they run: a folder of this user alone, in memory, that is gone with the
// launcher. What a launcher that was killed has left is removed by the next one.
#pragma once

#include <string>

#include "schemas/base/status.h"

namespace piper::launcher {

class RingFolder {
 public:
  // L0104: the system gives none.
  static Result<RingFolder> make();
  RingFolder(RingFolder&& other) noexcept;
  RingFolder& operator=(RingFolder&&) = delete;
  ~RingFolder();

  const std::string& path() const { return path_; }
  // Removes the rings of an attempt that has ended.
  void clear() const;

 private:
  explicit RingFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace piper::launcher
