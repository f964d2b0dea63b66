// A stack that a function runs on, left and entered again at will. For one thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace piper::shim {

class Fibre {
 public:
  // `body` begins at the first enter(), and never returns.
  explicit Fibre(std::function<void()> body);
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;
  // Goes on where the fibre is, until it leaves.
  void enter();
  // Called on the fibre: back to who entered it.
  void leave();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace piper::shim
