#include "runtime/data/guarded_read.h"

#include <setjmp.h>

namespace piper::data {

namespace {

thread_local sigjmp_buf* way_out = nullptr;

// Apart from the frame that sigsetjmp() returns to twice.
void read_with(sigjmp_buf* out, const std::function<void()>& read) {
  struct Reset {
    ~Reset() { way_out = nullptr; }
  };
  const Reset reset;
  way_out = out;
  read();
}

}  // namespace

bool guarded_read(const std::function<void()>& read) {
  sigjmp_buf here;
  if (sigsetjmp(here, 1) != 0) {
    way_out = nullptr;
    return false;
  }
  read_with(&here, read);
  return true;
}

void leave_guarded_read() {
  if (way_out != nullptr) siglongjmp(*way_out, 1);
}

}  // namespace piper::data
