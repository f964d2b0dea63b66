// Reading mapped files where it is no disaster that their bytes are gone: the kernel then raises SIGBUS in the thread
// that reads, and the process's handler of it asks here whether that thread can leave the read.
#pragma once

#include <functional>

namespace piper::data {

// Calls `read`, which holds nothing that a destructor must give back. False where leave_guarded_read() ended it: what
// it was to write is incomplete. Exceptions pass.
bool guarded_read(const std::function<void()>& read);

// For the handler of SIGBUS, in its first line: does not return in a thread that is inside of guarded_read(), and does
// nothing in any other. Async-signal-safe.
void leave_guarded_read();

}  // namespace piper::data
