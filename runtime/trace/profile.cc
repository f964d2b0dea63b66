#include "runtime/trace/profile.h"

#include <cmath>
#include <ctime>

#include "schemas/plan/json_writer.h"

namespace piper::trace {

int64_t Profile::thread_ns() {
  timespec now{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::string Profile::line(const Subject& subject) const {
  const Times& times = times_.at(static_cast<size_t>(subject.instruction));
  plan::JsonWriter json;
  json.raw("{");
  json.key("rank");
  json.number(subject.rank);
  json.key("instruction");
  json.number(subject.instruction);
  json.key("stream");
  json.string(subject.stream);
  json.key("what");
  json.string(subject.what);
  const auto time = [&](const char* name, int64_t ns) {
    json.key(name);
    json.real(steps_ > 0 ? std::round(1e-2 * static_cast<double>(ns) / static_cast<double>(steps_)) / 10 : 0);
  };
  const int64_t moved = steps_ * behind_begin_.count();
  time("begin_us", times.begin_ns - moved);
  time("end_us", times.end_ns - moved);
  time("cpu_us", times.cpu_ns);
  json.raw("}");
  return json.str();
}

}  // namespace piper::trace
