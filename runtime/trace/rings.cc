#include "runtime/trace/rings.h"

#include <utility>

namespace piper::trace {

Result<RingWriter*> Rings::open(const std::string& folder, const RingWriter::Owner& owner) {
  PIPER_ASSIGN(std::unique_ptr<RingWriter> ring, RingWriter::make(folder, owner));
  const std::lock_guard lock(mutex_);
  rings_.push_back(std::move(ring));
  return rings_.back().get();
}

std::vector<std::string> Rings::paths() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& ring : rings_) paths.push_back(ring->path());
  return paths;
}

}  // namespace piper::trace
