// What piper-launch passes to the ranks that it starts, beside torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK,
// LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT). Written by launcher/,
// read by runtime/bootstrap.
#pragma once

namespace piper::launch {

// Set: the process was started by piper-launch.
inline constexpr const char* kLaunchedBy = "PIPER_LAUNCH";
// Only for rank 0: the number of an open descriptor, a TCP socket that listens on MASTER_PORT. Whoever makes it holds
// the port from then on, so no other program can take it before the ranks meet there.
inline constexpr const char* kStoreSocket = "PIPER_STORE_SOCKET";
// Where ranks say how far they are: a file of schemas/live/page.h.
inline constexpr const char* kStatusPages = "PIPER_STATUS_PAGES";
// The folder of the job that a process is of, where piperd started it.
inline constexpr const char* kJobFolder = "PIPER_JOB";

// The folder in which ranks keep their rings (schemas/live/ring_layout.h), for the launcher to watch.
inline constexpr const char* kRings = "PIPER_RINGS";

}  // namespace piper::launch
