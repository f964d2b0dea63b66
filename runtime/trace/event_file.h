// What TensorBoard draws: an event file of scalars by step, in a folder that it watches. Written by the reporting rank.
// The form is that of TensorFlow's summaries: records of a length, its checksum, an Event message, its checksum.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/status.h"

namespace piper::trace {

struct Scalar {
  std::string tag;
  float value = 0;
};

class EventFile {
 public:
  // Makes a new file in `folder`, and the folder. `first`: the step that this run begins with; TensorBoard forgets what
  // earlier files of the folder say of it and of later ones. An empty folder writes nowhere. R0601.
  static Result<EventFile> open(const std::string& folder, int64_t first);
  // Flushed, so that a run can be followed. R0601.
  Status write(int64_t step, const std::vector<Scalar>& scalars);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  Status append(std::string_view event);

  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
};

}  // namespace piper::trace
