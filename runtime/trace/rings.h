// The rings of a process's ranks, from the moment that each is made.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/trace/ring_writer.h"

namespace piper::trace {

class Rings {
 public:
  // The ring of a rank, for its threads; it lives as long as this. Any thread. R0912.
  Result<RingWriter*> open(const std::string& folder, const RingWriter::Owner& owner);
  // Where those that are open can be read, in the order of opening. Any thread.
  std::vector<std::string> paths();

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<RingWriter>> rings_;
};

}  // namespace piper::trace
