// piper-run as a function. A process of its own has LibTorch loaded and forks for every run: three steps of a tiny
// model take a tenth of what LibTorch's start takes. A run that crashes or hangs ends alone.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "schemas/base/status.h"

namespace piper::mutate {

class Trainer {
 public:
  // Forks: to be called while the process has one thread. The process that it starts ends with this object.
  static Result<Trainer> start();
  Trainer(Trainer&& other) noexcept;
  Trainer& operator=(Trainer&& other) noexcept;
  Trainer(const Trainer&) = delete;
  ~Trainer();

  // Runs piper-run with these arguments, its stderr to the file `said`; killed after `timeout_s`. Its wait status.
  Result<int> run(const std::vector<std::string>& arguments, const std::string& said, int timeout_s) const;

 private:
  Trainer(pid_t process, int socket) : process_(process), socket_(socket) {}

  pid_t process_ = -1;
  int socket_ = -1;
};

}  // namespace piper::mutate
