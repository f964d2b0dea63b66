// Until when a part of a job may live, in a file that the node's piperd renews and the part's piper-launch reads: where
// either of them is stopped, the other one still ends the ranks. Times are CLOCK_BOOTTIME's, which goes on while a
// machine sleeps.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "schemas/base/status.h"

namespace piper::launcher {

class Lease {
 public:
  // A new file. L0133: the system gives none.
  static Result<Lease> create(const std::string& path);
  // One that piperd has made. L0104: there is none.
  static Result<Lease> open(const std::string& path);
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&&) = delete;
  ~Lease();

  static std::chrono::nanoseconds now();
  // By one thread of one process.
  void set_until(std::chrono::nanoseconds time);
  bool is_over() const;

 private:
  struct Image;
  explicit Lease(Image* image) : image_(image) {}
  static Image* map(int file);

  Image* image_;
};

}  // namespace piper::launcher
