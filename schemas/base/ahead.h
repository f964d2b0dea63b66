// A value that is computed ahead of its use where a thread is free.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "schemas/base/parallel.h"

namespace piper {

// One of the helpers that this thread keeps computes the value once it is free; get() does, where none has begun by
// then. So nobody waits for work that nobody does, and no thread is started for it. Destroyed or abandoned, it waits
// for a helper that has begun: `make` may refer to what outlives this.
template <class Value>
class Ahead {
 public:
  Ahead() = default;
  explicit Ahead(std::function<Value()> make) : work_(std::make_shared<Work>(std::move(make))) {
    if (HelperThreads* helpers = HelperThreads::kept()) helpers->call_when_free([work = work_] { work->begin(); });
  }
  ~Ahead() { abandon(); }
  Ahead(Ahead&& other) noexcept = default;
  Ahead& operator=(Ahead&& other) noexcept {
    abandon();
    work_ = std::move(other.work_);
    return *this;
  }

  // Whether there is a value to be had: from the construction with `make` until get() or abandon().
  bool valid() const { return work_ != nullptr; }
  // The value, or what `make` threw. Once.
  Value get() {
    const std::shared_ptr<Work> work = std::move(work_);
    work->begin();
    return work->value.get();
  }
  // The value is not wanted any more.
  void abandon() {
    const std::shared_ptr<Work> work = std::move(work_);
    if (work != nullptr && work->begun.test_and_set()) work->value.wait();
  }

 private:
  struct Work {
    explicit Work(std::function<Value()> make) : make(std::move(make)), value(this->make.get_future()) {}
    void begin() {
      if (!begun.test_and_set()) make();
    }
    std::packaged_task<Value()> make;
    std::future<Value> value;
    std::atomic_flag begun;
  };
  std::shared_ptr<Work> work_;
};

}  // namespace piper
