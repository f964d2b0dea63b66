// Work that a search will probably ask for, done meanwhile by threads that have nothing else to do. It changes when
// something is made and never what: results are taken in the order in which one thread alone would make them.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "schemas/base/parallel.h"

namespace piper::search {

class MadeAhead {
 public:
  // A piece of work, which is done once, by whoever comes first.
  class Work;
  using Handle = std::shared_ptr<Work>;

  // With the helpers that this thread keeps (schemas/base/parallel.h), which outlive it; without any, nothing is made
  // ahead.
  MadeAhead();

  // How many more pieces are worth an offer.
  size_t room();
  Handle offer(std::function<void()> work);
  // Returns when it is done: here, where nobody has begun; else other offers are done until it is. Throws what it
  // threw.
  void finish(const Handle& work);
  // It is not wanted any more: it is not under way, nor ever will be, when this returns.
  static void abandon(const Handle& work);

 private:
  Handle next();  // of the offers the first that nobody has begun, or null

  HelperThreads* helpers_;
  size_t threads_;
  std::deque<Handle> offered_;
};

}  // namespace piper::search
