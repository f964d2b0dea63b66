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
  json.member("rank", subject.rank);
  json.member("instruction", subject.instruction);
  json.member("stream", subject.stream);
  json.member("what", subject.what);
  const auto time = [&](const char* name, int64_t ns) {
    json.member(name, steps_ > 0 ? std::round(1e-2 * static_cast<double>(ns) / static_cast<double>(steps_)) / 10 : 0);
  };
  const int64_t moved = steps_ * after_begin_.count();
  time("begin_us", times.begin_ns - moved);
  time("end_us", times.end_ns - moved);
  time("cpu_us", times.cpu_ns);
  json.raw("}");
  return json.str();
}

}  // namespace piper::trace
