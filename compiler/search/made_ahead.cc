#include "compiler/search/made_ahead.h"

#include <atomic>
#include <chrono>
#include <future>
#include <utility>

namespace piper::search {
namespace {

constexpr size_t kForEach = 2;  // offers that wait, for each thread: one may be too short to look for the next in time

}  // namespace

class MadeAhead::Work {
 public:
  explicit Work(std::function<void()> work) : work_(std::move(work)), ended_(work_.get_future()) {}

  // Whether it was done by this call.
  bool begin() {
    if (begun_.test_and_set()) return false;
    work_();
    return true;
  }
  bool begun() const { return begun_.test(); }
  bool ended() const { return ended_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  void take() { ended_.get(); }
  void abandon() {
    if (ended_.valid() && begun_.test_and_set()) ended_.wait();
  }

 private:
  std::packaged_task<void()> work_;
  std::future<void> ended_;
  std::atomic_flag begun_;
};

MadeAhead::MadeAhead() : helpers_(HelperThreads::kept()), threads_(helpers_ != nullptr ? loop_threads() - 1 : 0) {}

size_t MadeAhead::room() {
  std::erase_if(offered_, [](const Handle& work) { return work->begun(); });
  const size_t most = kForEach * threads_;
  return most > offered_.size() ? most - offered_.size() : 0;
}

MadeAhead::Handle MadeAhead::offer(std::function<void()> work) {
  const auto offered = std::make_shared<Work>(std::move(work));
  if (threads_ == 0) return offered;
  offered_.push_back(offered);
  helpers_->call_when_free([offered] { offered->begin(); });
  return offered;
}

void MadeAhead::finish(const Handle& work) {
  if (!work->begin()) {
    Handle other;
    while (!work->ended() && (other = next()) != nullptr) other->begin();
  }
  work->take();
}

void MadeAhead::abandon(const Handle& work) { work->abandon(); }

MadeAhead::Handle MadeAhead::next() {
  while (!offered_.empty()) {
    const Handle first = std::move(offered_.front());
    offered_.pop_front();
    if (!first->begun()) return first;
  }
  return nullptr;
}

}  // namespace piper::search
