// `wait`: this stream goes on when the event was recorded in this step.
#include "runtime/exec/prepare.h"

namespace piper::exec {

namespace {

class PreparedWait : public PreparedInstruction {
 public:
  PreparedWait(hal::Counter& event, const std::string& name) : event_(event), name_(name) {}
  Status execute(const StepContext& context) override {
    switch (event_.wait(static_cast<uint32_t>(context.step), hal::patient(context.wait))) {
      case hal::WaitResult::kReady: return {};
      case hal::WaitResult::kStopped: return hal::stopped();
      case hal::WaitResult::kTimedOut: break;
    }
    return Status::failure(
        "R0302", "waited " + std::to_string(context.wait.timeout.count() / 1000) + " s for event '" + name_ + "'");
  }

 private:
  hal::Counter& event_;
  const std::string& name_;
};

}  // namespace

Prepared prepare_wait(const plan::Wait& wait, int32_t, PrepareContext& context) {
  return std::unique_ptr<PreparedInstruction>(std::make_unique<PreparedWait>(
      context.events[wait.event], context.plan->events.at(static_cast<size_t>(wait.event))));
}

}  // namespace piper::exec
