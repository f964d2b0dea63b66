// Bytes of a trace that https://ui.perfetto.dev and trace_processor read: processes, tracks in them, slices on these,
// and flows from slice to slice. Used by `piper-run --trace` for steps as they were and by `piper-plan simulate
// --trace`. It knows nothing of plans. The format is that of protos/perfetto/trace of github.com/google/perfetto.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace piper::perfetto {

// Slices with the same id are joined in the order of their times; the last one ends the flow.
struct Flow {
  uint64_t id = 0;  // 0: none
  bool last = false;
};

// A number where `text` is empty.
struct Note {
  const char* name = nullptr;
  std::string text = {};
  int64_t number = 0;
};

class TraceWriter {
 public:
  // What writers of different numbers (from 0) have written is one trace when their bytes follow each other. Flow ids
  // are common to all of them.
  explicit TraceWriter(uint32_t number = 0);

  // The id of its track. `pid` is shown beside the name; 0 would be the kernel's idle process.
  uint64_t process(int32_t pid, const std::string& name);
  uint64_t track(uint64_t process, const std::string& name);
  // Slices of a track do not overlap, and come in the order of their times. Nanoseconds.
  void slice(uint64_t track, int64_t begin_ns, int64_t end_ns, const std::string& name, Flow flow = {},
             std::span<const Note> notes = {});

  // All of it; the writer is empty then.
  std::string take() { return std::move(bytes_); }

 private:
  uint32_t sequence_;
  uint64_t next_track_;
  std::string bytes_;
};

}  // namespace piper::perfetto
