// One rank as a process: the leader of a process group of its own, that ends when piper-launch ends, however that
// comes. Used by the supervisor.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "launcher/output.h"
#include "schemas/base/status.h"

namespace piper::launcher {

struct RankStart {
  int32_t rank = 0;
  std::vector<std::string> arguments;  // the first is the path of the program
  std::vector<std::string> variables;  // "NAME=value", before those of piper-launch itself
  int inherited = -1;                  // a descriptor that the process gets; kStoreSocket says its number
  sigset_t blocked{};                  // signals
  bool tag_output = false;
};

class RankProcess {
 public:
  // To be called by the thread that lives as long as the process. L0102: the program does not start; L0104: the system
  // gives no process.
  static Result<RankProcess> start(const RankStart& start);
  RankProcess(RankProcess&& other) noexcept;
  RankProcess& operator=(RankProcess&&) = delete;
  ~RankProcess();  // kills what is left

  int32_t rank() const { return rank_; }
  // Readable when the process has ended; -1: its end was taken.
  int descriptor() const { return descriptor_; }
  void signal_group(int number) const;
  // Once it has ended: kills what is left of its group, and returns the exit status, or 128 + n where signal n ended
  // it.
  int take_end();
  Output& out() { return out_; }
  Output& err() { return err_; }

 private:
  RankProcess(int32_t rank, pid_t pid, int descriptor, Output out, Output err);

  int32_t rank_;
  pid_t pid_;
  int descriptor_;
  Output out_, err_;
};

}  // namespace piper::launcher
