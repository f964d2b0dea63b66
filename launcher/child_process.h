// A program as a child process: the leader of a process group of its own, that ends when this process ends, however
// that comes. Used for the ranks of piper-launch, and for each piper-launch of piperd.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "launcher/output.h"
#include "schemas/base/status.h"

namespace piper::launcher {

struct ChildStart {
  std::string name;                    // "rank 3", for messages
  std::vector<std::string> arguments;  // the first is the path of the program
  std::vector<std::string> variables;  // "NAME=value": its whole environment
  std::string folder;                  // where it starts; "": here
  std::vector<int> inherited;          // descriptors that it gets, under their numbers
  bool close_others = false;           // it gets no other but the standard ones
  sigset_t blocked{};                  // signals
  Output::Sink out, err;               // of each line that it prints
};

class ChildProcess {
 public:
  // To be called by the thread that lives as long as the process. L0102: the program does not start; L0104: the system
  // gives no process.
  static Result<ChildProcess> start(const ChildStart& start);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();  // kills what is left

  // Readable when the process has ended; -1: its end was taken.
  int descriptor() const { return descriptor_; }
  void signal_group(int number) const;
  // To the process alone.
  void signal(int number) const;
  // Once it has ended: kills what is left of its group, and returns the exit status, or 128 + n where signal n ended
  // it.
  int take_end();
  Output& out() { return out_; }
  Output& err() { return err_; }

 private:
  ChildProcess(pid_t pid, int descriptor, Output out, Output err);

  pid_t pid_;
  int descriptor_;
  Output out_, err_;
};

// The environment of this process, with `variables` in the place of those of the same names.
std::vector<std::string> own_environment_with(std::vector<std::string> variables);

}  // namespace piper::launcher
